"""Bits of strings as redis-server has them: ranges of random rows, limits, and the operations that came after 7.0."""

import random

import pytest
import redis

from support.campaign import LONG, SEED
from support.in_process import InProcess
from support.raw_client import RawClient, Word

ROUNDS = 20_000 if LONG else 600
OPERATIONS = ("AND", "OR", "XOR", "NOT")


def row(choices: random.Random) -> bytes:
    """Draw bytes of which many are all ones or all zeros, so that what is looked for is often far, or nowhere."""
    kinds = ((0,), (255,), (0, 255), (0, 0, 0, 1), (255, 255, 254, 127), tuple(range(256)))
    return bytes(choices.choices(choices.choice(kinds), k=choices.choice((0, 1, 2, 3, 8, 9, 40))))


def requests(choices: random.Random) -> list[list[Word]]:
    """Draw two rows, and what is asked of them."""
    start, end = (choices.choice((*range(-20, 20), *range(-400, 400, 7), 2**63 - 1, -(2**63))) for _ in range(2))
    tail = choices.choice(([start, end], [start, end, "BIT"], [start, end, "byte"], [start], []))
    offset = choices.randrange(400)
    operation = choices.choice(OPERATIONS)
    return [
        ["MSET", "a", row(choices), "b", row(choices)],
        ["BITCOUNT", "a", *tail],
        ["BITPOS", "a", 0, *tail],
        ["BITPOS", "a", 1, *tail],
        ["GETBIT", "a", offset],
        ["BITOP", operation, "c", "a", *(["b", "none"] if operation != "NOT" else [])],
        ["GET", "c"],
        ["SETBIT", "a", offset, choices.randrange(2)],
        ["GET", "a"],
    ]


def test_random_rows_are_read_counted_and_combined_as_there(
    headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    choices = random.Random(SEED)
    with RawClient.of(headrace_server) as ours, RawClient.of(redis_server) as theirs:
        for _ in range(ROUNDS):
            asked = requests(choices)
            for words in asked:
                assert ours.run(*words) == theirs.run(*words), (asked[0], words)


def test_other_requests_are_refused_or_answered_as_there(
    headrace_server: redis.Redis, redis_server: redis.Redis
) -> None:
    lines = """
        SET text foobar|RPUSH list a|GETBIT list 0|SETBIT list 0 1|BITCOUNT list|BITPOS list 1
        BITPOS list 2|BITOP OR text list text|BITOP OR list text|TYPE list|BITOP NOT d text text|BITOP NAND d text
        BITOP and d none|BITOP AND d none none|EXISTS d|BITOP AND text none|EXISTS text|GETBIT none 4294967295
        GETBIT none 4294967296|GETBIT none -1|GETBIT none 1.5|SETBIT none 4294967296 1|SETBIT none 0 2|SETBIT none 0 x
        SETBIT none x x|SETBIT none 9 0|GET none|BITCOUNT missing|BITCOUNT missing 0 -1
        BITPOS missing 1|BITPOS missing 0
        BITPOS none 1 0 0 BIT more|BITCOUNT none 0 0 BIT more|BITPOS none 0 x|BITPOS none 0 0 x BITS
        BITPOS none x|BITCOUNT none -1 -2 BIT|BITCOUNT none 0|GETBIT none|SETBIT none 0|BITCOUNT|BITPOS none
        BITOP AND d|BITOP NOT|SET ttl a EX 1000|SETBIT ttl 3 1|TTL ttl|BITOP NOT ttl ttl|TTL ttl|GET ttl
        COMMAND GETKEYS BITOP AND d a b|COMMAND GETKEYSANDFLAGS BITOP AND d a b|COMMAND GETKEYSANDFLAGS SETBIT k 0 1
    """
    with RawClient.of(headrace_server) as ours, RawClient.of(redis_server) as theirs:
        for line in lines.replace("\n", "|").split("|"):
            if words := line.split():
                assert ours.run(*words) == theirs.run(*words), line


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        ("BITCOUNT missing x y", "value is not an integer or out of range"),
        ("BITCOUNT missing 0 1.5", "value is not an integer or out of range"),
        ("BITCOUNT missing 1", "syntax error"),
        ("BITCOUNT missing 0 0 BITS", "syntax error"),
        ("BITCOUNT text -1 -2 BITS", "syntax error"),
        ("BITCOUNT list 0 x", "value is not an integer or out of range"),
        ("BITPOS missing 0 x", "value is not an integer or out of range"),
        ("BITPOS missing 1 0 x", "value is not an integer or out of range"),
        ("BITPOS missing 1 0 0 BITS", "syntax error"),
        ("BITPOS missing 1 0 0 BIT more", "syntax error"),
        ("BITPOS list 1 0 0 BITS", "syntax error"),
    ],
)
def test_a_wrong_range_is_refused_whatever_the_key_holds(request_: str, reply: str) -> None:
    """Since 7.2; before, a key that is missing, or holds something else, was what the reply was about."""
    engine = InProcess()
    engine.run("SET", "text", "foobar")
    engine.run("RPUSH", "list", "a")
    assert engine.run(*request_.split()) == f"-ERR {reply}\r\n".encode()


@pytest.mark.parametrize(
    ("operation", "expected"),
    [("DIFF", 0b0001_0000), ("diff1", 0b0000_1110), ("ANDOR", 0b1110_0000), ("one", 0b0001_1010)],
)
def test_what_came_with_8_2_is_what_its_description_says(operation: str, expected: int) -> None:
    engine = InProcess()
    for key, bits in (("x", b"\xf0"), ("y", b"\xcc\x01"), ("z", b"\xa6")):
        engine.run("SET", key, bits)
    behind = {"DIFF": 0, "diff1": 1, "ANDOR": 0, "one": 1}[operation]
    assert engine.run("BITOP", operation, "d", "x", "y", "z", "none") == b":2\r\n"
    assert engine.run("GET", "d") == b"$2\r\n%c%c\r\n" % (expected, behind)


def test_a_first_key_that_is_missing_is_a_row_of_zeros() -> None:
    engine = InProcess()
    engine.run("SET", "y", "a")
    for operation, expected in (("DIFF", b"\0"), ("ANDOR", b"\0"), ("DIFF1", b"a"), ("ONE", b"a")):
        assert engine.run("BITOP", operation, "d", "none", "y") == b":1\r\n"
        assert engine.run("GET", "d") == b"$1\r\n%c\r\n" % expected[0]


@pytest.mark.parametrize("operation", ["DIFF", "diff1", "AndOr"])
def test_what_compares_the_first_with_others_needs_another(operation: str) -> None:
    refusal = f"-ERR BITOP {operation.upper()} must be called with at least two source keys.\r\n"
    assert InProcess().run("BITOP", operation, "d", "x") == refusal.encode()


def test_a_bit_that_is_as_it_should_be_changes_nothing() -> None:
    engine = InProcess()
    assert engine.run("SETBIT", "k", 9, 0) == b":0\r\n"
    assert engine.run("SETBIT", "k", 0, 0) == b":0\r\n"
    assert engine.run("SETBIT", "k", 15, 1) == b":0\r\n"
    assert engine.run("SETBIT", "k", 15, 1) == b":1\r\n"
    assert engine.take_effects() == [(0, [b"SETBIT", b"k", b"9", b"0"]), (0, [b"SETBIT", b"k", b"15", b"1"])]


def test_rows_longer_than_what_is_looked_at_together_are_counted_whole() -> None:
    engine = InProcess()
    engine.run("SETBIT", "k", 1_000_003, 1)
    engine.run("SETBIT", "k", 70_000, 1)
    assert engine.run("BITCOUNT", "k") == b":2\r\n"
    assert engine.run("BITPOS", "k", 1) == b":70000\r\n"
    assert engine.run("BITPOS", "k", 1, 70_001, -1, "BIT") == b":1000003\r\n"
    engine.run("BITOP", "NOT", "k", "k")
    assert engine.run("BITPOS", "k", 0, 70_001, -1, "BIT") == b":1000003\r\n"
    assert engine.run("BITCOUNT", "k", 3, 1_000_003, "BIT") == b":999999\r\n"
    engine.run("SETBIT", "k", 1_000_003, 1)
    assert engine.run("BITPOS", "k", 0, 10_000) == b":1000008\r\n"


def test_long_rows_of_several_lengths_are_combined_as_short_ones_are() -> None:
    engine, choices = InProcess(), random.Random(1)
    first, second = choices.randbytes(50_001), choices.randbytes(20_003)
    engine.run("MSET", "a", first, "b", second)
    engine.run("BITOP", "XOR", "d", "a", "b")
    expected = bytes(one ^ other for one, other in zip(first, second.ljust(50_001, b"\0"), strict=True))
    assert engine.run("GET", "d") == b"$50001\r\n%s\r\n" % expected
    engine.run("BITOP", "NOT", "d", "d")
    assert engine.run("GET", "d") == b"$50001\r\n%s\r\n" % bytes(255 - byte for byte in expected)
