"""PFADD, PFCOUNT and PFMERGE, beside redis-server 7.0.15: the string after every step is that of Redis to the byte."""

import random
from collections.abc import Iterator

import pytest
import redis

from headrace.engine.applier import Applier
from support.campaign import LONG, SEED
from support.in_process import InProcess
from support.raw_client import RawClient, Word

ROUNDS = 40_000 if LONG else 400
KEYS = ("a", "b", "c", "d")
SIZE = 16 + 16384 * 6 // 8
HEAD = b"HYLL"
SEEDS = [SEED] if SEED is not None else [random.randrange(2**32)] if LONG else [1, 2]


@pytest.fixture
def both(headrace_server: redis.Redis, redis_server: redis.Redis) -> Iterator[tuple[RawClient, RawClient]]:
    with RawClient.of(headrace_server) as ours, RawClient.of(redis_server) as theirs:
        yield ours, theirs
        for client in (ours, theirs):
            client.run("CONFIG", "SET", "hll-sparse-max-bytes", 3000)


def compare(both: tuple[RawClient, RawClient], *words: Word) -> bytes:
    ours, theirs = both
    found, expected = ours.run(*words), theirs.run(*words)
    assert found == expected, (words, found[:200], expected[:200])
    return found


def elements(choices: random.Random, most: int) -> list[Word]:
    """Draw elements of all lengths, many of them drawn before."""
    count = choices.randint(0, most)
    return [choices.choice((choices.randrange(4000), choices.randbytes(choices.randrange(40)))) for _ in range(count)]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_additions_counts_and_merges_leave_the_bytes_of_redis(
    both: tuple[RawClient, RawClient], seed: int
) -> None:
    choices = random.Random(seed)
    encodings = set()
    for _ in range(ROUNDS):
        roll, key = choices.random(), choices.choice(KEYS)
        if roll < 0.02:
            compare(both, "DEL", key)
        elif roll < 0.04:
            limit = choices.choice((0, 18, 20, 50, 300, 1500, 3000, 20_000))
            compare(both, "CONFIG", "SET", "hll-sparse-max-bytes", limit)
        elif roll < 0.25:
            compare(both, "PFCOUNT", *choices.choices((*KEYS, "none"), k=choices.randint(1, 3)))
        elif roll < 0.35:
            compare(both, "PFMERGE", key, *choices.choices((*KEYS, "none"), k=choices.randint(0, 3)))
        else:
            compare(both, "PFADD", key, *elements(choices, choices.choice((1, 3, 30))))
        text = compare(both, "GET", key)
        encodings.add(text.partition(HEAD)[2][:1])
    assert encodings == {b"", b"\0", b"\1"}, "none, dense ones and sparse ones were compared"


@pytest.mark.parametrize("limit", [0, 100, 3000, 100_000])
def test_one_that_grows_is_there_and_here_the_same_all_the_way(both: tuple[RawClient, RawClient], limit: int) -> None:
    compare(both, "CONFIG", "SET", "hll-sparse-max-bytes", limit)
    for start in range(0, 12_000, 400):
        compare(both, "PFADD", "a", *range(start, start + 400))
        compare(both, "GET", "a")
        compare(both, "PFCOUNT", "a")
        compare(both, "GET", "a")


# --- what clients may write --------------------------------------------------------------------------------------


def hostile(choices: random.Random) -> bytes:
    """Draw a string that is nearly one: runs that end early or late, any count, any bits, a wrong length or header."""
    count = choices.choice((bytes(8), b"\0" * 7 + b"\x80", choices.randbytes(8)))
    kind = choices.randrange(6)
    if kind == 0:
        return HEAD + b"\0\0\0\0" + count + choices.randbytes(SIZE - 16)
    if kind == 1:
        registers = choices.choice((b"\xff", b"\0", b"\xcb\x2c\xb3")) * 12288
        return HEAD + b"\0\0\0\0" + count + registers[:12288]
    if kind == 2:
        return HEAD + b"\1\0\0\0" + count + choices.randbytes(choices.randrange(60))
    if kind == 3:
        runs = bytearray()
        left = 16384
        while left > 0 and choices.random() < 0.98:
            length = min(left, choices.choice((1, 2, 4, 64, 65, 1000, 5000)))
            if length > 64 or choices.random() < 0.1:
                runs += bytes((0x40 | (length - 1) >> 8, (length - 1) & 255))
            elif length > 4 or choices.random() < 0.5:
                runs.append(length - 1)
            else:
                runs.append(0x80 | choices.choice((0, 1, 4, 31)) << 2 | length - 1)
            left -= length
        return HEAD + b"\1\0\0\0" + count + runs + choices.choice((b"", b"", b"\0", b"\x80", b"\x7f\xff", b"\x7f"))
    if kind == 4:
        return HEAD + choices.choice((b"\0", b"\1", b"\2", b"\xff")) + choices.randbytes(choices.randrange(20))
    return choices.choice((b"", b"HYL", b"HYLL", b"hyll\1" + bytes(13), b"123", HEAD + b"\0" * (SIZE - 3)))


@pytest.mark.parametrize("seed", SEEDS)
def test_hostile_strings_are_refused_or_counted_as_there(both: tuple[RawClient, RawClient], seed: int) -> None:
    choices = random.Random(seed)
    replies = set()
    for _ in range(ROUNDS):
        compare(both, "SET", "a", hostile(choices))
        for words in (["PFCOUNT", "a"], ["PFADD", "a", choices.randrange(1000)], ["PFCOUNT", "a"]):
            replies.add(compare(both, *words)[:9])
            compare(both, "GET", "a")
        compare(both, "DEL", "c")
        replies.add(compare(both, "PFMERGE", choices.choice(("a", "c")), *choices.choices(("a", "b"), k=2))[:9])
        compare(both, "PFCOUNT", "a", "b")
        for key in ("a", "c"):
            compare(both, "GET", key)
    assert {b"-WRONGTYP", b"-INVALIDO", b"+OK\r\n"} <= replies


def test_a_value_that_only_begins_well_keeps_its_bytes_when_an_addition_is_refused() -> None:
    engine = InProcess()
    held = HEAD + b"\1\0\0\0" + bytes(8) + b"\x7f\x00"
    engine.run("SET", "k", held)
    engine.take_effects()
    reply = engine.run("PFADD", "k", *range(1000))
    assert reply == b"-INVALIDOBJ Corrupted HLL object detected\r\n"
    assert engine.run("GET", "k") == b"$18\r\n%s\r\n" % held
    assert engine.take_effects() == []


def test_other_requests_are_refused_or_answered_as_there(both: tuple[RawClient, RawClient]) -> None:
    lines = """
        PFADD|PFCOUNT|PFMERGE|PFADD k|PFADD k|GET k|PFCOUNT k|GET k|PFADD k|GET k|TTL k|PFADD k a a b|PFADD k a
        PFMERGE d|GET d|PFMERGE d k none|GET d|PFMERGE k|GET k|RPUSH list a|PFADD list a|PFCOUNT list|PFCOUNT k list
        PFMERGE list k|PFMERGE k list|SET text abc|PFADD text a|PFCOUNT text|PFCOUNT k text
        PFMERGE text k|PFMERGE k text|GET text
        SET number 12|PFADD number|PFCOUNT none|PFCOUNT none nothing|EXISTS none|EXPIRE k 1000|PFADD k z|TTL k
        PFCOUNT k|TTL k|COMMAND GETKEYSANDFLAGS PFMERGE k l m|COMMAND GETKEYSANDFLAGS PFCOUNT k l
        COMMAND GETKEYSANDFLAGS PFADD k l
        CONFIG GET hll-sparse-max-bytes|CONFIG SET hll-sparse-max-bytes x|CONFIG SET hll-sparse-max-bytes 1kb
        CONFIG GET hll-sparse-max-bytes|EVAL_RO "return redis.call('PFCOUNT','k')" 0
    """
    for line in lines.replace("\n", "|").split("|"):
        if words := line.split():
            compare(both, *words)


# --- effects -----------------------------------------------------------------------------------------------------


def effects_of(engine: InProcess) -> list[bytes]:
    return [b" ".join(effect)[:20] for _, effect in engine.take_effects()]


def test_only_what_changed_the_string_is_an_effect() -> None:
    engine = InProcess()
    for line in ("PFADD k a", "PFADD k a", "PFCOUNT k", "PFCOUNT k", "PFCOUNT k l", "PFADD k b", "PFMERGE l k"):
        engine.run(*line.split())
    assert effects_of(engine) == [b"PFADD k a", b"PFCOUNT k", b"PFADD k b", b"PFMERGE l k"]


def test_repeating_effects_ends_with_the_same_bytes_whatever_the_limit_is() -> None:
    engine, other = InProcess(), InProcess()
    other.run("CONFIG", "SET", "hll-sparse-max-bytes", 20)
    choices = random.Random(3)
    applier = Applier(other.engine, engine.engine.clocks.now_ms)
    for _ in range(300):
        engine.run("CONFIG", "SET", "hll-sparse-max-bytes", choices.choice((40, 300, 3000)))
        key = choices.choice(KEYS)
        engine.run(
            *choices.choice(
                (
                    ["PFADD", key, *elements(choices, 9)],
                    ["PFMERGE", key, *choices.choices(KEYS, k=2)],
                    ["PFCOUNT", key],
                    ["EXPIRE", key, 1000],
                    ["DEL", key],
                )
            )
        )
        for _, effect in engine.take_effects():
            assert applier.run(effect) is None
        for each in KEYS:
            assert other.run("GET", each) == engine.run("GET", each)
            assert other.run("TTL", each) == engine.run("TTL", each)


def test_a_count_that_cannot_be_written_is_replied_and_not_kept() -> None:
    engine = InProcess()
    engine.run("PFADD", "k", "a", "b")
    before = engine.run("GET", "k")
    engine.take_effects()
    engine.engine.refusals.writes = b"MISCONF the disk is full"
    assert engine.run("PFCOUNT", "k") == b":2\r\n"
    assert engine.run("GET", "k") == before
    assert engine.take_effects() == []
    assert Applier(engine.engine, 0).run([b"PFCOUNT", b"k"]) is None
    assert engine.run("GET", "k") != before, "what another server kept is kept, also by a replica that refuses writes"
