"""AGGREGATE COUNT, which redis-server 7.0 does not know: a score is how many of the sorted sets have the member."""

import pytest

from support.in_process import InProcess


@pytest.fixture
def engine() -> InProcess:
    made = InProcess()
    for line in ("ZADD a 1 x 2 y", "ZADD b 7 x inf z", "SADD c x z"):
        made.run(*line.split())
    return made


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ("ZUNION 3 a b c AGGREGATE COUNT WITHSCORES", "y 1 z 2 x 3"),
        ("ZUNION 3 a b c WEIGHTS 1 2 3 AGGREGATE count WITHSCORES", "y 1 z 5 x 6"),
        ("ZUNION 3 a b c AGGREGATE COUNT WEIGHTS 1 -2 0 WITHSCORES", "z -2 x -1 y 1"),
        ("ZINTER 2 a b AGGREGATE COUNT WITHSCORES", "x 2"),
        ("ZINTER 2 a b AGGREGATE COUNT AGGREGATE SUM WITHSCORES", "x 8"),
    ],
)
def test_members_are_counted(engine: InProcess, request_: str, expected: str) -> None:
    assert engine.run(*request_.split()).decode().split()[2::2] == expected.split()


def test_counts_are_stored(engine: InProcess) -> None:
    assert engine.run("ZUNIONSTORE", "d", 2, "a", "b", "AGGREGATE", "COUNT") == b":3\r\n"
    assert engine.run("ZSCORE", "d", "x") == b"$1\r\n2\r\n"
    assert engine.run("ZINTERSTORE", "d", 2, "b", "c", "AGGREGATE", "COUNT") == b":2\r\n"
    assert engine.run("ZSCORE", "d", "z") == b"$1\r\n2\r\n"


@pytest.mark.parametrize(
    ("version", "request_", "effects"),
    [
        ("8.6", "ZUNIONSTORE d 2 a c AGGREGATE COUNT", ["DEL d", "ZADD d 1 y 1 z 2 x"]),
        ("7.0", "ZINTERSTORE a 2 a none AGGREGATE COUNT", ["DEL a"]),
        ("7.0", "ZINTERSTORE none 2 a none AGGREGATE COUNT", []),
        ("7.0", "ZUNIONSTORE d 1 a", ["ZUNIONSTORE d 1 a"]),
        ("8.8", "ZUNIONSTORE d 1 a AGGREGATE COUNT", ["ZUNIONSTORE d 1 a AGGREGATE COUNT"]),
        ("7.2", "BITOP DIFF d t none", ["DEL d", "SET d text"]),
        ("8.6", "BITOP DIFF d t none", ["BITOP DIFF d t none"]),
        ("7.0", "BITOP OR d t none", ["BITOP OR d t none"]),
    ],
)
def test_what_older_servers_do_not_know_is_written_for_them_as_what_it_did(
    engine: InProcess, version: str, request_: str, effects: list[str]
) -> None:
    engine.run("SET", "t", "text")
    engine.run("CONFIG", "SET", "rdb-compatibility-version", version)
    engine.take_effects()
    engine.run(*request_.split())
    assert [b" ".join(effect).decode() for _, effect in engine.take_effects()] == effects
