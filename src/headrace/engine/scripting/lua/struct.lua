-- struct: packed bytes for scripts, with the formats and the error texts of Roberto Ierusalimschy's library as Redis has it.
--
--     pack(format, value, …)      the bytes
--     unpack(format, text, at)    the values, and the place behind the last one
--     size(format)                how many bytes a format without `s` and `c0` takes
--
--     > < !n        big-endian, little-endian (the beginning), alignment to n, a power of 2 (1 at the beginning)
--     b h l T in    signed integers of 1, 2, 8, 8, n bytes (4);  B H L In  unsigned ones
--     f d           numbers of 4 and 8 bytes
--     cn s x        n characters (c0: all of them; when reading, as many as the number before says), a text with a zero
--                   behind it, a zero
--
-- How numbers with a fraction lie there is asked of Python.

local float_bytes, float_of = ...

local error, select, tonumber, type, unpack = error, select, tonumber, type, unpack
local byte, ceil, char, concat, find, floor, format, rep, reverse, sub =
      string.byte, math.ceil, string.char, table.concat, string.find, math.floor, string.format, string.rep, string.reverse,
      string.sub

local LARGEST_INTEGER, LARGEST_ALIGNMENT, MOST = 32, 8, 2 ^ 31 - 1
local MOST_RESULTS = 7990

local sizes = {b = 1, B = 1, h = 2, H = 2, l = 8, L = 8, T = 8, f = 4, d = 8, x = 1}

local function refuse(name, number, text)
    error("bad argument #" .. number .. " to '" .. name .. "' (" .. text .. ")", 4)
end

local function check_text(name, number, value)
    if type(value) == "number" then return format("%.14g", value) end
    if type(value) ~= "string" then
        refuse(name, number, "string expected, got " .. (value == nil and "no value" or type(value)))
    end
    return value
end

-- The number at a place of a format, or what stands for one, and the place behind it.
local function number_at(text, at, default)
    local _, last = find(text, "^%d+", at)
    if not last then return default, at end
    local number = tonumber(sub(text, at, last))
    if number > MOST then error("integral size overflow", 4) end
    return number, last + 1
end

-- Walk over a format: gives each option with its size and with the bytes of alignment before it to `visit`, which
-- returns where the next one is.
local function walk(name, text, start, visit)
    local place, at, aligned, big = start, 1, 1, false
    while at <= #text do
        local option, size = sub(text, at, at), 0
        at = at + 1
        if option == "c" then
            size, at = number_at(text, at, 1)
        elseif option == "i" or option == "I" then
            size, at = number_at(text, at, 4)
            if size > LARGEST_INTEGER then
                error(format("integral size %d is larger than limit of %d", size, LARGEST_INTEGER), 3)
            end
        else
            size = sizes[option] or 0
        end
        local gap = 0
        if size > 0 and option ~= "c" then
            local unit = size > aligned and aligned or size
            gap = (unit - place % unit) % unit
        end
        if option == ">" then
            big = true
        elseif option == "<" then
            big = false
        elseif option == "!" then
            aligned, at = number_at(text, at, LARGEST_ALIGNMENT)
            local power = aligned
            while power > 1 and power % 2 == 0 do power = power / 2 end
            if power ~= 1 then error(format("alignment %d is not a power of 2", aligned), 3) end
        elseif option ~= " " then
            if not sizes[option] and not find(option, "^[ciIs]$") then
                refuse(name, 1, "invalid format option '" .. option .. "'")
            end
            place = visit(option, size, place + gap, gap, big)
        end
    end
    return place
end

local function integer_text(number, size, big)
    number = number < 0 and ceil(number) or floor(number)
    if number ~= number or number >= 2 ^ 64 or number < -2 ^ 63 then number = -2 ^ 63 end
    local bytes = {}
    for i = 1, size do
        bytes[i] = char(i > 8 and 0 or number % 256)
        number = floor(number / 256)
    end
    local text = concat(bytes)
    return big and reverse(text) or text
end

local function integer_of(text, signed, big)
    if not big then text = reverse(text) end
    if #text > 8 then text = sub(text, -8) end
    local high, low = 0, 0
    for i = 1, #text do
        if #text - i >= 4 then high = high * 256 + byte(text, i) else low = low * 256 + byte(text, i) end
    end
    if signed and #text > 0 and byte(text) >= 128 then
        if #text > 4 then high = high - 256 ^ (#text - 4) else low = low - 256 ^ #text end
    end
    return high * 2 ^ 32 + low
end

local function pack(...)
    local values, argument, pieces = {...}, 1, {}
    local count = select("#", ...)

    local function next_number()
        argument = argument + 1
        local number = tonumber(values[argument])
        if not number then
            refuse("pack", argument, "number expected, got " .. (argument > count and "no value" or type(values[argument])))
        end
        return number
    end

    walk("pack", check_text("pack", 1, values[1]), 0, function(option, size, place, gap, big)
        if gap > 0 then pieces[#pieces + 1] = rep("\0", gap) end
        if option == "x" then
            pieces[#pieces + 1] = "\0"
        elseif option == "f" or option == "d" then
            local text = float_bytes(next_number(), size)
            pieces[#pieces + 1] = big and text or reverse(text)
        elseif option == "c" or option == "s" then
            argument = argument + 1
            local text = check_text("pack", argument, values[argument])
            if size == 0 then size = #text end
            if #text < size then refuse("pack", argument + 1, "string too short") end
            pieces[#pieces + 1] = sub(text, 1, size)
            if option == "s" then
                pieces[#pieces + 1] = "\0"
                size = size + 1
            end
        else
            pieces[#pieces + 1] = integer_text(next_number(), size, big)
        end
        return place + size
    end)
    return concat(pieces)
end

local function read(text, data, offset)
    text, data = check_text("unpack", 1, text), check_text("unpack", 2, data)
    local start = tonumber(offset == nil and 1 or offset)
    if not start then refuse("unpack", 3, "number expected, got " .. type(offset)) end
    start = floor(start)
    if not (start > 0) then refuse("unpack", 3, "offset must be 1 or greater") end
    local values, count = {}, 0

    local function check_room(place, size)
        if not (size <= #data and place <= #data - size) then refuse("unpack", 2, "data string too short") end
    end

    local behind = walk("unpack", text, start - 1, function(option, size, place, _, big)
        check_room(place, size)
        if count >= MOST_RESULTS then error("stack overflow (too many results)", 4) end
        local value
        if option == "x" then
            return place + size
        elseif option == "f" or option == "d" then
            value = sub(data, place + 1, place + size)
            value = float_of(big and value or reverse(value))
        elseif option == "s" then
            local zero = find(data, "\0", place + 1, true)
            if not zero then error("unfinished string in data", 4) end
            value = sub(data, place + 1, zero - 1)
            size = #value + 1
        elseif option == "c" then
            if size == 0 then
                if count == 0 or not tonumber(values[count]) then error("format 'c0' needs a previous size", 4) end
                size = floor(tonumber(values[count]))
                if not (size >= 0) then refuse("unpack", 2, "data string too short") end
                count = count - 1
                check_room(place, size)
            end
            value = sub(data, place + 1, place + size)
        else
            value = integer_of(sub(data, place + 1, place + size), find(option, "%l") ~= nil, big)
        end
        count = count + 1
        values[count] = value
        return place + size
    end)
    values[count + 1] = behind + 1
    return values, count + 1
end

local function unpack_values(text, data, offset)
    local values, count = read(text, data, offset)
    return unpack(values, 1, count)
end

local function size_of(text)
    return walk("size", check_text("size", 1, text), 0, function(option, size, place)
        if option == "s" then refuse("size", 1, "variable-size format 's'") end
        if option == "c" and size == 0 then refuse("size", 1, "variable-length format 'c0'") end
        return place + size
    end)
end

return {pack = pack, unpack = unpack_values, size = size_of}
