"""FUNCTION and FCALL answer as redis-server 7.0.15 does, to the byte, and exchange libraries with it."""

from collections.abc import Iterator

import pytest
import redis

from support.function_samples import BAD, CALLS, GOOD, library
from support.in_process import InProcess
from support.raw_client import RawClient


@pytest.fixture(params=[2, 3])
def wires(
    request: pytest.FixtureRequest, headrace_server: redis.Redis, redis_server: redis.Redis
) -> Iterator[tuple[RawClient, RawClient]]:
    with RawClient.of(headrace_server, request.param) as ours, RawClient.of(redis_server, request.param) as theirs:
        for wire in (ours, theirs):
            wire.run("FUNCTION", "FLUSH")
        yield ours, theirs
        for wire in (ours, theirs):
            wire.run("FUNCTION", "FLUSH")


@pytest.fixture
def engine() -> InProcess:
    return InProcess()


def bulk(reply: bytes) -> bytes:
    """The text of a reply that is one."""
    return reply.partition(b"\r\n")[2][:-2]


def test_libraries_and_calls_are_answered_as_by_redis(wires: tuple[RawClient, RawClient]) -> None:
    ours, theirs = wires
    requests = [["FUNCTION", "LOAD", library(name)] for name in GOOD]
    requests += [["FUNCTION", "LOAD", library("plain")]]
    requests += [["FUNCTION", "LOAD", code] for code in BAD]
    requests += CALLS
    answers = [(request, ours.run(*request), theirs.run(*request)) for request in requests]
    assert not [answer for answer in answers if answer[1] != answer[2]]


def test_a_dump_goes_both_ways(wires: tuple[RawClient, RawClient]) -> None:
    ours, theirs = wires
    for wire in wires:
        wire.run("CONFIG", "SET", "rdbcompression", "no")
    for giver, taker in ((ours, theirs), (theirs, ours)):
        giver.run("FUNCTION", "FLUSH")
        giver.run("FUNCTION", "LOAD", library("counts"))
        dump = bulk(giver.run("FUNCTION", "DUMP"))
        for policy in ("FLUSH", "REPLACE"):
            assert taker.run("FUNCTION", "RESTORE", dump, policy) == b"+OK\r\n"
        assert taker.run("FUNCTION", "RESTORE", dump) == b"-ERR Library counts already exists\r\n"
        assert taker.run("FUNCTION", "RESTORE", dump[:-1] + b"x") == giver.run("FUNCTION", "RESTORE", dump[:-1] + b"x")
        assert taker.run("FUNCTION", "DUMP") == giver.run("FUNCTION", "DUMP")
        assert taker.run("FCALL", "counts", "0") == b":1\r\n"
    ours.run("CONFIG", "SET", "rdbcompression", "yes")
    theirs.run("CONFIG", "SET", "rdbcompression", "yes")
    for giver, taker in ((ours, theirs), (theirs, ours)):
        assert taker.run("FUNCTION", "RESTORE", bulk(giver.run("FUNCTION", "DUMP")), "REPLACE") == b"+OK\r\n"


def test_a_restore_loads_all_libraries_or_none(engine: InProcess) -> None:
    engine.run("FUNCTION", "LOAD", library("plain"))
    engine.run("FUNCTION", "LOAD", library("counts"))
    dump = bulk(engine.run("FUNCTION", "DUMP"))
    engine.run("FUNCTION", "DELETE", "plain")
    assert engine.run("FUNCTION", "RESTORE", dump) == b"-ERR Library counts already exists\r\n"
    assert engine.run("FCALL", "plain", 0) == b"-ERR Function not found\r\n"
    assert engine.run("FUNCTION", "RESTORE", dump, "REPLACE") == b"+OK\r\n"
    assert engine.run("FCALL", "plain", 0).startswith(b"*4")


def test_what_functions_write_is_their_effect_and_a_library_is_one(engine: InProcess) -> None:
    engine.run("FUNCTION", "LOAD", library("tail"))
    engine.run("FCALL", "tail", 1, "n")
    engine.run("FUNCTION", "DELETE", "tail")
    engine.run("FUNCTION", "FLUSH")
    assert [effect for _, effect in engine.take_effects()] == [
        [b"FUNCTION", b"LOAD", library("tail").encode()],
        [b"INCR", b"n"],
        [b"FUNCTION", b"DELETE", b"tail"],
        [b"FUNCTION", b"FLUSH"],
    ]


def test_a_function_needs_permission_as_a_command_and_for_its_keys(engine: InProcess) -> None:
    engine.run("FUNCTION", "LOAD", library("tail"))
    engine.run("ACL", "SETUSER", "limited", "on", "nopass", "~a*", "+fcall", "+incr", "+function|list")
    user = engine.connect()
    user.run("AUTH", "limited", "x")
    assert user.run("FCALL", "tail", 1, "a") == b":1\r\n"
    assert user.run("FCALL", "tail", 1, "b").startswith(b"-NOPERM")
    assert user.run("FCALL_RO", "tail", 1, "a").startswith(b"-NOPERM")
    assert user.run("FUNCTION", "FLUSH").startswith(b"-NOPERM")
    assert user.run("FUNCTION", "LIST").startswith(b"*1")


def test_functions_are_counted(engine: InProcess) -> None:
    engine.run("FUNCTION", "LOAD", library("fails"))
    report = engine.run("INFO", "memory")
    assert b"number_of_functions:10\r\n" in report
    assert b"number_of_libraries:1\r\n" in report
    assert b"used_memory_functions:0\r\n" not in report


def test_a_read_only_script_publishes_nothing(engine: InProcess) -> None:
    for script in ("return redis.call('PUBLISH', 'c', 'm')", "return redis.call('SPUBLISH', 'c', 'm')"):
        assert engine.run("EVAL_RO", script, 0).startswith(b"-ERR Write commands are not allowed from read-only")
        assert engine.run("EVAL", script, 0) == b":0\r\n"


@pytest.mark.parametrize("count", [99, 100, 101, 4000, 7998])
def test_a_command_of_a_script_has_as_many_arguments_as_lua_can_unpack(engine: InProcess, count: int) -> None:
    script = f"local t = {{}} for i = 1, {count} do t[i] = i end return redis.call('RPUSH', KEYS[1], unpack(t))"
    assert engine.run("EVAL", script, 1, "list") == b":%d\r\n" % count
    reply = engine.run("EVAL", "local t = redis.call('LRANGE', KEYS[1], 0, -1) return {#t, t[1], t[#t]}", 1, "list")
    assert reply == b"*3\r\n:%d\r\n$1\r\n1\r\n$%d\r\n%d\r\n" % (count, len(str(count)), count)
