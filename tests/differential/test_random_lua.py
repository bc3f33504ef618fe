"""Random Lua programs to Headrace and to a live redis-server 7.0.15: the same replies, to the byte.

    HEADRACE_SEED=n      run only the program of that seed
    HEADRACE_LONG=1      many more

In `test_random_scripts` the commands are random; here the scripts are: which arguments they give to commands (numbers
of every kind, values that are no words), where they call them (functions, coroutines, protected calls, tail calls, for
which Lua forgets the caller), what they do with errors, and which parts of replies they return.
"""

import random

import pytest
import redis

from support.campaign import LONG, SEED
from support.raw_client import RawClient

PROGRAMS = 20_000 if LONG else 400

WORD_LIST = (
    "0 -0 1 -1 3.5 1e15 1e16 1e17 -1e17 123456789012345680 2^53 2^63 -2^63 1e300 0.1 1/3 -1e-7 1/0 -1/0 '7' 'a' '' "
    "'x\\0y' '\\r\\n' KEYS[1] ARGV[1] ARGV[2] #ARGV"
)
NO_WORDS = ("nil", "true", "false", "{}", "{'a'}", "print", "redis.call")
KEYS = ("'s'", "'l'", "'h'", "'z'", "'set'", "'n'", "'x'", "KEYS[1]", "KEYS[2]")
COMMAND_LIST = """
'SET', {key}, {word}
'GET', {key}
'INCR', {key}
'INCRBYFLOAT', {key}, {word}
'APPEND', {key}, {word}
'RPUSH', {key}, {word}, {word}
'LRANGE', {key}, 0, -1
'LPOP', {key}
'LINDEX', {key}, {word}
'HSET', {key}, {word}, {word}
'HGETALL', {key}
'HGET', {key}, {word}
'HMGET', {key}, {word}, {word}
'ZADD', {key}, -1.5, {word}
'ZRANGE', {key}, 0, -1, 'WITHSCORES'
'ZSCORE', {key}, {word}
'SADD', {key}, {word}
'SISMEMBER', {key}, {word}
'EXISTS', {key}, {key}
'TYPE', {key}
'XADD', {key}, {word}, 'f', {word}
'XRANGE', {key}, '-', '+'
'XLEN', {key}
'DEL', {key}
'PING'
'ECHO', {word}
'NOSUCH', {word}
'GET'
'MULTI'
{word}, {word}
'config', 'nosuch'
"""
WORDS, COMMANDS = WORD_LIST.split(" "), COMMAND_LIST.split("\n")
PLACES = (
    "add({call})",
    "local reply = {call} add(reply)",
    "add(pcall(function() return {call} end))",
    "add(pcall(function() local r = {call} return r end))",
    "add((function() return {call} end)())",
    "add(coroutine.wrap(function() coroutine.yield({call}) end)())",
    "local t = {call} add(type(t)) if type(t) == 'table' then add(#t, t.ok, t.err, t[1], t.double) end",
    "local t = {call} add(tostring(t) == tostring(t), t == false, t == nil)",
    "local t = {call} if type(t) ~= 'table' or not t.err then add(cjson.encode({{t}})) end",  # Redis's errors say more
    "for i = 1, {count} do add({call}) end",
    "add(xpcall(function() return {call} end, function(e) return type(e) == 'table' and e.err or e end))",
    "redis.setresp({protocol})",
)
FIRST = """
local out = {}
local function add(...)
    for i = 1, select('#', ...) do
        local value = select(i, ...)
        out[#out + 1] = value == nil and 'nil' or value
    end
end
"""
LAST = ("return out", "return {call}", "do return {call} end", "return #out", "add({call}) return out")


def call_of(chance: random.Random) -> str:
    words = chance.choice(COMMANDS)
    while "{key}" in words or "{word}" in words:
        words = words.replace("{key}", chance.choice(KEYS), 1)
        words = words.replace("{word}", chance.choice(NO_WORDS if chance.random() < 0.03 else WORDS), 1)
    return f"redis.{chance.choice(('call', 'pcall', 'pcall'))}({words})"


def program_of(chance: random.Random) -> str:
    lines = [FIRST.strip()]
    for _ in range(chance.randrange(1, 12)):
        place = chance.choice(PLACES)
        protocol, count = chance.choice((2, 2, 3, "'3'", 4)), chance.randrange(4)
        lines.append("do " + place.format(call=call_of(chance), protocol=protocol, count=count) + " end")
    lines.append(chance.choice(LAST).format(call=call_of(chance)))
    return "\n".join(lines)


@pytest.fixture
def both(headrace_server: redis.Redis, redis_server: redis.Redis) -> list[RawClient]:
    return [RawClient.of(redis_server), RawClient.of(headrace_server)]


def test_random_programs_are_answered_as_by_redis(both: list[RawClient]) -> None:
    for seed in [SEED] if SEED is not None else range(PROGRAMS):
        chance = random.Random(seed)
        for client in both:
            client.run("HELLO", 2 + seed % 2)
            if seed % 10 == 0:
                client.run("FLUSHALL")
        program = program_of(chance)
        request = [b"EVAL", program.encode(), b"2", b"s", b"l", b"12", b"text"]
        expected, found = (client.run(*request) for client in both)
        assert found == expected, f"HEADRACE_SEED={seed}\n{program}"
    for client in both:
        client.close()
