"""LCS answers as redis-server does: texts of few letters, which have many subsequences of the same length."""

import random

import pytest
import redis

from headrace.core.common_subsequence import common_length, common_subsequence
from support.campaign import LONG, SEED
from support.raw_client import RawClient

ROUNDS = 5_000 if LONG else 150
OPTIONS = (
    (),
    ("LEN",),
    ("IDX",),
    ("IDX", "WITHMATCHLEN"),
    ("IDX", "MINMATCHLEN", 2),
    ("IDX", "MINMATCHLEN", 3, "WITHMATCHLEN"),
    ("IDX", "MINMATCHLEN", -1),
    ("WITHMATCHLEN",),
    ("LEN", "IDX"),
    ("LEN", "MINMATCHLEN"),
    ("LEN", "MINMATCHLEN", "x"),
    ("NONSENSE",),
)


@pytest.mark.parametrize("protocol", [2, 3])
def test_random_texts_have_the_same_in_common(
    headrace_server: redis.Redis, redis_server: redis.Redis, protocol: int
) -> None:
    choices = random.Random(SEED)
    with RawClient.of(headrace_server, protocol) as ours, RawClient.of(redis_server, protocol) as theirs:
        for _ in range(ROUNDS):
            texts = ["".join(choices.choices("abc", k=choices.randint(0, 20))) for _ in range(2)]
            for words in (["MSET", "a", texts[0], "b", texts[1]], ["LCS", "a", "b", *choices.choice(OPTIONS)]):
                assert ours.run(*words) == theirs.run(*words), (texts, words)


def test_other_keys_are_refused_or_empty_as_there(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    with RawClient.of(headrace_server) as ours, RawClient.of(redis_server) as theirs:
        for words in (
            ["LCS", "none", "none"],
            ["LCS", "none", "none", "IDX"],
            ["SET", "number", "1234"],
            ["LCS", "number", "number", "IDX", "WITHMATCHLEN"],
            ["RPUSH", "list", "a"],
            ["LCS", "list", "number"],
            ["LCS", "number", "list", "NONSENSE"],
            ["LCS", "number"],
        ):
            assert ours.run(*words) == theirs.run(*words), words


def test_texts_that_would_take_too_long_are_refused(headrace_server: redis.Redis) -> None:
    with RawClient.of(headrace_server) as client:
        client.run("SETRANGE", "a", 20_000, "x")
        for options in ([], ["LEN"], ["IDX"]):
            assert client.run("LCS", "a", "a", *options).startswith(b"-ERR Insufficient memory")
        assert client.run("PING") == b"+PONG\r\n"


def test_the_length_is_that_of_the_subsequence() -> None:
    choices = random.Random(SEED)
    for _ in range(ROUNDS):
        first, second = (bytes(choices.choices(b"abcd", k=choices.randint(0, 40))) for _ in range(2))
        common, matches = common_subsequence(first, second)
        assert common_length(first, second) == len(common)
        assert b"".join(first[begin : end + 1] for begin, end, _, _ in reversed(matches)) == common
        assert b"".join(second[begin : end + 1] for _, _, begin, end in reversed(matches)) == common
