"""Strings, lists, sets, sorted sets and hashes where random commands do not reach: newer options, sizes, digits."""

import random

import pytest
import redis

from headrace.commands import long_double
from support.campaign import LONG
from support.in_process import InProcess
from support.raw_client import RawClient

SUMS = 20_000 if LONG else 1_000


@pytest.fixture
def engine() -> InProcess:
    return InProcess()


def bulk(text: bytes) -> bytes:
    return b"$%d\r\n%s\r\n" % (len(text), text)


OK, NIL = b"+OK\r\n", b"$-1\r\n"


# --- what came after 7.0 -------------------------------------------------------------------------------------------


def test_set_on_the_condition_that_a_key_holds_a_string_or_another(engine: InProcess) -> None:
    assert engine.run("SET", "lock", "mine", "IFEQ", "mine") == NIL
    assert engine.run("SET", "lock", "mine", "IFNE", "mine") == OK
    assert engine.run("SET", "lock", "new", "IFNE", "mine") == NIL
    assert engine.run("SET", "lock", "get", "IFEQ", "mine", "GET") == bulk(b"mine")
    assert engine.run("SET", "lock", "last", "IFEQ", "get", "GET") == bulk(b"get")
    assert engine.take_effects() == [
        (0, [b"SET", b"lock", b"mine", b"IFNE", b"mine"]),
        (0, [b"SET", b"lock", b"get", b"IFEQ", b"mine"]),
        (0, [b"SET", b"lock", b"last", b"IFEQ", b"get"]),
    ]
    for line in ("SET lock x IFEQ", "SET lock x NX IFEQ last", "SET lock x IFNE a IFEQ b"):
        assert engine.run(*line.split()) == b"-ERR syntax error\r\n"
    engine.run("RPUSH", "list", "a")
    assert engine.run("SET", "list", "x", "IFNE", "a").startswith(b"-WRONGTYPE")


def test_ranks_come_with_scores(engine: InProcess) -> None:
    engine.run("ZADD", "z", "1.5", "a", 2, "b")
    assert engine.run("ZRANK", "z", "a", "WITHSCORE") == b"*2\r\n:0\r\n$3\r\n1.5\r\n"
    assert engine.run("ZREVRANK", "z", "a", "withscore") == b"*2\r\n:1\r\n$3\r\n1.5\r\n"
    assert engine.run("ZRANK", "z", "x", "WITHSCORE") == b"*-1\r\n"
    assert engine.run("ZRANK", "z", "x") == NIL
    assert engine.run("ZRANK", "z", "a", "SCORE") == b"-ERR syntax error\r\n"


def test_a_hash_is_scanned_without_its_texts(engine: InProcess) -> None:
    engine.run("HSET", "h", "a", "1", "b", "2")
    assert engine.run("HSCAN", "h", "0", "NOVALUES") == b"*2\r\n$1\r\n0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n"
    assert engine.run("HSCAN", "h", "0", "MATCH", "b", "NOVALUES") == b"*2\r\n$1\r\n0\r\n*1\r\n$1\r\nb\r\n"


@pytest.mark.parametrize("line", ["LREM l -9223372036854775808 a", "LPOS l a RANK -9223372036854775808"])
def test_the_one_number_that_has_no_opposite_is_refused(engine: InProcess, line: str) -> None:
    assert b"value must between -9223372036854775807 and" in engine.run(*line.split())


def test_nobody_asks_for_more_random_elements_than_a_reply_can_hold(engine: InProcess) -> None:
    engine.run("SADD", "s", "a")
    assert engine.run("SRANDMEMBER", "s", -(2**62)) == b"-ERR value is out of range\r\n"


def test_a_hash_and_a_sorted_set_go_from_server_to_server(
    redis_server: redis.Redis, headrace_server: redis.Redis
) -> None:
    for source, target in ((redis_server, headrace_server), (headrace_server, redis_server)):
        for size in (3, 1000):
            source.hset("h", mapping={f"field{n}": n for n in range(size)})
            source.zadd("z", {f"member{n}": n / 3 for n in range(size)})
            for key in "hz":
                target.restore(key, 0, source.dump(key), replace=True)
            assert target.hgetall("h") == source.hgetall("h")
            assert target.zrange("z", 0, -1, withscores=True) == source.zrange("z", 0, -1, withscores=True)
            source.delete("h", "z")


# --- sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [0, 3, 128])
@pytest.mark.parametrize("length", [3, 64])
def test_encodings_follow_the_settings_as_those_of_redis_do(
    redis_server: redis.Redis, headrace_server: redis.Redis, entries: int, length: int
) -> None:
    before = {server: server.config_get("*-max-*") for server in (redis_server, headrace_server)}
    found = []
    for server in before:
        for kind in ("hash", "zset"):
            server.config_set(f"{kind}-max-listpack-entries", entries)
            server.config_set(f"{kind}-max-listpack-value", length)
        for count in (entries, entries + 1):
            for size in (length, length + 1):
                server.delete("h", "z")
                long = "x" * size
                server.hset("h", mapping={long: "1", **{f"{n}": "1" for n in range(count - 1)}})
                server.zadd("z", {long: 1, **{f"{n}": n for n in range(count - 1)}})
                found += [(server, server.object("encoding", key)) for key in "hz"]
                server.hset("h", mapping={long[:1]: long})
                found.append((server, server.object("encoding", "h")))
    for server, settings in before.items():
        for name in ("hash", "zset"):
            for limit in ("entries", "value"):
                server.config_set(f"{name}-max-listpack-{limit}", settings[f"{name}-max-listpack-{limit}"])
    theirs, ours = ([encoding for server, encoding in found if server is each] for each in before)
    assert ours == theirs


def test_the_memory_of_every_type_grows_with_what_it_holds(engine: InProcess) -> None:
    for add in ("HSET key {} v", "ZADD key 1 {}", "SADD key {}", "RPUSH key {}", "APPEND key {:050}"):
        engine.run("DEL", "key")
        sizes = []
        for number in range(1000):
            engine.run(*add.format(number).split())
            if number in (0, 99, 999):
                sizes.append(int(engine.run("MEMORY", "USAGE", "key")[1:]))
        assert sizes == sorted(set(sizes)), add


# --- digits ----------------------------------------------------------------------------------------------------------


def random_number(chance: random.Random) -> bytes:
    whole = chance.randrange(10 ** chance.randrange(1, 25))
    text = f"{chance.choice(['', '-'])}{whole}"
    if chance.random() < 0.7:
        text += f".{chance.randrange(10 ** chance.randrange(1, 25)):0{chance.randrange(1, 25)}}"
    if chance.random() < 0.3:
        text += f"e{chance.randrange(-40, 40)}"
    return text.encode()


def test_sums_have_the_digits_of_redis(redis_server: redis.Redis) -> None:
    client = RawClient(int(redis_server.connection_pool.connection_kwargs["port"]))
    engine, chance = InProcess(), random.Random(3)
    for _ in range(SUMS):
        one, other = random_number(chance), random_number(chance)
        for command in ((b"SET", b"t", one), (b"INCRBYFLOAT", b"t", other), (b"HINCRBYFLOAT", b"h", b"f", other)):
            assert engine.run(*command) == client.run(*command), (one, other)
    client.close()


@pytest.mark.parametrize(
    "text", [b"1e99999", b"1" * 5000 + b"e9999", b"0x" + b"f" * 5000 + b"p99999", b"1e-99999999999"]
)
def test_a_number_beyond_any_range_is_none(text: bytes) -> None:
    assert long_double.read(text) is None
