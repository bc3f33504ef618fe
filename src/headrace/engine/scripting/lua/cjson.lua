-- cjson: JSON for scripts, with the choices and the error texts of lua-cjson 2.1 as Redis has it.
--
--     {}                an empty table is an object
--     {1, 2, [4] = 4}   keys that are all positive integers make an array, with null in the gaps …
--     {[1000] = 1}      … unless it would be mostly gaps, which is refused
--     1.5               14 digits
--
-- Bytes above 127 pass as they are; \u escapes become UTF-8. What a script sets (`encode_max_depth` and the like) lasts
-- until it ends; `new` gives it settings of its own.

local null = ...

local error, next, rawget, select, tonumber, tostring, type = error, next, rawget, select, tonumber, tostring, type
local byte, char, find, floor, format, gsub, huge, lower, sub, concat =
      string.byte, string.char, string.find, math.floor, string.format, string.gsub, math.huge, string.lower, string.sub,
      table.concat

local DEFAULTS = {
    encode_depth = 1000, decode_depth = 1000, sparse_convert = false, sparse_ratio = 2, sparse_safe = 10,
    number_format = "%.14g", precision = 14, keep_buffer = true, encode_invalid = false, decode_invalid = true,
}

-- The settings that hold while a text is written or read; each entry below sets them.
local settings = DEFAULTS

-- --- encoding ----------------------------------------------------------------------------------------------------------

local escapes = {
    ['"'] = '\\"', ["\\"] = "\\\\", ["/"] = "\\/", ["\b"] = "\\b", ["\f"] = "\\f", ["\n"] = "\\n", ["\r"] = "\\r",
    ["\t"] = "\\t",
}
local function escape(character) return escapes[character] or format("\\u%04x", byte(character)) end

local function quote(text) return '"' .. gsub(text, '[%c"\\/\127]', escape) .. '"' end

-- The length of a table as an array; nil where it is none; false where it would be mostly gaps.
local function array_length(t)
    local most, count = 0, 0
    for key in next, t do
        if type(key) ~= "number" or key < 1 or floor(key) ~= key then return nil end
        if key > most then most = key end
        count = count + 1
    end
    if settings.sparse_ratio > 0 and most > count * settings.sparse_ratio and most > settings.sparse_safe then
        if settings.sparse_convert then return nil end
        return false
    end
    return most
end

local function number_text(number)
    if number ~= number or number == huge or number == -huge then
        if not settings.encode_invalid then return nil, "Cannot serialise number: must not be NaN or Inf" end
        if settings.encode_invalid == "null" then return "null" end
        if number ~= number then return "nan" end
    end
    return format(settings.number_format, number)
end

local encode_value

local function encode_array(out, t, length, depth)
    out[#out + 1] = "["
    for i = 1, length do
        if i > 1 then out[#out + 1] = "," end
        local mistake = encode_value(out, rawget(t, i), depth)
        if mistake then return mistake end
    end
    out[#out + 1] = "]"
end

local function encode_object(out, t, depth)
    local first = true
    out[#out + 1] = "{"
    for key, value in next, t do
        if not first then out[#out + 1] = "," end
        first = false
        if type(key) == "string" then
            out[#out + 1] = quote(key) .. ":"
        elseif type(key) == "number" then
            local text, mistake = number_text(key)
            if not text then return mistake end
            out[#out + 1] = '"' .. text .. '":'
        else
            return "Cannot serialise " .. type(key) .. ": table key must be a number or string"
        end
        local mistake = encode_value(out, value, depth)
        if mistake then return mistake end
    end
    out[#out + 1] = "}"
end

-- Adds the text of a value; returns what is wrong with it, if something is.
encode_value = function(out, value, depth)
    local kind = type(value)
    if kind == "string" then
        out[#out + 1] = quote(value)
    elseif kind == "number" then
        local text, mistake = number_text(value)
        if not text then return mistake end
        out[#out + 1] = text
    elseif kind == "boolean" then
        out[#out + 1] = value and "true" or "false"
    elseif kind == "nil" or value == null then
        out[#out + 1] = "null"
    elseif kind == "table" then
        depth = depth + 1
        if depth > settings.encode_depth then return "Cannot serialise, excessive nesting (" .. depth .. ")" end
        local length = array_length(value)
        if length == false then return "Cannot serialise table: excessively sparse array" end
        if length and length > 0 then return encode_array(out, value, length, depth) end
        return encode_object(out, value, depth)
    else
        return "Cannot serialise " .. kind .. ": type not supported"
    end
end

local function encode(config, ...)
    if select("#", ...) ~= 1 then error("bad argument #1 to 'encode' (expected 1 argument)", 3) end
    settings = config
    local out = {}
    local mistake = encode_value(out, (...), 0)
    if mistake then error(mistake, 3) end
    return concat(out)
end

-- --- decoding ----------------------------------------------------------------------------------------------------------
-- A token is its kind, its value, and the place behind it; a mistake is T_ERROR and what is wrong.

local names = {
    ["{"] = "T_OBJ_BEGIN", ["}"] = "T_OBJ_END", ["["] = "T_ARR_BEGIN", ["]"] = "T_ARR_END", [":"] = "T_COLON",
    [","] = "T_COMMA",
}
local unescaped = {
    ['"'] = '"', ["\\"] = "\\", ["/"] = "/", b = "\b", f = "\f", n = "\n", r = "\r", t = "\t",
}

local function utf8(code)
    if code < 0x80 then return char(code) end
    if code < 0x800 then return char(0xC0 + floor(code / 64), 0x80 + code % 64) end
    if code < 0x10000 then return char(0xE0 + floor(code / 4096), 0x80 + floor(code / 64) % 64, 0x80 + code % 64) end
    return char(
        0xF0 + floor(code / 262144), 0x80 + floor(code / 4096) % 64, 0x80 + floor(code / 64) % 64, 0x80 + code % 64
    )
end

-- The character of the escape whose backslash is at a place, and the place behind it; nil and what is wrong.
local function unescape(text, at)
    local letter = sub(text, at + 1, at + 1)
    if unescaped[letter] then return unescaped[letter], at + 2 end
    if letter ~= "u" then return nil, "invalid escape code" end
    local digits = sub(text, at + 2, at + 5)
    local code = find(digits, "^%x%x%x%x$") and tonumber(digits, 16)
    if not code then return nil, "invalid unicode escape code" end
    at = at + 6
    if code >= 0xDC00 and code < 0xE000 then return nil, "invalid unicode escape code" end
    if code >= 0xD800 and code < 0xDC00 then
        digits = find(text, "^\\u%x%x%x%x", at) and tonumber(sub(text, at + 2, at + 5), 16)
        if not digits or digits < 0xDC00 or digits >= 0xE000 then return nil, "invalid unicode escape code" end
        code = 0x10000 + (code - 0xD800) * 1024 + (digits - 0xDC00)
        at = at + 6
    end
    return utf8(code), at
end

local function string_token(text, start)
    local pieces, at = {}, start + 1
    while true do
        local stop = find(text, '["\\%c]', at)
        if not stop then return "T_ERROR", "unexpected end of string", #text + 1 end
        local mark = sub(text, stop, stop)
        pieces[#pieces + 1] = sub(text, at, stop - 1)
        if mark == '"' then return "T_STRING", concat(pieces), stop + 1 end
        if mark == "\\" then
            local character, behind = unescape(text, stop)
            if not character then return "T_ERROR", behind, stop end
            pieces[#pieces + 1] = character
            at = behind
        else
            pieces[#pieces + 1] = mark
            at = stop + 1
        end
    end
end

-- Numbers that are none in JSON: with a plus, hexadecimal, with leading zeros, infinite, not a number.
local function invalid_number(text, at)
    return find(text, "^[+]", at) or find(text, "^-?0[xX%d]", at) or find(text, "^-?[iI][nN][fF]", at)
           or find(text, "^-?[nN][aA][nN]", at)
end

local words = {inf = huge, infinity = huge, nan = 0 / 0}

local function number_token(text, at)
    local _, last = find(text, "^[+-]?0[xX]%x+", at)
    if not last then _, last = find(text, "^[+-]?%d+%.?%d*[eE][+-]?%d+", at) end
    if not last then _, last = find(text, "^[+-]?%d+%.?%d*", at) end
    if last then
        local number = tonumber((gsub(sub(text, at, last), "^+", "")))
        if number then return "T_NUMBER", number, last + 1 end
    end
    for _, pattern in next, {"^([+-]?)([iI][nN][fF][iI][nN][iI][tT][yY])", "^([+-]?)([iI][nN][fF])",
                             "^([+-]?)([nN][aA][nN])"} do
        local _, stop, sign, word = find(text, pattern, at)
        if stop then return "T_NUMBER", sign == "-" and -words[lower(word)] or words[lower(word)], stop + 1 end
    end
    return "T_ERROR", "invalid number", at
end

-- The next token: its kind, its value, where it begins, and the place behind it.
local function next_token(text, at)
    at = find(text, "[^ \t\r\n]", at)
    if not at then return "T_END", nil, #text + 1, #text + 1 end
    local mark = sub(text, at, at)
    if names[mark] then return names[mark], nil, at, at + 1 end
    if mark == '"' then
        local kind, value, behind = string_token(text, at)
        if kind == "T_ERROR" then return kind, value, behind, behind end
        return kind, value, at, behind
    end
    if find(text, "^true", at) then return "T_BOOLEAN", true, at, at + 4 end
    if find(text, "^false", at) then return "T_BOOLEAN", false, at, at + 5 end
    if find(text, "^null", at) then return "T_NULL", null, at, at + 4 end
    local invalid = invalid_number(text, at)
    if find(text, "^[-%d]", at) then
        if invalid and not settings.decode_invalid then return "T_ERROR", "invalid number", at, at end
    elseif not (invalid and settings.decode_invalid) then
        return "T_ERROR", "invalid token", at, at
    end
    local kind, value, behind = number_token(text, at)
    return kind, value, at, behind
end

local function expected(what, kind, value, at)
    return "Expected " .. what .. " but found " .. (kind == "T_ERROR" and value or kind) .. " at character " .. at
end

local decode_token

local function decode_object(text, at, depth)
    local object = {}
    local kind, value, place, behind = next_token(text, at)
    if kind == "T_OBJ_END" then return object, behind end
    while true do
        if kind ~= "T_STRING" then return nil, expected("object key string", kind, value, place) end
        local key = value
        kind, value, place, behind = next_token(text, behind)
        if kind ~= "T_COLON" then return nil, expected("colon", kind, value, place) end
        kind, value, place, behind = next_token(text, behind)
        local item, after = decode_token(text, kind, value, place, behind, depth)
        if item == nil then return nil, after end
        object[key] = item
        kind, value, place, behind = next_token(text, after)
        if kind == "T_OBJ_END" then return object, behind end
        if kind ~= "T_COMMA" then return nil, expected("comma or object end", kind, value, place) end
        kind, value, place, behind = next_token(text, behind)
    end
end

local function decode_array(text, at, depth)
    local array, count = {}, 0
    local kind, value, place, behind = next_token(text, at)
    if kind == "T_ARR_END" then return array, behind end
    while true do
        local item, after = decode_token(text, kind, value, place, behind, depth)
        if item == nil then return nil, after end
        count = count + 1
        array[count] = item
        kind, value, place, behind = next_token(text, after)
        if kind == "T_ARR_END" then return array, behind end
        if kind ~= "T_COMMA" then return nil, expected("comma or array end", kind, value, place) end
        kind, value, place, behind = next_token(text, behind)
    end
end

-- The value that a token begins, and the place behind it; nil and what is wrong.
decode_token = function(text, kind, value, place, behind, depth)
    if kind == "T_STRING" or kind == "T_NUMBER" or kind == "T_BOOLEAN" or kind == "T_NULL" then return value, behind end
    if kind ~= "T_OBJ_BEGIN" and kind ~= "T_ARR_BEGIN" then return nil, expected("value", kind, value, place) end
    depth = depth + 1
    if depth > settings.decode_depth then
        return nil, "Found too many nested data structures (" .. depth .. ") at character " .. place
    end
    if kind == "T_OBJ_BEGIN" then return decode_object(text, behind, depth) end
    return decode_array(text, behind, depth)
end

local function decode(config, ...)
    if select("#", ...) ~= 1 then error("bad argument #1 to 'decode' (expected 1 argument)", 3) end
    local text = ...
    if type(text) == "number" then text = tostring(text) end
    if type(text) ~= "string" then
        error("bad argument #1 to 'decode' (string expected, got " .. type(text) .. ")", 3)
    end
    settings = config
    local kind, value, place, behind = next_token(text, 1)
    local result, after = decode_token(text, kind, value, place, behind, 0)
    if result == nil then error(after, 3) end
    kind, value, place = next_token(text, after)
    if kind ~= "T_END" then error(expected("the end", kind, value, place), 3) end
    return result
end

-- --- settings ------------------------------------------------------------------------------------------------------------

local MOST = 2 ^ 31 - 1

-- What the setting becomes by the argument of that number of a function; a nil leaves it.
local function integer_option(name, number, given, current, least, most)
    if given == nil then return current end
    local value = tonumber(given)
    if not value then
        error("bad argument #" .. number .. " to '" .. name .. "' (number expected, got " .. type(given) .. ")", 4)
    end
    value = value < 0 and -floor(-value) or floor(value)
    if not (value >= least and value <= most) then
        error(format("bad argument #1 to '%s' (expected integer between %d and %d)", name, least, most), 4)
    end
    return value
end

local function switch_option(name, given, current, also)
    if given == nil then return current end
    if type(given) == "boolean" then return given end
    if given == "off" then return false end
    if given == "on" then return true end
    if also and given == also then return also end
    if type(given) ~= "string" then
        error("bad argument #1 to '" .. name .. "' (string expected, got " .. type(given) .. ")", 4)
    end
    error("bad argument #1 to '" .. name .. "' (invalid option '" .. given .. "')", 4)
end

local function check_count(name, most, ...)
    if select("#", ...) > most then
        error("bad argument #" .. most + 1 .. " to '" .. name .. "' (found too many arguments)", 3)
    end
end

-- A library with settings of its own, and what sets them back.
local function make()
    local config = {}
    local changed = false

    local function reset()
        for name, value in next, DEFAULTS do config[name] = value end
        changed = false
    end
    reset()

    local library = {null = null, _NAME = "cjson", _VERSION = "2.1.0"}
    function library.encode(...) return (encode(config, ...)) end
    function library.decode(...) return (decode(config, ...)) end

    function library.encode_sparse_array(...)
        check_count("encode_sparse_array", 3, ...)
        local convert, ratio, safe = ...
        changed = true
        config.sparse_convert = switch_option("encode_sparse_array", convert, config.sparse_convert)
        config.sparse_ratio = integer_option("encode_sparse_array", 2, ratio, config.sparse_ratio, 0, MOST)
        config.sparse_safe = integer_option("encode_sparse_array", 3, safe, config.sparse_safe, 0, MOST)
        return config.sparse_convert, config.sparse_ratio, config.sparse_safe
    end

    function library.encode_max_depth(...)
        check_count("encode_max_depth", 1, ...)
        changed = true
        config.encode_depth = integer_option("encode_max_depth", 1, (...), config.encode_depth, 1, MOST)
        return config.encode_depth
    end

    function library.decode_max_depth(...)
        check_count("decode_max_depth", 1, ...)
        changed = true
        config.decode_depth = integer_option("decode_max_depth", 1, (...), config.decode_depth, 1, MOST)
        return config.decode_depth
    end

    function library.encode_number_precision(...)
        check_count("encode_number_precision", 1, ...)
        changed = true
        config.precision = integer_option("encode_number_precision", 1, (...), config.precision, 1, 14)
        config.number_format = "%." .. config.precision .. "g"
        return config.precision
    end

    function library.encode_keep_buffer(...)
        check_count("encode_keep_buffer", 1, ...)
        changed = true
        config.keep_buffer = switch_option("encode_keep_buffer", (...), config.keep_buffer)
        return config.keep_buffer
    end

    function library.encode_invalid_numbers(...)
        check_count("encode_invalid_numbers", 1, ...)
        changed = true
        config.encode_invalid = switch_option("encode_invalid_numbers", (...), config.encode_invalid, "null")
        return config.encode_invalid
    end

    function library.decode_invalid_numbers(...)
        check_count("decode_invalid_numbers", 1, ...)
        changed = true
        config.decode_invalid = switch_option("decode_invalid_numbers", (...), config.decode_invalid)
        return config.decode_invalid
    end

    function library.new() return (make()) end

    return library, function() if changed then reset() end end
end

return make()
