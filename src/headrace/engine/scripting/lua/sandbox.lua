-- The world that scripts and functions see: Lua 5.1 as Redis offers it, and nothing that reaches outside.
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
--
-- Memory has a limit while a script runs (`arm` … `disarm`): then Lua's own allocator refuses, which is an error of the
-- script. It must not refuse while Python holds the stack, because Lua's errors jump over Python's frames and the lock
-- that they hold. So functions of Python get only texts, numbers and booleans (a table would need a reference, which is
-- an allocation), and each looks first whether enough memory is left for what it may return.

local bridge, make_cjson, make_cmsgpack, make_struct = ...

local error, getmetatable, loadstring, next, pairs, pcall, rawget, rawset, select, setfenv, setmetatable, tonumber,
      tostring, type, xpcall =
      error, getmetatable, loadstring, next, pairs, pcall, rawget, rawset, select, setfenv, setmetatable, tonumber,
      tostring, type, xpcall
local getinfo, sethook, collectgarbage = debug.getinfo, debug.sethook, collectgarbage
local co_create, co_resume = coroutine.create, coroutine.resume
local byte, dump, find, format, gmatch, gsub, match, rep, sub =
      string.byte, string.dump, string.find, string.format, string.gmatch, string.gsub, string.match, string.rep, string.sub
local concat, insert = table.concat, table.insert
local as_function, newproxy, unpack = python.as_function, newproxy, unpack

local OURS = "=headrace"            -- the name of this chunk and its companions, in descriptions of the stack
local READONLY = "Attempt to modify a readonly table"
local INSTRUCTIONS = 10000          -- of a script between two looks at memory and clock
local DEEPEST = 1000                -- tables within tables that a reply may have
local MOST_ARGUMENTS = 100          -- of a function of Python, which copies all of them for each
local MOST_RESULTS = 7999           -- that fit on the stack of a C function
local MOST_REPEATS = 5000           -- `?`, `*`, `+`, `-` in a pattern: the matcher of Lua 5.1 recurses for each
local MOST_MOVES = 2 ^ 24           -- elements that an insertion in front of others may move
local LARGE = 2 ^ 24                -- a text whose making is worth a look for garbage first
local LONGEST_SOURCE = 2 ^ 28       -- Lua counts the `=` of a long bracket, and its bytes, in 32 bits

local explain = as_function(bridge.explain)     -- error value -> text; nil: it must not be caught
local look_at_clock = as_function(bridge.look_at_clock)
local has_booleans = as_function(bridge.has_booleans)     -- whether the script has asked for RESP3
local arm, disarm = as_function(bridge.arm), as_function(bridge.disarm)
local null = newproxy()             -- null of JSON and of MessagePack

-- --- sealing ---------------------------------------------------------------------------------------------------------

local sealed = setmetatable({}, {__mode = "k"})
local no_metatable = {}             -- what getmetatable shows of whatever is sealed

local function refuse_change() error(READONLY, 2) end

local function seal(content)
    local face = {}
    sealed[face] = content
    return setmetatable(face, {__index = content, __newindex = refuse_change, __metatable = no_metatable})
end

sealed[no_metatable] = {}
setmetatable(no_metatable, {__newindex = refuse_change, __metatable = no_metatable})
local string_metatable = getmetatable("")
string_metatable.__metatable = no_metatable

local function copy(library, without)
    local content = {}
    for name, value in pairs(library) do
        if not (without and without[name]) then content[name] = value end
    end
    return content
end

-- --- catching --------------------------------------------------------------------------------------------------------

-- Functions of ours are no place in a script.
local function without_our_place(text) return (gsub(text, "^headrace[a-z_]*:%d+: ", "")) end

-- What a script may see of an error.
local function shown(e)
    if type(e) == "string" then return without_our_place(e) end
    if type(e) ~= "userdata" or e == null then return e end
    local text = explain(e, false)
    if text == nil then error(e, 0) end
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

local most_kb = math.huge           -- that Lua may hold; from half of it on, `collect_if_large` looks for garbage
local live_kb = 0                   -- what was left of it the last time

local function collect_if_large()
    local kb = collectgarbage("count")
    if kb > most_kb / 2 and kb > live_kb * 1.25 then
        collectgarbage()
        live_kb = collectgarbage("count")
    end
end

-- Begin something that may hold so many bytes (0: any number), with what was left before gone.
local function prepare(bytes)
    most_kb = bytes == 0 and math.huge or bytes / 1024
    if collectgarbage("count") > most_kb * 0.75 then live_kb = 0 end
    collect_if_large()
end

local function watch_memory_and_clock()
    collect_if_large()
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

-- Called last by the function that `coroutine.wrap` made, which is level 2 then: the error is told where that was called.
local function raised_again(ok, ...)
    if ok then return ... end
    error((...), (...) == "not enough memory" and 0 or 3)
end

-- --- what differs from plain Lua -------------------------------------------------------------------------------------

local env

-- Code is text: what Lua compiled itself could be forged, and is then no program but an attack.
local function load_text(text, name)
    if #text > LONGEST_SOURCE then return nil, "the text of a script is too long" end
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
    if name ~= nil and type(name) ~= "string" then name = tostring(name) end
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
    if name ~= nil and type(name) ~= "string" then name = tostring(name) end
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
    local place = ...
    if type(t) == "table" and select("#", ...) == 2 and tonumber(place) then
        local moved = #t - tonumber(place)
        if not (moved < MOST_MOVES and moved > -2 ^ 31) then error("wrong position to 'insert' at", 2) end
    end
    insert(t, ...)
end

-- A table and its content, as `next` sees them: what is sealed is empty itself.
local function safe_next(t, key)
    local found, value = next(sealed[t] or t, key)
    return found, value
end

local function safe_pairs(t)
    if sealed[t] then return safe_next, t, nil end
    local step, of = pairs(t)
    return step, of, nil
end

local function safe_rawget(t, key) return (rawget(sealed[t] or t, key)) end

-- --- what trusts its arguments in plain Lua --------------------------------------------------------------------------

-- Called with what a function of Lua returned, so that its errors name it: behind a tail call they would not.
local function pass_on(...) return ... end

-- Lua 5.1 counts results in an `int`, and its check against too many is one that compilers leave out.
local function safe_unpack(t, first, last)
    if first == nil and last == nil then
        if type(t) == "table" and #t > MOST_RESULTS then error("too many results to unpack", 2) end
        return pass_on(unpack(t))
    end
    local from, to = tonumber(first or 1), last == nil and type(t) == "table" and #t or tonumber(last)
    if from and to then
        if to < from then return end
        if not (to - from < MOST_RESULTS - 3 and from >= -2 ^ 31 and to < 2 ^ 31 - 1) then
            error("too many results to unpack", 2)
        end
    end
    return pass_on(unpack(t, first, last))
end

local function check_pattern(pattern)
    if type(pattern) == "string" and #pattern > MOST_REPEATS
       and select(2, gsub(pattern, "[?*+-]", "")) > MOST_REPEATS then
        error("pattern too complex", 3)
    end
end

local function safe_find(...)
    local _, pattern, _, plain = ...
    if not plain then check_pattern(pattern) end
    return pass_on(find(...))
end

local function safe_match(...)
    check_pattern((select(2, ...)))
    return pass_on(match(...))
end

local function safe_gmatch(...)
    check_pattern((select(2, ...)))
    return (gmatch(...))
end

local function safe_gsub(...)
    check_pattern((select(2, ...)))
    return pass_on(gsub(...))
end

-- What is ours would be no use to a script, and no function of C.
local function safe_dump(f)
    if type(f) == "function" and getinfo(f, "S").source == OURS then error("unable to dump given function", 2) end
    return (dump(f))
end

-- An empty text is repeated in a loop that nothing interrupts, and a large one leaves as much garbage.
local function safe_rep(...)
    local text, count = ...
    if text == "" and tonumber(count) then return "" end
    if type(text) == "string" and type(count) == "number" and #text * count > LARGE then collectgarbage() end
    return (rep(...))
end

-- To stop the collector, or to slow it down, would outlast the script.
local function safe_collectgarbage(option, argument)
    if option == nil or option == "collect" or option == "count" or option == "step" then
        return collectgarbage(option, argument)
    end
    return 0
end

math.randomseed(bridge.seed)

-- --- functions of Python ---------------------------------------------------------------------------------------------

local is_text = {string = true, number = true}

-- A function of Python that sees texts, numbers, booleans and nil; what is none of these it gets as nil.
local function of_python(f)
    local call = as_function(f)
    return function(...)
        local count = select("#", ...)
        if count > MOST_ARGUMENTS then error("too many arguments", 2) end
        local words = {...}
        for i = 1, count do
            local kind = type(words[i])
            if not is_text[kind] and kind ~= "boolean" then words[i] = nil end
        end
        return (call(unpack(words, 1, count)))
    end
end

-- Commands are run by functions of C, which `install` makes in the Lua of a thread: as globals, since it has no other way.
_G.raise_pending = as_function(bridge.raise_pending)
as_function(bridge.install)(tostring(co_create(function() end)))
local redis_call, redis_pcall = _G.redis_call, _G.redis_pcall
_G.raise_pending, _G.redis_call, _G.redis_pcall = nil, nil, nil

-- --- globals ---------------------------------------------------------------------------------------------------------

local BAD_TEXT = {err = "ERR wrong number or type of arguments"}

local function error_reply(...)
    local text = ...
    if select("#", ...) ~= 1 or type(text) ~= "string" then return copy(BAD_TEXT) end
    text = gsub(text, "^%-", "")
    return {err = find(text, " ", 1, true) and text or "ERR " .. text}
end

local function status_reply(...)
    if select("#", ...) ~= 1 or type((...)) ~= "string" then return copy(BAD_TEXT) end
    return {ok = (...)}
end

local redis = {call = redis_call, pcall = redis_pcall, error_reply = error_reply, status_reply = status_reply}
for name, value in pairs(bridge.redis) do redis[name] = type(value) == "userdata" and of_python(value) or value end
local bit = {}
for name, value in pairs(bridge.bit) do bit[name] = of_python(value) end

local tables = copy(table)
tables.insert = safe_insert
local threads = copy(coroutine)
threads.create = create
threads.resume = function(thread, ...) return resumed(co_resume(thread, ...)) end
threads.wrap = function(f)
    local thread = create(f)
    return function(...) return raised_again(co_resume(thread, ...)) end
end
local texts = copy(string)
texts.find, texts.match, texts.gmatch, texts.gfind, texts.gsub, texts.rep, texts.dump =
    safe_find, safe_match, safe_gmatch, safe_gmatch, safe_gsub, safe_rep, safe_dump
string_metatable.__index = texts

local cjson, reset_cjson = make_cjson(null)
local pack_float, unpack_float = as_function(bridge.pack_float), as_function(bridge.unpack_float)

local globals = {
    _VERSION = _VERSION,
    assert = assert, error = error, gcinfo = gcinfo, getmetatable = getmetatable, ipairs = ipairs, next = safe_next,
    pairs = safe_pairs, rawequal = rawequal, rawget = safe_rawget, select = select, tonumber = tonumber,
    tostring = tostring, type = type, unpack = safe_unpack,
    pcall = safe_pcall, xpcall = safe_xpcall, load = safe_load, loadstring = safe_loadstring, rawset = safe_rawset,
    setmetatable = safe_setmetatable, collectgarbage = safe_collectgarbage,
    string = seal(texts), math = seal(copy(math)), table = seal(tables), coroutine = seal(threads),
    os = seal({clock = os.clock}),
    redis = seal(redis), bit = seal(bit),
    cjson = seal(cjson),
    cmsgpack = seal(make_cmsgpack(pack_float, unpack_float)),
    struct = seal(make_struct(as_function(bridge.float_bytes), unpack_float)),
}
env = seal(globals)
globals._G = env

local function refuse_unknown(_, name)
    error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end

setmetatable(globals, {__index = refuse_unknown})

-- --- libraries of functions ------------------------------------------------------------------------------------------
-- While a library is loaded it sees nothing but `redis`, and of that what registers functions.

local loading                       -- {name = {callback, description, flags …}, …} while a library is loaded
local FLAGS = {}
for flag in gmatch(bridge.flags, "[^ ]+") do FLAGS[flag] = true end

local function is_name(text) return find(text, "^[%w_]+$") ~= nil end

local function read_flags(given)
    local flags = {}
    for i = 1, #given do
        local flag = rawget(given, i)
        if type(flag) ~= "string" or not FLAGS[flag] then error({err = "ERR unknown flag given"}, 0) end
        flags[#flags + 1] = flag
    end
    return flags
end

local function text_of(value, mistake)
    if not is_text[type(value)] then error({err = mistake}, 0) end
    return tostring(value)
end

local function read_named(given)
    local name, callback, description, flags
    for key, value in next, given do
        if key == "function_name" then
            name = text_of(value, "ERR function_name argument given to redis.register_function must be a string")
        elseif key == "description" then
            description = text_of(value, "ERR description argument given to redis.register_function must be a string")
        elseif key == "callback" then
            if type(value) ~= "function" then
                error({err = "ERR callback argument given to redis.register_function must be a function"}, 0)
            end
            callback = value
        elseif key == "flags" then
            if type(value) ~= "table" then
                error({err = "ERR flags argument to redis.register_function must be a table representing function flags"},
                      0)
            end
            flags = read_flags(value)
        else
            error({err = "ERR unknown argument given to redis.register_function"}, 0)
        end
    end
    if not name then error({err = "ERR redis.register_function must get a function name argument"}, 0) end
    if not callback then error({err = "ERR redis.register_function must get a callback argument"}, 0) end
    return name, callback, description, flags
end

local function register_function(...)
    if not loading then
        error({err = "ERR redis.register_function can only be called on FUNCTION LOAD command"}, 0)
    end
    local count = select("#", ...)
    local first, callback, description, flags = ...
    local name
    if count < 1 or count > 2 then
        error({err = "ERR wrong number of arguments to redis.register_function"}, 0)
    elseif count == 1 then
        if type(first) ~= "table" then
            error({err = "ERR calling redis.register_function with a single argument is only applicable to Lua table "
                         .. "(representing named arguments)."}, 0)
        end
        name, callback, description, flags = read_named(first)
    else
        name = text_of(first, "ERR first argument to redis.register_function must be a string")
        description, flags = nil, nil
        if type(callback) ~= "function" then
            error({err = "ERR second argument to redis.register_function must be a function"}, 0)
        end
    end
    if not is_name(name) then
        error({err = "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one "
                     .. "character long"}, 0)
    end
    if loading[name] then error({err = "ERR Function already exists in the library"}, 0) end
    loading[name] = {callback, description or false, concat(flags or {}, " ")}
end

local load_redis = setmetatable({register_function = register_function, log = redis.log}, {__index = refuse_unknown})
for _, name in next, {"LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING", "REDIS_VERSION", "REDIS_VERSION_NUM"} do
    load_redis[name] = redis[name]
end
local load_globals = setmetatable({redis = seal(load_redis)}, {__index = refuse_unknown})
local library_face = {__index = load_globals, __newindex = refuse_change, __metatable = no_metatable}
local library_env = setmetatable({}, library_face)
sealed[library_env] = load_globals

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

-- Where the function that runs is not on the stack any more, because it returns what another one does: the chunk, and
-- the line on which that is likely.
local likely_source, likely_line

-- What went wrong and where, seen while the stack still stands: {text, source, line}.
local function describe(e)
    local level = 2
    local place = getinfo(level, "Sl")
    while place and (place.what == "C" or place.what == "tail" or find(place.source, "^=headrace")) do
        level = level + 1
        place = getinfo(level, "Sl")
    end
    if not place and likely_source then
        place = {source = likely_source, short_src = sub(likely_source, 2), currentline = likely_line}
    end
    local text
    if type(e) == "userdata" then
        text = e ~= null and explain(e, true) or "ERR " .. tostring(e)
    elseif type(e) == "table" then
        text = rawget(e, "err")
        if type(text) ~= "string" then text = "ERR the script raised a table without an 'err' text" end
    else
        text = tostring(e)
        -- One of our functions in the place of one of Lua's: it happened where that was called.
        local ours = find(text, "^headrace:%d+: ")
        text = without_our_place(text)
        if ours and place then text = place.short_src .. ":" .. place.currentline .. ": " .. text end
        text = "ERR " .. text
    end
    return {text, place and place.source, place and place.currentline}
end

-- A chunk of another name: what an error of level 2 points to is then nothing of a script's.
local enter = loadstring(
    "local script, keys, arguments = ... if keys then return (script(keys, arguments)) end return (script())",
    "=headrace_run"
)

local function compile(text, limit)
    prepare(limit)
    arm()
    local f, e = load_text(text, "@user_script")
    disarm()
    if f then return f end
    return nil, e
end

-- What ends each way into Lua, also where memory was too short to end it here.
local function leave()
    sethook()
    globals.KEYS, globals.ARGV = nil, nil
    loading = nil
    if collectgarbage("count") > most_kb / 2 then collectgarbage() end
end

local NO_MEMORY = "ERR not enough memory: the script needs more than lua-memory-limit"

-- What xpcall with `describe` returned: true and the result, or false, what went wrong, and where.
local function outcome(ok, result)
    leave()
    if ok then return true, result end
    if result == "not enough memory" then return false, NO_MEMORY end
    if type(result) == "string" then return false, "ERR " .. result end     -- there was no stack left to describe it
    if result[1] == "ERR not enough memory" then return false, NO_MEMORY end
    return false, result[1], result[2], result[3]
end

-- Run a compiled script, or a function, which takes keys and arguments; returns true and its reply in RESP, or false,
-- what went wrong, and where.
local function run(script, keys, arguments, resp3, is_function, last_return, limit)
    prepare(limit)
    if is_function then
        likely_source, likely_line = "@user_function", getinfo(script, "S").linedefined
        library_face.__index, sealed[library_env] = globals, globals
        globals._G = library_env
    else
        likely_source, likely_line = "@user_script", last_return
        globals.KEYS, globals.ARGV = keys, arguments
        globals._G = env
    end
    reset_cjson()
    sethook(watch_memory_and_clock, "", INSTRUCTIONS)
    arm()
    local ok, result = xpcall(function()
        local value
        if is_function then value = enter(script, keys, arguments) else value = enter(script) end
        local out = {}
        write(out, value, resp3, has_booleans(), 1)
        return concat(out)
    end, describe)
    disarm()
    return outcome(ok, result)
end

-- Load the code of a library; returns true and its functions, or false and what went wrong, or nil where it is no Lua.
local function load_library(text, limit)
    prepare(limit)
    library_face.__index, sealed[library_env] = load_globals, load_globals
    likely_source = nil
    loading = {}
    local functions = loading
    sethook(watch_memory_and_clock, "", INSTRUCTIONS)
    arm()
    local f, e = load_text(text, "@user_function")
    local ok, result
    if f then ok, result = xpcall(setfenv(f, library_env), describe) end
    disarm()
    if not f then
        leave()
        return nil, e
    end
    if ok then result = functions end
    return outcome(ok, result)
end

return compile, run, load_library, leave
