"""EVAL and its kin answer as redis-server 7.0.15 does, to the byte; scripts see nothing but what they should."""

import random
import re
from collections.abc import Iterator

import pytest
import redis

from headrace.engine.applier import Applier
from support.in_process import InProcess
from support.raw_client import RawClient
from support.script_samples import CALLED, LIBRARIES, RETURNED, WRONG, lines


@pytest.fixture(params=[2, 3])
def wires(
    request: pytest.FixtureRequest, headrace_server: redis.Redis, redis_server: redis.Redis
) -> Iterator[tuple[RawClient, RawClient]]:
    with RawClient.of(headrace_server, request.param) as ours, RawClient.of(redis_server, request.param) as theirs:
        yield ours, theirs


SAMPLES = {"returned": RETURNED, "called": CALLED, "wrong": WRONG, "libraries": LIBRARIES}


@pytest.mark.parametrize("samples", SAMPLES.values(), ids=SAMPLES.keys())
def test_a_script_is_answered_as_by_redis(wires: tuple[RawClient, RawClient], samples: str) -> None:
    ours, theirs = wires
    answers = [(script, ours.run("EVAL", script, "0"), theirs.run("EVAL", script, "0")) for script in lines(samples)]
    differences = [answer for answer in answers if answer[1] != answer[2]]
    assert not differences


ABOUT_SCRIPTS = [
    "EVAL|return KEYS|2|a|b|c",
    "EVAL|return ARGV|2|a|b|c",
    "EVAL|return ARGV|0|\x00\xff",
    "EVAL|return 1|x",
    "EVAL|return 1|-1",
    "EVAL|return 1|1",
    "EVAL|return 1",
    "EVAL_RO|#!lua\nreturn 1|0",
    "EVAL_RO|return redis.call('set','a',1)|0",
    "EVAL_RO|return redis.pcall('set','a',1)|0",
    "EVAL_RO|return redis.call('get','a')|0",
    "EVALSHA|x|0",
    "EVALSHA_RO|x|0",
    "EVAL|return 1|0",
    "EVALSHA|E0E1F9FABFC9D4800C877A703B823AC0578FF8DB|0",
    "EVALSHA_RO|e0e1f9fabfc9d4800c877a703b823ac0578ff8db|0",
    "SCRIPT|LOAD|return = 1",
    "SCRIPT|LOAD|return 2",
    "SCRIPT|LOAD",
    "SCRIPT|LOAD|#!lua flags=x\nreturn 1",
    "SCRIPT|EXISTS|x|E0E1F9FABFC9D4800C877A703B823AC0578FF8DB|7f923f79fe76194c868d7e1d0820de36700eb649",
    "SCRIPT|EXISTS",
    "SCRIPT|KILL",
    "SCRIPT|nosuch",
    "SCRIPT",
    "SCRIPT|FLUSH|x",
    "SCRIPT|FLUSH|sync|x",
    "SCRIPT|FLUSH",
    "EVALSHA|e0e1f9fabfc9d4800c877a703b823ac0578ff8db|0",
    "SCRIPT|EXISTS|e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
    "MULTI",
    "EVAL|return redis.call('incr','n')|0",
    "EVAL|return redis.call('nosuch')|0",
    "EVALSHA|0000|0",
    "EVAL|return redis.call('incr','n')|0",
    "EXEC",
    "WATCH|n",
    "EVAL|return redis.call('incr','n')|0",
    "MULTI",
    "PING",
    "EXEC",
    "FUNCTION|LIST",
    "FUNCTION|DELETE|nosuch",
    "FUNCTION|FLUSH",
]


def test_commands_about_scripts_are_answered_as_by_redis(wires: tuple[RawClient, RawClient]) -> None:
    for wire in wires:
        wire.run("SCRIPT", "FLUSH")
    ours, theirs = wires
    for line in ABOUT_SCRIPTS:
        words = [word.encode("latin-1") for word in line.split("|")]
        expected = theirs.run(*words)
        assert ours.run(*words) == expected, line


# --- state ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def engine() -> InProcess:
    return InProcess()


def test_the_database_that_a_script_selects_is_its_own(engine: InProcess) -> None:
    engine.run("EVAL", "redis.call('select', 3) redis.call('set', 'key', 'three')", 0)
    assert engine.run("GET", "key") == b"$-1\r\n"
    engine.run("SELECT", 3)
    assert engine.run("GET", "key") == b"$5\r\nthree\r\n"


def test_a_script_sees_one_moment(engine: InProcess) -> None:
    engine.run("SET", "key", "value", "PX", 60_000)
    script = "for i = 1, 1000 do if redis.call('exists', 'key') == 0 then return i end end return 'all along'"
    assert engine.run("EVAL", script, 0) == b"$9\r\nall along\r\n"


def test_effects_of_a_script_are_those_of_its_commands_together(engine: InProcess) -> None:
    engine.run("EVAL", "redis.call('set','a',1) redis.call('get','a') redis.call('select',2) redis.call('incr','b')", 0)
    assert engine.recorded.units == [[(0, [b"set", b"a", b"1"]), (2, [b"incr", b"b"])]]


def test_what_a_script_did_before_it_failed_is_done_and_logged(engine: InProcess) -> None:
    assert engine.run("EVAL", "redis.call('set','a',1) error('no more')", 0).startswith(b"-ERR user_script:1: no more")
    assert engine.take_effects() == [(0, [b"set", b"a", b"1"])]
    assert engine.run("GET", "a") == b"$1\r\n1\r\n"


def test_a_script_that_only_reads_has_no_effects(engine: InProcess) -> None:
    engine.run("EVAL", "return redis.call('get','a')", 0)
    engine.run("EVAL", "redis.set_repl(redis.REPL_NONE) redis.call('del','a')", 0)
    assert engine.take_effects() == []
    assert engine.engine.dirty == 0


def test_set_repl_does_not_keep_what_was_written_from_the_log(engine: InProcess) -> None:
    engine.run("EVAL", "redis.set_repl(redis.REPL_NONE) redis.call('set','a',1)", 0)
    assert engine.take_effects() == [(0, [b"set", b"a", b"1"])]


WRITES = (
    "redis.call('xadd', 's', '*', 'n', tostring(N))",
    "redis.call('xadd', 's', 'maxlen', '~', 5, '*', 'n', tostring(N))",
    "redis.pcall('xgroup', 'create', 's', 'g', '0', 'mkstream')",
    "redis.pcall('xreadgroup', 'group', 'g', 'c', 'count', 2, 'streams', 's', '>')",
    "redis.call('incrby', 'n', N)",
    "redis.call('rpush', 'l', N, N + 1)",
    "redis.call('lpop', 'l')",
    "redis.call('hincrby', 'h', 'f', N)",
    "redis.call('zadd', 'z', N / 3, 'm' .. N)",
    "redis.call('spop', 'set')",
    "redis.call('sadd', 'set', N, N * 2)",
    "redis.call('expire', 'l', 1000 + N)",
    "redis.pcall('incr', 'l')",
    "redis.call('del', 'l')",
    "redis.call('set', 'n', N, 'ex', 100)",
)


def picture(engine: InProcess) -> list[bytes]:
    keys = (b"s", b"n", b"l", b"h", b"z", b"set")
    return [engine.run("DUMP", key) for key in keys] + [engine.run("EXPIRETIME", key) for key in keys]


@pytest.mark.parametrize("seed", range(20))
def test_effects_of_random_scripts_replayed_elsewhere_end_with_the_same_data(seed: int) -> None:
    chance = random.Random(seed)
    engine, other = InProcess(), InProcess()
    for each in (engine, other):
        each.set_clock(1_800_000_000_000)
    for _ in range(20):
        number = chance.randrange(1, 10)
        script = " ".join(chance.choices(WRITES, k=chance.randrange(1, 8))).replace("N", str(number))
        engine.run("EVAL", script, 0)
    applier = Applier(other.engine, other.engine.clocks.unix_ms())
    for number, argv in engine.take_effects():
        applier.run([b"SELECT", b"%d" % number])
        assert applier.run(argv) is None, argv
    applier.end()
    assert picture(other) == picture(engine)


# --- the sandbox -----------------------------------------------------------------------------------------------------

ESCAPES = [
    "return io.open('/etc/passwd')",
    "return os.execute('id')",
    "return require('os')",
    "return package.loadlib('x','y')",
    "return dofile('/etc/passwd')",
    "return loadfile('/etc/passwd')",
    "return debug.getregistry()",
    "return getfenv(0).os",
    "return setfenv(1, {})",
    "return python.eval('1')",
    "return newproxy(true)",
    "return getmetatable(redis.call).__index",
    "return redis.call.__globals__",
    "return redis.call.__call__",
    "return redis.__class__.__name__",
    "return cjson.null.__class__",
    "local ok, e = pcall(redis.call, 'nosuch') return e.__class__.__name__",
    "local ok, e = xpcall(function() redis.call('nosuch') end, function(e) return e end) return e.__class__.__name__",
    "local c = coroutine.create(redis.call) local ok, e = coroutine.resume(c, 'nosuch') return e.__class__.__name__",
    "local ok, e = pcall(coroutine.wrap(redis.call), 'nosuch') return e.__class__.__name__",
    "local f, e = load(function() redis.call('nosuch') end) return e.__class__.__name__",
    "return loadstring('return os')().execute()",
    "return loadstring('return getfenv')()(0)",
    "return loadstring(string.dump(function() return 1 end))()",
    "local n = 0 return load(function() n = n + 1 if n == 1 then return string.dump(function() end) end end)()",
    "return string.dump(redis.call)",
    "return ('').__index.dump(redis.call)",
    "return coroutine.wrap(function() return getfenv(0) end)().os",
    "return tostring(setmetatable({}, {__index = function(t, k) return getfenv(0) end}).x.os)",
]


@pytest.mark.parametrize("script", ESCAPES)
def test_a_script_reaches_nothing_outside(engine: InProcess, script: str) -> None:
    reply = engine.run("EVAL", script, 0)
    assert reply.startswith(b"-ERR"), reply
    assert b"internal error" not in reply


def test_what_lua_compiled_itself_is_no_script(engine: InProcess) -> None:
    compiled = engine.run("EVAL", "return string.dump(function() return 1 end)", 0).partition(b"\r\n")[2][:-2]
    assert compiled.startswith(b"\x1bLua")
    assert engine.run("EVAL", compiled, 0).startswith(b"-ERR Error compiling script")
    assert engine.run("SCRIPT", "LOAD", compiled).startswith(b"-ERR Error compiling script")


REACHABLE = """
local seen, found = {}, {}
local function look(name, value)
    local kind = type(value)
    found[#found + 1] = name .. ':' .. kind
    if kind == 'table' and not seen[value] then
        seen[value] = true
        for key, inner in pairs(value) do look(name .. '.' .. tostring(key), inner) end
        look(name .. '.metatable', getmetatable(value))
    end
end
for _, name in ipairs(ARGV) do
    local ok, value = pcall(function() return _G[name] end)
    if ok then look(name, value) end
end
return found
"""


def test_no_global_of_a_script_is_a_python_object(engine: InProcess) -> None:
    libraries = (
        "_G",
        "redis",
        "string",
        "table",
        "math",
        "cjson",
        "cmsgpack",
        "bit",
        "coroutine",
        "KEYS",
        "ARGV",
        "struct",
        "os",
    )
    outside = ("python", "io", "debug", "package")
    names = libraries + outside
    reply = engine.run("EVAL", REACHABLE, 0, *names)
    assert b"redis:table" in reply
    assert reply.count(b"userdata") == reply.count(b"cjson.null:userdata") > 0
    assert b"python" not in reply
    names_of_os = engine.run("EVAL", "local n = {} for k in pairs(os) do n[#n + 1] = k end return n", 0)
    assert names_of_os == b"*1\r\n$5\r\nclock\r\n"
    assert engine.run("EVAL", "return type(cjson.null) .. tostring(cjson.null.x)", 0).startswith(b"-ERR")


def test_what_one_script_leaves_behind_no_other_finds(engine: InProcess) -> None:
    attempts = (
        "rawset(_G, 'left', 1)",
        "_G.left = 1",
        "rawset(string, 'left', 1)",
        "table.insert(string, 'left')",
        "setmetatable(string, {__index = function() return 'left' end})",
        "getmetatable('').__index = {left = 1}",
        "getmetatable(_G).left = 1",
        "setmetatable(getmetatable(_G), {})",
        "loadstring('left = 1')()",
        "redis.call = function() return 'left' end",
        "collectgarbage('stop')",
        "KEYS.left = 1",
    )
    for attempt in attempts:
        engine.run("EVAL", attempt, 0)
        assert engine.run("EVAL", "return left", 0).startswith(b"-ERR user_script:1: Script attempted"), attempt
        assert engine.run("EVAL", "return {string.left, string[1], KEYS.left, (''):rep(2)}", 0) == b"*0\r\n", attempt
        assert engine.run("EVAL", "return redis.call('ping')", 0) == b"+PONG\r\n", attempt


def test_a_script_that_eats_memory_is_ended(engine: InProcess) -> None:
    engine.engine.config.set_many([("busy-reply-threshold", "60000")])
    hungry = "local s, t = string.rep('x', 100000), {} while true do t[#t + 1] = s:sub(1 + #t) end"
    reply = engine.run("EVAL", hungry, 0)
    assert reply.startswith(b"-ERR not enough memory"), reply
    assert engine.run("EVAL", "return 1", 0) == b":1\r\n"


def test_a_table_that_contains_itself_has_an_end(engine: InProcess) -> None:
    assert b"reached lua stack limit" in engine.run("EVAL", "local t = {} t[1] = t return t", 0)


def test_an_endless_script_without_a_host_ends_itself(engine: InProcess) -> None:
    engine.engine.config.set_many([("busy-reply-threshold", "50")])
    for script in ("while true do end", "while true do pcall(function() while true do end end) end"):
        reply = engine.run("EVAL", script, 0)
        assert reply.startswith(b"-ERR the script ran longer than busy-reply-threshold"), reply
    assert engine.run("EVAL", "return 1", 0) == b":1\r\n"


def test_a_mistake_of_ours_is_told_as_one(engine: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    bugs: list[Exception] = []
    engine.engine.hooks.failure = lambda _, bug: bugs.append(bug)
    engine.run("EVAL", "return 1", 0)
    monkeypatch.setattr("headrace.engine.scripting.script_host.sha1", lambda *_, **__: 1 // 0)
    assert engine.run("EVAL", "return redis.sha1hex('a')", 0).startswith(b"-ERR internal error")
    assert [type(bug) for bug in bugs] == [ZeroDivisionError]


# --- users, statistics, the cache ------------------------------------------------------------------------------------


def test_every_command_of_a_script_needs_the_permission_of_its_user(engine: InProcess) -> None:
    engine.run("ACL", "SETUSER", "limited", "on", "nopass", "~a*", "&c*", "+@all", "-set")
    user = engine.connect()
    user.run("AUTH", "limited", "x")
    prefix = b"-NOPERM ACL failure in script: "
    assert user.run("EVAL", "return redis.call('set','a',1)", 0).startswith(
        prefix + b"User limited has no permissions to run the 'set' command script: "
    )
    assert user.run("EVAL", "return redis.call('get','b')", 0).startswith(prefix + b"No permissions to access a key")
    assert user.run("EVAL", "return redis.call('publish','x','b')", 0).startswith(
        prefix + b"No permissions to access a"
    )
    assert user.run("EVAL", "return 1", 1, "b") == b"-NOPERM No permissions to access a key\r\n"
    assert user.run("EVAL", "return {redis.acl_check_cmd('set','a',1), redis.acl_check_cmd('get','a')}", 0) == (
        b"*2\r\n$-1\r\n:1\r\n"
    )
    assert user.run("EVAL", "return redis.call('get','a')", 0) == b"$-1\r\n"
    assert b"$7\r\ncontext\r\n$3\r\nlua\r\n" in engine.run("ACL", "LOG", 2)


def test_an_error_of_a_script_is_counted_once(engine: InProcess) -> None:
    engine.run("EVAL", "return redis.call('lpush','a')", 0)
    engine.run("SET", "a", 1)
    engine.run("EVAL", "return redis.call('lpush','a','b')", 0)
    engine.run("EVAL", "return redis.pcall('lpush','a','b')", 0)
    engine.run("EVAL", "error('x')", 0)
    assert engine.engine.stats.errors == {b"ERR": 2, b"WRONGTYPE": 2}


def test_scripts_that_only_eval_brought_are_forgotten_when_there_are_many(engine: InProcess) -> None:
    loaded = engine.run("SCRIPT", "LOAD", "return 'kept'")[5:-2]
    for number in range(600):
        engine.run("EVAL", f"return {number}", 0)
    assert engine.run("EVALSHA", loaded, 0) == b"$4\r\nkept\r\n"
    info = engine.run("INFO", "memory", "stats")
    assert b"number_of_cached_scripts:501\r\n" in info
    assert b"evicted_scripts:100\r\n" in info


def test_a_flush_gives_lua_back(engine: InProcess) -> None:
    engine.run("EVAL", "return 1", 0)
    assert int(re.search(rb"used_memory_lua:(\d+)", engine.run("INFO", "memory"))[1]) > 0  # type: ignore[index]
    engine.run("SCRIPT", "FLUSH")
    assert b"used_memory_lua:0\r\n" in engine.run("INFO", "memory")
    assert engine.run("EVAL", "return 1", 0) == b":1\r\n"


def test_without_lupa_a_script_is_refused_in_one_sentence(engine: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "lupa", None)
    assert engine.run("EVAL", "return 1", 0).startswith(b"-ERR scripts need the Python package lupa")
    assert engine.run("SET", "a", 1) == b"+OK\r\n"


def test_a_script_logs_where_the_host_does(engine: InProcess) -> None:
    told: list[tuple[int, bytes]] = []
    engine.engine.script_host.log = lambda level, text: told.append((level, text))
    engine.run("EVAL", "redis.log(redis.LOG_NOTICE, 'a', 1, 'b')", 0)
    assert told == [(2, b"a 1 b")]


def test_blocking_commands_do_not_wait_in_a_script(engine: InProcess) -> None:
    assert engine.run("EVAL", "return redis.call('xread','block',0,'streams','s','$')", 0) == b"$-1\r\n"
    assert not engine.waits
