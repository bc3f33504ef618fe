"""Every known fault of Lua 5.1 and of Redis's scripting, by name: the server answers, lives, and answers what follows.

The Lua that runs scripts is 5.1.5, as lupa ships it. Where its C code has a fault, the sandbox limits the function.
Where a library of Redis's had a fault (struct, cjson, cmsgpack, bit), our own library gets the same test.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.campaign import LONG
from support.ports import free_port
from support.server_process import ServerProcess, run_to_its_end

LIMIT = 48 * 1024 * 1024
GROWTH = 3 * LIMIT  # what a server may hold more after all of them: Lua, what Python keeps of it, and a margin

FAULTS = {
    # lua.org/bugs.html, 5.1.5-2: the check against too many results overflows, and compilers leave it out.
    "unpack of more results than an int counts": "return #{unpack({1,2,3}, -2, 2147483647)}",
    "CVE-2025-46817, unpack up to the largest int": "return #{unpack({1,2,3}, 0, 2^31 - 1)}",
    "unpack across the largest int": "return #{unpack({1,2,3}, 2^31 - 1, 2^31 + 3)}",
    "unpack from minus infinity": "return #{unpack({1,2,3}, -math.huge, math.huge)}",
    "unpack of not-a-number": "return #{unpack({1,2,3}, 0/0, 0/0)}",
    "unpack of a long table": "local t = {} for i = 1, 100000 do t[i] = i end return #{unpack(t)}",
    # 5.1.5-1: load calls its reader again after the end; CVE-2025-49844: and the name of the chunk is freed meanwhile.
    "CVE-2025-49844, garbage collected while load parses": (
        "local n = 0 local f = load(function() n = n + 1 collectgarbage() if n > 1 then return nil end"
        " return nil end, string.rep('name', 1000) .. n) collectgarbage() return tostring(f)"
    ),
    "load with a reader that collects at each piece": (
        "local p = {'return ', '1', ' + ', '1'} local n = 0"
        " return load(function() n = n + 1 collectgarbage() return p[n] end, 'x' .. n)()"
    ),
    # CVE-2024-46981: a finalizer that runs after what it needs. Scripts cannot make one.
    "CVE-2024-46981, a finalizer": "return newproxy(true)",
    "CVE-2024-46981, collection between commands": "for i = 1, 100 do redis.call('PING') collectgarbage() end return 1",
    # CVE-2025-46818: the metatables of basic types are shared between scripts.
    "CVE-2025-46818, the metatable of strings": "getmetatable('').__index = function() return 'owned' end",
    "CVE-2025-46818, a field of it": "getmetatable('').x = 1",
    "CVE-2025-46818, of numbers": "getmetatable(1).__index = {}",
    "CVE-2025-46818, of nil": "getmetatable(nil).__index = {}",
    "CVE-2025-46818, of functions": "getmetatable(print or pcall).__index = {}",
    # CVE-2025-46819: delimiters of a long bracket are counted in an int.
    "CVE-2025-46819, a long delimiter": "return loadstring('return [' .. string.rep('=', 4000000) .. '[x')",
    "CVE-2025-46819, a long delimiter of a comment": "return loadstring('--[' .. string.rep('=', 4000000) .. '[x')",
    # Forged bytecode (many, among them the escape of 2015).
    "bytecode to loadstring": "return loadstring(string.dump(function() return 1 end))()",
    "bytecode to load": "local d = string.dump(function() end) local n = 0"
    " return load(function() n = n + 1 if n == 1 then return d end end)()",
    "forged bytecode": "return loadstring('\\27Lua\\81\\0\\1\\4\\8\\4\\8\\0' .. string.rep('\\255', 200))()",
    # CVE-2022-0543 (Debian's package): the loader.
    "CVE-2022-0543, package.loadlib": "return package.loadlib('liblua5.1.so.0', 'luaopen_io')",
    "require": "return require('os')",
    "dofile": "return dofile('/etc/passwd')",
    # CVE-2021-32626: the stack of Lua, from calls of C.
    "CVE-2021-32626, nested pcall": "local function f() return pcall(f) end return tostring(f())",
    "CVE-2021-32626, nested replies": "local t = {} for i = 1, 100000 do t = {t} end return t",
    "CVE-2021-32626, cjson": "return cjson.decode(string.rep('[', 100000))",
    "nested coroutines": "local function f() return coroutine.wrap(f)() end return f()",
    "nested metamethods": "return setmetatable({}, {__index = function(t, k) return t[k + 1] end})[1]",
    "nested gsub": "local function f() return (string.gsub('a', 'a', f)) end return f()",
    "nested sort": "local function f(a, b) table.sort({1, 2}, f) return a < b end return table.sort({2, 1}, f)",
    "nested xpcall with a handler that fails": "local function f() return xpcall(f, f) end return tostring(f())",
    "a recursion of its own": "local function f() return 1 + f() end return f()",
    # The recursion of the matcher: one level for each repetition of a pattern.
    "a pattern of many options": "return string.find(string.rep('a', 300000), string.rep('a?', 300000))",
    "the same by method": "return (string.rep('a', 300000)):match(string.rep('a?', 300000))",
    "the same by gsub": "return string.gsub(string.rep('a', 300000), string.rep('a-', 300000), '')",
    "the same by gmatch": "for _ in string.gmatch(string.rep('a', 300000), string.rep('a*', 300000)) do end",
    "unfinished patterns": "return {pcall(string.find, 'a', '%'), pcall(string.find, 'a', '[a')}",
    "too many captures": "return string.find('a', string.rep('(', 1000))",
    # The parser.
    "deep parentheses": "return loadstring('return ' .. string.rep('(', 500000) .. '1')",
    "deep tables": "return loadstring('return ' .. string.rep('{', 500000))",
    "deep concatenation": "return loadstring('return ' .. string.rep('a..', 500000) .. 'a')",
    "deep functions": "return loadstring(string.rep('return function() ', 100000))",
    "many assignments": "return loadstring(string.rep('a,', 500000) .. 'a = 1')",
    "many locals": "return loadstring(string.rep('local a ', 10000))",
    "many upvalues": "return loadstring(string.rep('local a local function f() return a end ', 5000))",
    "many constants": "local t = {} for i = 1, 300000 do t[i] = i + 0.5 end"
    " return loadstring('return {' .. table.concat(t, ',') .. '}')",
    # Widths, sizes, counts.
    "a wide format": "return string.format('%99999999d', 1)",
    "a precise format": "return string.format('%.99999999f', 1)",
    "the widest format": "return #string.format('%99.99f', -1e308)",
    "a format without arguments": "return string.format('%s%s%s')",
    "CVE-2015-8080, CVE-2020-14147, struct": "return struct.pack('>I2147483648', '10')",
    "CVE-2018-11219, struct.unpack": "return struct.unpack('>I4294967295c0', 'x')",
    "CVE-2018-11219, struct sizes": "return struct.unpack('>Lc0', string.rep('\\255', 8) .. 'x')",
    "struct offsets": "return {pcall(struct.unpack, 'i4', 'abcd', 2^53), pcall(struct.unpack, 'i4', 'abcd', -2^53)}",
    "CVE-2018-11218, cmsgpack": "return cmsgpack.unpack('\\221\\255\\255\\255\\255')",
    "CVE-2018-11218, a deep cmsgpack": "return cmsgpack.unpack(string.rep('\\145', 30000))",
    "CVE-2024-31449, bit.tohex": "return {bit.tohex(65535, -2147483648), bit.tohex(65535, 2147483647)}",
    "CVE-2022-24834, cjson of a long text": "return #cjson.encode(string.rep('\\1', 4000000))",
    "cjson of a sparse table": "return cjson.encode({[2^31] = 1})",
    "cjson of a circle": "local t = {} t.t = t return cjson.encode(t)",
    "cjson of a circle with no end": "cjson.encode_max_depth(2^31 - 1) local t = {} t.t = t return cjson.encode(t)",
    "cjson of a sparse table, permitted": "cjson.encode_sparse_array(true, 0) return #cjson.encode({[2^30] = 1})",
    "cmsgpack of a circle": "local t = {} t[1] = t return cmsgpack.pack(t)",
    "an insertion far in front": "return table.insert({}, -2^31, 1)",
    "an insertion at nowhere": "return table.insert({1, 2}, 0/0, 1)",
    "a table of a large index": "local t = {} t[2^31] = 1 t[2^53] = 1 return #t",
    "concat to the largest int": "return table.concat({1, 2}, ',', 1, 2^31 - 1)",
    "an order that is none": "return table.sort({5, 3, 1, 2, 4, 9, 8, 7, 6}, function() return true end)",
    "a table that is sorted and grows": "local t = {} for i = 1, 100 do t[i] = i end"
    " table.sort(t, function(a, b) t[#t + 1] = 1 return a < b end)",
    "a table that is walked and grows": "local t = {1} for k in pairs(t) do t[k .. 'x'] = 1 end",
    "nothing, repeated": "return string.rep('', 2^31 - 1)",
    "an error that is no text": "error(cjson.null)",
    "an error in the text of an error": "error(setmetatable({}, {__tostring = function() error('x') end}))",
    # Memory.
    "memory, by doubling": "local s = 'a' while true do s = s .. s end",
    "memory, by tables": "local t = {} while true do t[#t + 1] = {} end",
    "memory, by string.rep": "return #string.rep('a', 2^31 - 1)",
    "memory, by concat": "local t = {} for i = 1, 99 do t[i] = string.rep('a', 999999) end return #table.concat(t)",
    "memory, by gsub": "return #string.gsub(string.rep('a', 2^20), 'a', string.rep('b', 1000))",
    "memory, by a reply": "local t = {} for i = 1, 99 do t[i] = string.rep('a', 2^20) end return t",
    "memory, by coroutines": "local t = {} while true do t[#t + 1] = coroutine.create(function() end) end",
    "memory, by source": "return #tostring(loadstring('return {' .. string.rep('1,', 10000000) .. '}'))",
    "memory, caught again and again": (
        "for i = 1, 20 do pcall(function() local s = 'a' while true do s = s .. s end end) redis.call('PING') end"
    ),
    "memory, and then a command": (
        "local t = {} pcall(function() while true do t[#t + 1] = {} end end)"
        " for i = 1, 100 do pcall(redis.call, 'SET', 'x', {}) pcall(redis.call, 'GET', 'x') end return 1"
    ),
    "memory, by the reply of a command": (
        "redis.call('SET', 'large', string.rep('x', 20000000)) local t = {}"
        " for i = 1, 9 do t[i] = redis.call('GET', 'large') .. i end return #t"
    ),
    "memory, by a list": (
        "local t = {} for i = 1, 300 do t[i] = 'x' end for i = 1, 300 do redis.call('RPUSH', 'list', unpack(t)) end"
        " for i = 1, 99 do t[i] = redis.call('LRANGE', 'list', 0, -1) end"
    ),
}

# What is no fault here, or may go either way, is answered; everything else is an error of the script.
ANSWERED = {
    *("CVE-2025-49844, garbage collected while load parses", "load with a reader that collects at each piece"),
    *("CVE-2024-46981, collection between commands", "CVE-2024-31449, bit.tohex", "CVE-2021-32626, nested replies"),
    *("CVE-2025-46819, a long delimiter", "CVE-2025-46819, a long delimiter of a comment"),
    *("CVE-2021-32626, nested pcall", "nested xpcall with a handler that fails", "unfinished patterns"),
    *("deep parentheses", "deep tables", "deep concatenation", "deep functions", "many assignments", "many locals"),
    *("many upvalues", "many constants", "the widest format", "struct offsets", "cmsgpack of a circle"),
    *("a table of a large index", "an order that is none", "a table that is sorted and grows", "nothing, repeated"),
    *("a table that is walked and grows", "memory, caught again and again", "memory, and then a command"),
}
DEEPEST_REPLY = 1000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("lua")
    recursion = sys.getrecursionlimit()
    sys.setrecursionlimit(5000)  # of the client, which reads replies of 1,000 levels
    with ServerProcess(directory, "--lua-memory-limit", str(LIMIT), "--save", "") as server:
        yield server
    sys.setrecursionlimit(recursion)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_lua_ends_no_server(server: ServerProcess, fault: str) -> None:
    before = server.resident_bytes()
    with server.raw() as client:
        client.run("FLUSHALL")
        reply = client.run("EVAL", FAULTS[fault], "0")
        assert reply[:1] in (b"-:$*" if fault in ANSWERED else b"-"), reply[:100]
        assert reply.count(b"*1\r\n") <= DEEPEST_REPLY
        assert b"internal error" not in reply
        assert client.run("EVAL", "return {#'abc', ('x'):rep(3), redis.call('PING')}", "0") == (
            b"*3\r\n:3\r\n$3\r\nxxx\r\n+PONG\r\n"
        )
        client.run("FLUSHALL")
    assert server.process.poll() is None
    assert server.resident_bytes() - before < GROWTH


def test_nothing_of_all_that_stays(server: ServerProcess) -> None:
    with server.raw() as client:
        for fault, script in FAULTS.items():
            if fault.startswith("CVE-2025-46818"):
                client.run("EVAL", script, "0")
        assert client.run("EVAL", "return ('a').x == nil and 1 or 0", "0") == b":1\r\n"
        assert client.run("EVAL", "return cjson.encode({1})", "0") == b"$3\r\n[1]\r\n"


@pytest.mark.parametrize("command", ["check", "serve"])
def test_a_file_that_holds_such_a_script_ends_no_command(tmp_path: Path, command: str) -> None:
    directory = tmp_path / "appendonlydir"
    directory.mkdir()
    (directory / "appendonly.aof.manifest").write_text("file appendonly.aof.1.incr.aof seq 1 type i\n")
    script = b"return #{unpack({1,2,3},-2,2147483647)}"
    (directory / "appendonly.aof.1.incr.aof").write_bytes(
        b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*3\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n0\r\n" % (len(script), script)
    )
    if command == "check":
        ended = run_to_its_end("check", str(tmp_path), directory=tmp_path)
    else:
        ended = run_to_its_end("serve", "--appendonly", "yes", "--port", str(free_port()), directory=tmp_path)
    assert ended.returncode > 0, ended.stdout + ended.stderr
    assert b"too many results to unpack" in ended.stdout + ended.stderr


def test_no_function_ends_the_process_whatever_it_is_given(tmp_path: Path) -> None:
    last = tmp_path / "last.lua"
    rounds = "100000" if LONG else "1500"
    ended = subprocess.run(
        [sys.executable, "-m", "support.lua_fuzz", "1", rounds, str(last)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:] + last.read_text()


def test_the_limit_can_be_asked_for_and_changed(server: ServerProcess) -> None:
    with server.raw() as client:
        assert (
            client.run("CONFIG", "GET", "lua-memory-limit") == b"*2\r\n$16\r\nlua-memory-limit\r\n$8\r\n%d\r\n" % LIMIT
        )
        large = "return #string.rep('x', 10000000)"
        assert client.run("CONFIG", "SET", "lua-memory-limit", "4mb") == b"+OK\r\n"
        assert client.run("EVAL", large, "0").startswith(b"-ERR not enough memory")
        assert client.run("CONFIG", "SET", "lua-memory-limit", str(LIMIT)) == b"+OK\r\n"
        assert client.run("EVAL", large, "0") == b":10000000\r\n"
