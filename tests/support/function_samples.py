"""Libraries of functions, good and bad, and calls of them: what redis-server 7.0.15 is asked, too."""

GOOD = {
    "plain": "redis.register_function('plain', function(keys, args) return {keys, args, #keys, #args} end)",
    "named": (
        "redis.register_function{function_name='named', callback=function(keys, args)"
        " return redis.call('SET', keys[1], args[1]) end, flags={'no-writes'}, description='what it does'}"
    ),
    "reads": (
        "redis.register_function{function_name='reads', callback=function(keys) return redis.call('GET', keys[1]) end,"
        " flags={'no-writes', 'allow-oom', 'allow-stale', 'no-cluster', 'allow-cross-slot-keys'}}"
    ),
    "counts": "local n = 0\nredis.register_function('counts', function() n = n + 1 return n end)",
    "numbers": "redis.register_function{function_name=5, callback=function() return 5 end, description=7}",
    "fails": (
        "redis.register_function('fails_by_error', function() error('bo') end)\n"
        "redis.register_function('fails_by_table', function() error({err='MY err'}) end)\n"
        "redis.register_function('fails_by_command', function() return redis.call('nosuch') end)\n"
        "redis.register_function('fails_in_silence', function() return redis.pcall('nosuch') end)\n"
        "redis.register_function('sets_global', function() g = 1 end)\n"
        "redis.register_function('gets_global', function() return undefined end)\n"
        "redis.register_function('registers', function() return redis.register_function('x', function() end) end)\n"
        "redis.register_function('wants_keys', function() return KEYS end)\n"
        "local r = redis\n"
        "redis.register_function('late_call', function() return r.call('PING') end)\n"
        "redis.register_function('late_register', function() return r.register_function('x', function() end) end)\n"
    ),
    "libraries": (
        "redis.register_function('libraries', function()"
        " local n = {} for k in pairs(redis) do n[#n + 1] = k end table.sort(n) return n end)"
    ),
    "tail": "redis.register_function('tail', function(keys) return redis.call('INCR', keys[1]) end)",
}

BAD = [
    "",
    "x",
    "#!lua",
    "#!lua\n",
    "#!lua name=a\n",
    "#!foo name=a\nreturn 1",
    "#! name=a\nreturn 1",
    "#!lua name=a foo=b\nreturn 1",
    "#!lua name=a name=b\nreturn 1",
    "#!lua name=\nreturn 1",
    "#!lua name=a-b\nreturn 1",
    "#!lua name=a b\nreturn 1",
    "#!lua name='a'\nreturn 1",
    "#!lua name=a\nsyntax error",
    "#!lua name=a\n\n\nlocal x = = 1",
    *(
        f"#!lua name=a\n{code}"
        for code in (
            "redis.register_function{function_name='f', callback=function() end, flags={'bad'}}",
            "redis.register_function{function_name='f', callback=function() end, flags='x'}",
            "redis.register_function{function_name='f', callback=function() end, flags={1}}",
            "redis.register_function{function_name='f', callback=function() end, foo=1}",
            "redis.register_function{function_name='f', callback=1}",
            "redis.register_function{function_name={}, callback=function() end}",
            "redis.register_function{callback=function() end}",
            "redis.register_function{function_name='f'}",
            "redis.register_function{[1]='f'}",
            "redis.register_function{function_name='f', callback=function() end, description={}}",
            "redis.register_function('f')",
            "redis.register_function()",
            "redis.register_function(1, 2, 3)",
            "redis.register_function({}, function() end)",
            "redis.register_function('f', 1)",
            "redis.register_function('f-5', function() end)",
            "redis.register_function('', function() end)",
            "redis.register_function('f', function() end) redis.register_function('f', function() end)",
            "return redis.call('SET', 'x', 1)",
            "return redis.log(redis.LOG_NOTICE, 'x')",
            "x = 1",
            "return KEYS",
            "local a = y",
            "error('boom')",
            "redis.setresp(3)",
            "return redis.sha1hex('')",
            "math.random()",
            "return cjson.encode({})",
            "return loadstring('return 1')",
            "redis.x = 1",
            "_G.x = 1",
            "while true do end",
            "redis.register_function('plain', function() end)",
        )
    ),
]

CALLS = [
    *(
        ["FCALL", name, "1", "key", "argument"]
        for name in ("plain", "PLAIN", "nosuch", "named", "reads", "counts", "5")
    ),
    *(["FCALL", name, "0"] for name in ("counts", "fails_by_error", "fails_by_table", "fails_by_command")),
    *(["FCALL", name, "0"] for name in ("fails_in_silence", "sets_global", "gets_global", "registers", "wants_keys")),
    *(["FCALL", name, "0"] for name in ("late_call", "late_register", "libraries")),
    *(["FCALL_RO", name, "1", "key"] for name in ("plain", "reads", "named", "nosuch", "counts")),
    ["SET", "text", "abc"],
    ["FCALL", "tail", "1", "text"],
    ["FCALL", "plain", "x"],
    ["FCALL", "plain", "-1"],
    ["FCALL", "plain", "2", "a"],
    ["FCALL", "plain"],
    ["FCALL", "plain", "0"],
    ["FCALL", "plain", "99999999999999999999"],
    ["FCALL", "nosuch", "x"],
    ["FUNCTION", "LIST", "WITHCODE", "LIBRARYNAME", "named"],
    ["FUNCTION", "LIST", "LIBRARYNAME", "READ?"],
    ["FUNCTION", "LIST", "LIBRARYNAME", "nosuch*"],
    ["FUNCTION", "LIST", "LIBRARYNAME", "a", "WITHCODE", "WITHCODE"],
    ["FUNCTION", "LIST", "LIBRARYNAME"],
    ["FUNCTION", "LIST", "FOO"],
    ["FUNCTION", "STATS"],
    ["FUNCTION", "KILL"],
    ["SCRIPT", "KILL"],
    ["FUNCTION", "LOAD", "FOO", "x"],
    ["FUNCTION", "LOAD", "REPLACE", "x", "y"],
    ["FUNCTION", "LOAD"],
    ["FUNCTION", "LOAD", "REPLACE", "#!lua name=plain\nredis.register_function('reads', function() end)"],
    ["FUNCTION", "LOAD", "REPLACE", "#!lua name=plain\nbad bad"],
    ["FCALL", "plain", "0"],
    ["FUNCTION", "LOAD", "REPLACE", "#!lua name=plain\nredis.register_function('other', function() return 1 end)"],
    ["FCALL", "plain", "0"],
    ["FCALL", "other", "0"],
    ["FUNCTION", "LOAD", "#!lua name=PLAIN\nredis.register_function('another', function() return 2 end)"],
    ["FUNCTION", "DELETE", "nosuch"],
    ["FUNCTION", "DELETE", "Plain"],
    ["FUNCTION", "DELETE", "plain"],
    ["FUNCTION", "DELETE"],
    ["FCALL", "other", "0"],
    ["FUNCTION", "STATS"],
    ["FUNCTION", "FLUSH", "X"],
    ["FUNCTION", "FLUSH", "ASYNC", "B"],
    ["FUNCTION", "NOPE"],
    ["FUNCTION"],
    ["FUNCTION", "RESTORE", "x"],
    ["FUNCTION", "RESTORE", "x", "FOO"],
    ["FUNCTION", "RESTORE", "x", "FLUSH", "X"],
    ["FUNCTION", "RESTORE"],
    ["EVAL", "return redis.call('FCALL', 'counts', 0)", "0"],
    ["EVAL", "return redis.call('FUNCTION', 'LIST')", "0"],
    ["FUNCTION", "FLUSH", "sync"],
    ["FUNCTION", "STATS"],
    ["FCALL", "counts", "0"],
]


def library(name: str) -> str:
    """Return the code of a good library."""
    return f"#!lua name={name}\n{GOOD[name]}"
