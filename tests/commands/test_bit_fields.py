"""BITFIELD and BITFIELD_RO, beside redis-server 7.0.15: random operations on random rows, refusals, effects."""

import random

import pytest
import redis

from support.campaign import LONG, SEED
from support.in_process import InProcess
from support.raw_client import RawClient, Word

ROUNDS = 100_000 if LONG else 2_500
LIMITS = (0, 1, -1, 2, -2, 127, -128, 255, 256, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63))


def operation(choices: random.Random) -> list[Word]:
    """Draw an operation on a field of any type and place, with values that often have no room in it."""
    sign, width = choices.choice("iu"), choices.choice((1, 2, 7, 8, 9, 31, 32, 33, 62, 63, 64, choices.randint(1, 63)))
    field = f"{sign}{min(width, 63) if sign == 'u' else width}"
    offset = choices.choice((str(choices.randrange(90)), f"#{choices.randrange(3)}"))
    most = (1 << (width - 1)) - choices.randint(0, 2)
    near = choices.choice((choices.choice(LIMITS), choices.randint(-300, 300), most))
    value = min(max(near, -(2**63)), 2**63 - 1)
    overflow: list[Word] = ["OVERFLOW", choices.choice(("WRAP", "sat", "FAIL"))] if choices.random() < 0.4 else []
    name = choices.choice(("GET", "SET", "INCRBY", "INCRBY"))
    return [*overflow, name, field, offset, *([] if name == "GET" else [value])]


def test_random_operations_are_answered_and_done_as_there(
    headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    seed = SEED if SEED is not None else random.randrange(2**32) if LONG else 1
    choices = random.Random(seed)
    with RawClient.of(headrace_server) as ours, RawClient.of(redis_server) as theirs:
        for _ in range(ROUNDS):
            words = [word for _ in range(choices.randint(1, 4)) for word in operation(choices)]
            asked: list[list[Word]] = [["BITFIELD", "k", *words], ["GET", "k"], ["BITFIELD_RO", "k", *words]]
            if choices.random() < 0.05:
                asked.append(["SET", "k", choices.randbytes(choices.randrange(14))])
            elif choices.random() < 0.05:
                asked.append(["DEL", "k"])
            for request in asked:
                assert ours.run(*request) == theirs.run(*request), (seed, request)


def test_other_requests_are_refused_or_answered_as_there(
    headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    lines = """
        RPUSH list a|BITFIELD list|BITFIELD list GET u8 0|BITFIELD list SET u8 0 1|BITFIELD list SET u8 0 x
        BITFIELD_RO list|BITFIELD|BITFIELD k|BITFIELD k GET|BITFIELD k GET u8|BITFIELD k SET u8 0|BITFIELD k INCRBY u8 0
        BITFIELD k OVERFLOW|BITFIELD k OVERFLOW none|BITFIELD k OVERFLOW none GET u8 x|BITFIELD k OVERFLOW WRAP
        BITFIELD k GET u64 0|BITFIELD k GET u63 0|BITFIELD k GET i65 0|BITFIELD k GET i64 0|BITFIELD k GET U8 0
        BITFIELD k GET u 0|BITFIELD k GET 8 0|BITFIELD k GET u08 0|BITFIELD k GET u-1 0|BITFIELD k GET u0 0
        BITFIELD k GET u8 -1|BITFIELD k GET u8 x|BITFIELD k GET u8 #|BITFIELD k GET u8 #-1|BITFIELD k GET u8 ##1
        BITFIELD k GET u8 4294967295|BITFIELD k GET u8 4294967296|BITFIELD k GET u8 #536870911|EXISTS k
        BITFIELD k GET u8 #536870912|BITFIELD k SET u8 4294967296 1|BITFIELD k SET u8 #536870912 1|EXISTS k
        BITFIELD k SET u8 0 1.5|BITFIELD k SET u8 0 9223372036854775808|BITFIELD k GET u8 0 SET u8 0 x|EXISTS k
        BITFIELD k NOP u8 0|BITFIELD k GET u8 0 more|bitfield_ro k set u8 0 1|BITFIELD_RO k INCRBY u8 0 1 GET
        BITFIELD_RO k GET u8 0 GET u4 #1|BITFIELD_RO k OVERFLOW SAT GET u8 0|BITFIELD_RO k OVERFLOW SAT|EXISTS k
        BITFIELD k OVERFLOW FAIL SET u8 0 256|GET k|BITFIELD k OVERFLOW FAIL INCRBY u2 #30 4 GET u8 0|STRLEN k
        SET ttl a EX 1000|BITFIELD ttl SET u8 #3 1|TTL ttl|BITFIELD missing GET u8 0|EXISTS missing
        COMMAND GETKEYSANDFLAGS BITFIELD k GET u8 0|COMMAND GETKEYSANDFLAGS BITFIELD k GET u8 0 incrby u8 0 1
        COMMAND GETKEYSANDFLAGS BITFIELD k|COMMAND GETKEYSANDFLAGS BITFIELD_RO k GET u8 0|COMMAND INFO bitfield_ro
        COMMAND GETKEYSANDFLAGS SET k v|COMMAND GETKEYSANDFLAGS SET k v NX GET
    """
    with RawClient.of(headrace_server) as ours, RawClient.of(redis_server) as theirs:
        for line in lines.replace("\n", "|").split("|"):
            if words := line.split():
                assert ours.run(*words) == theirs.run(*words), line


def test_only_what_wrote_something_is_an_effect() -> None:
    engine = InProcess()
    for words in ("GET u8 0", "SET u8 8 0", "SET u8 0 0", "INCRBY u8 0 5", "INCRBY u8 0 0", "SET u8 0 5 GET u8 0"):
        engine.run("BITFIELD", "k", *words.split())
    effects = [b" ".join(effect) for _, effect in engine.take_effects()]
    assert effects == [b"BITFIELD k SET u8 8 0", b"BITFIELD k INCRBY u8 0 5"]


@pytest.mark.parametrize("before", [None, b"a"])
def test_zeros_of_a_write_that_failed_are_an_effect_and_no_event(before: bytes | None) -> None:
    engine, other = InProcess(), InProcess()
    if before is not None:
        engine.run("SET", "k", before)
    watcher = engine.connect()
    watcher.run("WATCH", "k")
    assert engine.run("BITFIELD", "k", "OVERFLOW", "FAIL", "SET", "u8", 8, 256) == b"*1\r\n$-1\r\n"
    for _, effect in engine.take_effects():
        other.run(*effect)
    assert other.run("GET", "k") == engine.run("GET", "k") == b"$2\r\n%s\0\r\n" % (before or b"\0")
    assert watcher.client.watch_failed


def test_who_may_only_read_may_get_and_not_set(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    for server in (headrace_server, redis_server):
        server.acl_setuser("reader", reset=True, enabled=True, nopass=True, keys=["%R~k"], commands=["+@all"])
    with RawClient.of(headrace_server) as ours, RawClient.of(redis_server) as theirs:
        for line in ("AUTH reader x", "BITFIELD k GET u8 0", "BITFIELD k", "BITFIELD k SET u8 0 1", "BITFIELD_RO k"):
            found, expected = ours.run(*line.split()), theirs.run(*line.split())
            assert found.split()[0] == expected.split()[0], line  # 7.2 says the reason in other words
    for server in (headrace_server, redis_server):
        server.acl_deluser("reader")
