-- The world that scripts see: Lua 5.1 as Redis offers it, and nothing that reaches outside.
--
--     env (empty, sealed) ── __index ──> globals ── __index ──> "nonexistent global variable"
--       a script's _G                      string, redis, KEYS … each library sealed in the same way
--
-- What is sealed refuses to be changed, so that no script finds what another one left behind.
--
-- Python gives functions and takes functions; between the two there are only strings, numbers, booleans and plain
-- tables. One Python object does come in, the exception of a function that refused: it travels up as an error value,
-- and every function that could show it to a script (pcall, xpcall, resume) is replaced by one that explains it first.
-- An exception that cannot be explained ends the script, whoever tries to catch it.

local bridge, make_cjson, make_cmsgpack = ...

local error, getmetatable, loadstring, next, pairs, pcall, rawget, rawset, select, setfenv, setmetatable, tostring, type,
      xpcall =
      error, getmetatable, loadstring, next, pairs, pcall, rawget, rawset, select, setfenv, setmetatable, tostring, type,
      xpcall
local getinfo, sethook, collectgarbage = debug.getinfo, debug.sethook, collectgarbage
local co_create, co_resume = coroutine.create, coroutine.resume
local byte, concat, format, gsub, insert, sub =
      string.byte, table.concat, string.format, string.gsub, table.insert, string.sub
local as_function, newproxy = python.as_function, newproxy

local OURS = "=headrace"            -- the name of this chunk and its companions, in descriptions of the stack
local READONLY = "Attempt to modify a readonly table"
local INSTRUCTIONS = 10000          -- of a script between two looks at memory and clock
local MOST_KB = 512 * 1024          -- of memory that a script may gather; one that asks for all at once gets it
local DEEPEST = 1000                -- tables within tables that a reply may have

local explain = as_function(bridge.explain)     -- error value -> text; nil: it must not be caught
local look_at_clock = as_function(bridge.look_at_clock)
local has_booleans = as_function(bridge.has_booleans)     -- whether the script has asked for RESP3

-- --- sealing ---------------------------------------------------------------------------------------------------------

local sealed = setmetatable({}, {__mode = "k"})
local no_metatable = {}             -- what getmetatable shows of whatever is sealed

local function refuse_change() error(READONLY, 2) end

local function seal(content)
    local face = {}
    sealed[face] = true
    return setmetatable(face, {__index = content, __newindex = refuse_change, __metatable = no_metatable})
end

sealed[no_metatable] = true
setmetatable(no_metatable, {__newindex = refuse_change, __metatable = no_metatable})
getmetatable("").__metatable = no_metatable

local function copy(library, without)
    local content = {}
    for name, value in pairs(library) do
        if not (without and without[name]) then content[name] = value end
    end
    return content
end

-- --- catching --------------------------------------------------------------------------------------------------------

-- Functions of ours are no place in a script.
local function without_our_place(text) return (gsub(text, "^headrace:%d+: ", "")) end

-- What a script may see of an error.
local function shown(e)
    if type(e) == "string" then return without_our_place(e) end
    if type(e) ~= "userdata" then return e end
    local text = explain(e)
    if text == nil then error(e, 0) end
    if text == false then return e end          -- a value of the script's own: cjson.null
    return {err = text}
end

local function settle(ok, ...)
    if ok then return true, ... end
    local e = shown((...))
    if type(e) == "table" and type(rawget(e, "err")) == "string" then e = rawget(e, "err") end
    return false, e
end

local function safe_pcall(f, ...) return settle(pcall(f, ...)) end

local function hand_over(handler, ok, ...)
    if ok then return true, ... end
    return false, select(2, settle(pcall(handler, shown((...)))))
end

-- The handler runs when the error has already travelled: one that never ended could not be interrupted inside of it.
local function safe_xpcall(f, handler) return hand_over(handler, pcall(f)) end

local function watch_memory_and_clock()
    if collectgarbage("count") > MOST_KB then
        collectgarbage()
        if collectgarbage("count") > MOST_KB then error("not enough memory", 0) end
    end
    look_at_clock()
end

local function create(f)
    local thread = co_create(f)
    sethook(thread, watch_memory_and_clock, "", INSTRUCTIONS)
    return thread
end

local function resumed(ok, ...)
    if ok then return true, ... end
    return false, shown((...))
end

local function raised_again(ok, ...)
    if ok then return ... end
    error((...), 0)
end

-- --- what differs from plain Lua -------------------------------------------------------------------------------------

local env

-- Code is text: what Lua compiled itself could be forged, and is then no program but an attack.
local function load_text(text, name)
    if byte(text) == 27 then text = " " .. text end
    local f, e = loadstring(text, name)
    if f == nil then return nil, e end
    return setfenv(f, env)
end

local function safe_loadstring(text, name)
    if type(text) == "number" then text = tostring(text) end
    if type(text) ~= "string" then
        error("bad argument #1 to 'loadstring' (string expected, got " .. type(text) .. ")", 2)
    end
    return load_text(text, name or text)
end

local function safe_load(reader, name)
    local pieces = {}
    while true do
        local piece = reader()
        if piece == nil or piece == "" then break end
        if type(piece) ~= "string" then return nil, "reader function must return a string" end
        pieces[#pieces + 1] = piece
    end
    return load_text(concat(pieces), name or "=(load)")
end

local function safe_rawset(t, key, value)
    if sealed[t] then error(READONLY, 0) end
    return rawset(t, key, value)
end

local function safe_setmetatable(t, metatable)
    if sealed[t] then error(READONLY, 0) end
    return setmetatable(t, metatable)
end

local function safe_insert(t, ...)
    if sealed[t] then error(READONLY, 0) end
    return insert(t, ...)
end

-- To stop the collector, or to slow it down, would outlast the script.
local function safe_collectgarbage(option, argument)
    if option == nil or option == "collect" or option == "count" or option == "step" then
        return collectgarbage(option, argument)
    end
    return 0
end

math.randomseed(bridge.seed)

-- --- globals ---------------------------------------------------------------------------------------------------------

local null = newproxy()             -- null of JSON and of MessagePack

local redis = {}
for name, value in pairs(bridge.redis) do redis[name] = type(value) == "userdata" and as_function(value) or value end
local bit = {}
for name, value in pairs(bridge.bit) do bit[name] = as_function(value) end

local tables = copy(table)
tables.insert = safe_insert
local threads = copy(coroutine)
threads.create = create
threads.resume = function(thread, ...) return resumed(co_resume(thread, ...)) end
threads.wrap = function(f)
    local thread = create(f)
    return function(...) return raised_again(co_resume(thread, ...)) end
end

local globals = {
    _VERSION = _VERSION,
    assert = assert, error = error, gcinfo = gcinfo, getmetatable = getmetatable, ipairs = ipairs, next = next,
    pairs = pairs, rawequal = rawequal, rawget = rawget, select = select, tonumber = tonumber, tostring = tostring,
    type = type, unpack = unpack,
    pcall = safe_pcall, xpcall = safe_xpcall, load = safe_load, loadstring = safe_loadstring, rawset = safe_rawset,
    setmetatable = safe_setmetatable, collectgarbage = safe_collectgarbage,
    string = seal(copy(string)), math = seal(copy(math)), table = seal(tables), coroutine = seal(threads),
    redis = seal(redis), bit = seal(bit),
    cjson = seal(make_cjson(null)),
    cmsgpack = seal(make_cmsgpack(as_function(bridge.pack_float), as_function(bridge.unpack_float))),
}
env = seal(globals)
globals._G = env
setmetatable(globals, {
    __index = function(_, name)
        error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
    end,
})

-- --- replies: what a script returns, in RESP ---------------------------------------------------------------------------

local function one_line(text) return (gsub(text, "[\r\n]", " ")) end

local write

local function bulk(text) return "$" .. #text .. "\r\n" .. text .. "\r\n" end

local function write_list(out, value, resp3, booleans, depth)
    local place, count = #out + 1, 0
    out[place] = ""
    while true do
        local item = rawget(value, count + 1)
        if item == nil then break end
        count = count + 1
        write(out, item, resp3, booleans, depth)
    end
    out[place] = "*" .. count .. "\r\n"
end

local function write_pairs(out, value, resp3, booleans, depth, with_values)
    local place, count = #out + 1, 0
    out[place] = ""
    for key, item in next, value do
        count = count + 1
        write(out, key, resp3, booleans, depth)
        if with_values then write(out, item, resp3, booleans, depth) end
    end
    if resp3 then
        out[place] = (with_values and "%" or "~") .. count .. "\r\n"
    else
        out[place] = "*" .. (with_values and 2 * count or count) .. "\r\n"
    end
end

local function write_table(out, value, resp3, booleans, depth)
    local text = rawget(value, "err")
    if type(text) == "string" then
        out[#out + 1] = "-" .. one_line(text) .. "\r\n"
        return
    end
    text = rawget(value, "ok")
    if type(text) == "string" then
        out[#out + 1] = "+" .. one_line(text) .. "\r\n"
        return
    end
    local number = rawget(value, "double")
    if type(number) == "number" then
        text = format("%.17g", number)
        out[#out + 1] = resp3 and "," .. text .. "\r\n" or bulk(text)
        return
    end
    local inner = rawget(value, "map")
    if type(inner) == "table" then return write_pairs(out, inner, resp3, booleans, depth, true) end
    inner = rawget(value, "set")
    if type(inner) == "table" then return write_pairs(out, inner, resp3, booleans, depth, false) end
    text = rawget(value, "big_number")
    if type(text) == "string" then
        text = one_line(text)
        out[#out + 1] = resp3 and "(" .. text .. "\r\n" or bulk(text)
        return
    end
    inner = rawget(value, "verbatim_string")
    if type(inner) == "table" then
        local form
        text, form = rawget(inner, "string"), rawget(inner, "format")
        if type(text) == "string" and type(form) == "string" then
            form = sub(form .. "   ", 1, 3)
            out[#out + 1] = resp3 and "=" .. (#text + 4) .. "\r\n" .. form .. ":" .. text .. "\r\n" or bulk(text)
            return
        end
    end
    return write_list(out, value, resp3, booleans, depth)
end

write = function(out, value, resp3, booleans, depth)
    local kind = type(value)
    if kind == "string" then
        out[#out + 1] = bulk(value)
    elseif kind == "number" then
        if value >= -2^63 and value < 2^63 then
            out[#out + 1] = ":" .. format("%d", value) .. "\r\n"
        else
            out[#out + 1] = ":-9223372036854775808\r\n"         -- as the processor of a redis-server converts it
        end
    elseif kind == "boolean" and booleans then
        out[#out + 1] = resp3 and (value and "#t\r\n" or "#f\r\n") or (value and ":1\r\n" or ":0\r\n")
    elseif value == true then
        out[#out + 1] = ":1\r\n"
    elseif kind == "table" then
        if depth > DEEPEST then
            out[#out + 1] = "-ERR reached lua stack limit\r\n"
        else
            write_table(out, value, resp3, booleans, depth + 1)
        end
    else
        out[#out + 1] = resp3 and "_\r\n" or "$-1\r\n"
    end
end

-- --- running -----------------------------------------------------------------------------------------------------------

-- What went wrong and where, seen while the stack still stands: {text, source, line}.
local function describe(e)
    local level = 2
    local place = getinfo(level, "Sl")
    if place and place.what == "C" then
        level = level + 1
        place = getinfo(level, "Sl")
    end
    while place and (place.source == OURS or place.what == "tail") do
        level = level + 1
        place = getinfo(level, "Sl")
    end
    local text
    if type(e) == "userdata" then
        text = explain(e, true) or "ERR " .. tostring(e)
    elseif type(e) == "table" then
        text = rawget(e, "err")
        if type(text) ~= "string" then text = "ERR the script raised a table without an 'err' text" end
    else
        text = "ERR " .. without_our_place(tostring(e))
    end
    return {text, place and place.source, place and place.currentline}
end

local function compile(text)
    return load_text(text, "@user_script")
end

-- Run a compiled script; returns true and its reply in RESP, or false, what went wrong, and where.
local function run(script, keys, arguments, resp3)
    globals.KEYS, globals.ARGV = keys, arguments
    sethook(watch_memory_and_clock, "", INSTRUCTIONS)
    local ok, result = xpcall(function()
        local value = script()
        local out = {}
        write(out, value, resp3, has_booleans(), 1)
        return concat(out)
    end, describe)
    sethook()
    globals.KEYS, globals.ARGV = nil, nil
    if ok then return true, result end
    if type(result) == "string" then return false, "ERR " .. result end     -- there was no stack left to describe it
    return false, result[1], result[2], result[3]
end

local function memory() return collectgarbage("count") * 1024 end

return compile, run, memory
