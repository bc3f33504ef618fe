-- cjson: JSON for scripts, with the choices and the error texts of lua-cjson 2.1 as Redis has it.
--
--     {}                an empty table is an object
--     {1, 2, [4] = 4}   keys that are all positive integers make an array, with null in the gaps …
--     {[1000] = 1}      … unless it would be mostly gaps, which is refused
--     1.5               14 digits
--
-- Bytes above 127 pass as they are; \u escapes become UTF-8.

local null = ...

local error, next, rawget, select, tonumber, tostring, type = error, next, rawget, select, tonumber, tostring, type
local byte, char, find, floor, format, gsub, huge, sub, concat =
      string.byte, string.char, string.find, math.floor, string.format, string.gsub, math.huge, string.sub, table.concat

local DEEPEST = 1000
local SPARSE_RATIO, SPARSE_SAFE = 2, 10

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
    if most > count * SPARSE_RATIO and most > SPARSE_SAFE then return false end
    return most
end

local function number_text(number)
    if number ~= number or number == huge or number == -huge then
        return nil, "Cannot serialise number: must not be NaN or Inf"
    end
    return format("%.14g", number)
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
        if depth > DEEPEST then return "Cannot serialise, excessive nesting (" .. depth .. ")" end
        local length = array_length(value)
        if length == false then return "Cannot serialise table: excessively sparse array" end
        if length and length > 0 then return encode_array(out, value, length, depth) end
        return encode_object(out, value, depth)
    else
        return "Cannot serialise " .. kind .. ": type not supported"
    end
end

local function encode(...)
    if select("#", ...) ~= 1 then error("bad argument #1 to 'encode' (expected 1 argument)", 2) end
    local out = {}
    local mistake = encode_value(out, (...), 0)
    if mistake then error(mistake, 2) end
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

local function number_token(text, at)
    local _, last = find(text, "^[+-]?0[xX]%x+", at)
    if not last then _, last = find(text, "^-?%d+%.?%d*[eE][+-]?%d+", at) end
    if not last then _, last = find(text, "^-?%d+%.?%d*", at) end
    if not last then return nil end
    local number = tonumber(sub(text, at, last))
    if not number then return nil end
    return "T_NUMBER", number, last + 1
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
    local kind, value, behind = number_token(text, at)
    if kind then return kind, value, at, behind end
    return "T_ERROR", "invalid token", at, at
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
    if depth > DEEPEST then
        return nil, "Found too many nested data structures (" .. depth .. ") at character " .. place
    end
    if kind == "T_OBJ_BEGIN" then return decode_object(text, behind, depth) end
    return decode_array(text, behind, depth)
end

local function decode(...)
    if select("#", ...) ~= 1 then error("bad argument #1 to 'decode' (expected 1 argument)", 2) end
    local text = ...
    if type(text) == "number" then text = tostring(text) end
    if type(text) ~= "string" then
        error("bad argument #1 to 'decode' (string expected, got " .. type(text) .. ")", 2)
    end
    local kind, value, place, behind = next_token(text, 1)
    local result, after = decode_token(text, kind, value, place, behind, 0)
    if result == nil then error(after, 2) end
    kind, value, place = next_token(text, after)
    if kind ~= "T_END" then error(expected("the end", kind, value, place), 2) end
    return result
end

return {encode = encode, decode = decode, null = null, _NAME = "cjson", _VERSION = "2.1.0"}
