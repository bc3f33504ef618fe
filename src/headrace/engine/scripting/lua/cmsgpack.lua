-- cmsgpack: MessagePack for scripts, as lua-cmsgpack writes and reads it.
--
--     pack(a, b, …)         the values one behind the other
--     unpack(text)          all values of the text
--     unpack_one(text, at)  the place behind one value (-1: the end), and the value
--     unpack_limit(text, n, at)  the same for n values
--
-- A table whose keys are 1, 2 … n is an array, any other a map; tables more than 16 deep are nil. Integers are as short
-- as they can be, and so are other numbers: four bytes where that loses nothing, else eight. How they lie there is asked
-- of Python.

local pack_float, unpack_float = ...

local error, next, rawget, select, type, unpack = error, next, rawget, select, type, unpack
local byte, char, concat, floor, sub = string.byte, string.char, table.concat, math.floor, string.sub

local DEEPEST = 16
local BAD, SHORT = "Bad data format in input.", "Missing bytes in input."

-- --- packing -----------------------------------------------------------------------------------------------------------

-- A whole number as so many bytes, the highest first; a negative one in two's complement.
local function big_endian(number, size)
    local bytes = {}
    for i = size, 1, -1 do
        bytes[i] = char(number % 256)
        number = floor(number / 256)
    end
    return concat(bytes)
end

local function pack_integer(n)
    if n >= 0 then
        if n < 128 then return char(n) end
        if n < 0x100 then return "\204" .. big_endian(n, 1) end
        if n < 0x10000 then return "\205" .. big_endian(n, 2) end
        if n < 0x100000000 then return "\206" .. big_endian(n, 4) end
        return "\207" .. big_endian(n, 8)
    end
    if n >= -32 then return char(256 + n) end
    if n >= -0x80 then return "\208" .. big_endian(n, 1) end
    if n >= -0x8000 then return "\209" .. big_endian(n, 2) end
    if n >= -0x80000000 then return "\210" .. big_endian(n, 4) end
    return "\211" .. big_endian(n, 8)
end

local function pack_number(n)
    if n == floor(n) and n >= -2^63 and n < 2^63 then return pack_integer(n) end
    return pack_float(n)
end

local function pack_string(text)
    local size = #text
    if size < 32 then return char(160 + size) .. text end
    if size < 0x100 then return "\217" .. big_endian(size, 1) .. text end
    if size < 0x10000 then return "\218" .. big_endian(size, 2) .. text end
    return "\219" .. big_endian(size, 4) .. text
end

-- The header of a collection: its length in the first byte, in two bytes, or in four.
local function header(short, long, length)
    if length < 16 then return char(short + length) end
    if length < 0x10000 then return char(long) .. big_endian(length, 2) end
    return char(long + 1) .. big_endian(length, 4)
end

-- How many items an array has; nil where the table is a map.
local function array_length(t)
    local most, count = 0, 0
    for key in next, t do
        if type(key) ~= "number" or key < 1 or floor(key) ~= key then return nil end
        if key > most then most = key end
        count = count + 1
    end
    return most == count and count or nil
end

local function pack_value(out, value, depth)
    local kind = type(value)
    if kind == "string" then
        out[#out + 1] = pack_string(value)
    elseif kind == "number" then
        out[#out + 1] = pack_number(value)
    elseif kind == "boolean" then
        out[#out + 1] = value and "\195" or "\194"
    elseif kind == "table" and depth < DEEPEST then
        local length = array_length(value)
        if length then
            out[#out + 1] = header(144, 220, length)
            for i = 1, length do pack_value(out, rawget(value, i), depth + 1) end
        else
            local count = 0
            for _ in next, value do count = count + 1 end
            out[#out + 1] = header(128, 222, count)
            for key, item in next, value do
                pack_value(out, key, depth + 1)
                pack_value(out, item, depth + 1)
            end
        end
    else
        out[#out + 1] = "\192"
    end
end

local function pack(...)
    local count = select("#", ...)
    if count == 0 then error("bad argument #0 to 'pack' (MessagePack pack needs input.)", 2) end
    local out = {}
    for i = 1, count do pack_value(out, (select(i, ...)), 0) end
    return concat(out)
end

-- --- unpacking ---------------------------------------------------------------------------------------------------------
-- Each returns the place behind what it read, and the value; or nil and what is wrong.

local function read_unsigned(text, at, size)
    if at + size - 1 > #text then return nil, SHORT end
    local number = 0
    for i = at, at + size - 1 do number = number * 256 + byte(text, i) end
    return at + size, number
end

local function read_signed(text, at, size)
    local behind, number = read_unsigned(text, at, size)
    if behind and byte(text, at) >= 128 then
        -- Taken apart before it is added up: near 2^64 a double has no units.
        number = 0
        for i = at, at + size - 1 do number = number * 256 + (255 - byte(text, i)) end
        number = -number - 1
    end
    return behind, number
end

local function read_text(text, at, size)
    if at + size - 1 > #text then return nil, SHORT end
    return at + size, sub(text, at, at + size - 1)
end

local function read_float(text, at, size)
    local behind, bytes = read_text(text, at, size)
    if not behind then return nil, bytes end
    return behind, unpack_float(bytes)
end

local read_value

local function read_array(text, at, length)
    local array = {}
    for i = 1, length do
        local value
        at, value = read_value(text, at)
        if not at then return nil, value end
        array[i] = value
    end
    return at, array
end

local function read_map(text, at, length)
    local map = {}
    for _ = 1, length do
        local key, value
        at, key = read_value(text, at)
        if not at then return nil, key end
        at, value = read_value(text, at)
        if not at then return nil, value end
        if key == nil or key ~= key then return nil, BAD end
        map[key] = value
    end
    return at, map
end

-- By first byte: who reads what follows it, and how wide that, or its length, is.
local readers = {
    [202] = {read_float, 4}, [203] = {read_float, 8},
    [204] = {read_unsigned, 1}, [205] = {read_unsigned, 2}, [206] = {read_unsigned, 4}, [207] = {read_unsigned, 8},
    [208] = {read_signed, 1}, [209] = {read_signed, 2}, [210] = {read_signed, 4}, [211] = {read_signed, 8},
}
local sized = {
    [196] = {read_text, 1}, [197] = {read_text, 2}, [198] = {read_text, 4},
    [217] = {read_text, 1}, [218] = {read_text, 2}, [219] = {read_text, 4},
    [220] = {read_array, 2}, [221] = {read_array, 4}, [222] = {read_map, 2}, [223] = {read_map, 4},
}

read_value = function(text, at)
    local first = byte(text, at)
    if not first then return nil, SHORT end
    if first < 128 then return at + 1, first end
    if first < 144 then return read_map(text, at + 1, first - 128) end
    if first < 160 then return read_array(text, at + 1, first - 144) end
    if first < 192 then return read_text(text, at + 1, first - 160) end
    if first >= 224 then return at + 1, first - 256 end
    if first == 192 then return at + 1, nil end
    if first == 194 or first == 195 then return at + 1, first == 195 end
    local reader = readers[first]
    if reader then return reader[1](text, at + 1, reader[2]) end
    reader = sized[first]
    if not reader then return nil, BAD end
    local behind, length = read_unsigned(text, at + 1, reader[2])
    if not behind then return nil, length end
    return reader[1](text, behind, length)
end

-- So many values from an offset on; none asked for: all. The offset behind them, -1 at the end, and the values.
local function read_values(text, most, offset)
    if type(text) ~= "string" then error("bad argument #1 to 'unpack' (string expected, got " .. type(text) .. ")", 3) end
    if offset < 0 or most < 0 then
        error("Invalid request to unpack with offset of " .. offset .. " and limit of " .. #text .. ".", 3)
    elseif offset > #text then
        error("Start offset " .. offset .. " greater than input length " .. #text .. ".", 3)
    end
    local at, values, count = offset + 1, {}, 0
    while at <= #text and (most == 0 or count < most) do
        local behind, value = read_value(text, at)
        if not behind then error(value, 3) end
        at, count = behind, count + 1
        values[count] = value
    end
    return at > #text and -1 or at - 1, values, count
end

local function unpack_all(text)
    local _, values, count = read_values(text, 0, 0)
    return unpack(values, 1, count)
end

local function unpack_one(text, offset)
    local behind, values, count = read_values(text, 1, offset or 0)
    return behind, unpack(values, 1, count)
end

local function unpack_limit(text, limit, offset)
    local behind, values, count = read_values(text, limit, offset or 0)
    return behind, unpack(values, 1, count)
end

return {
    pack = pack, unpack = unpack_all, unpack_one = unpack_one, unpack_limit = unpack_limit,
    _NAME = "cmsgpack", _VERSION = "lua-cmsgpack 0.4.0",
    _COPYRIGHT = "Copyright (C) 2012, Salvatore Sanfilippo", _DESCRIPTION = "MessagePack C implementation for Lua",
}
