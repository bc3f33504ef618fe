"""What CLIENT LIST shows of requests that run, wait, or have come in part: the same as redis-server shows."""

import re
import time

import pytest
import redis

from support.patience import PATIENCE_S
from support.raw_client import RawClient, encode, parse

INFO = [b"CLIENT", b"INFO"]
HALF = b"*2\r\n$3\r\nGET\r\n$100\r\nabc"
HALF_OF_MUCH = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n" + b"x" * 50_000
BLOCKED = encode([b"BLPOP", b"none", b"0"]) + encode([b"PING"]) * 2


@pytest.fixture(params=["headrace_server", "redis_server"])
def server(request: pytest.FixtureRequest) -> redis.Redis:
    found: redis.Redis = request.getfixturevalue(request.param)
    return found


def figures_in(line: bytes) -> tuple[int, int]:
    """Return the bytes in the buffer of requests, and those of arguments."""
    found = dict(re.findall(rb"(qbuf|argv-mem)=(\d+)", line))
    return int(found[b"qbuf"]), int(found[b"argv-mem"])


@pytest.mark.parametrize(
    ("before", "behind", "figures"),
    [
        (b"", b"", (26, 10)),
        (encode([b"PING"]) * 3, encode([b"PING"]), (82, 10)),
        (encode([b"SET", b"k", b"v" * 1000]), b"", (1055, 10)),
    ],
)
def test_a_client_sees_the_requests_that_came_with_its_own(
    server: redis.Redis, before: bytes, behind: bytes, figures: tuple[int, int]
) -> None:
    with RawClient.of(server) as client:
        for _ in range(2):  # the second finds the buffer as the first has left it
            client.send_raw(before + encode(INFO) + behind)
            replies = [client.reply() for _ in range((before + behind).count(b"*") + 1)]
            shown = next(reply for reply in replies if b"qbuf" in reply)
            assert figures_in(shown) == figures


@pytest.mark.parametrize(
    ("sent", "figures"), [(b"", (0, 0)), (HALF, (3, 3)), (HALF_OF_MUCH, (50_000, 4)), (BLOCKED, (28, 10))]
)
def test_others_see_what_has_come_and_not_run(server: redis.Redis, sent: bytes, figures: tuple[int, int]) -> None:
    with RawClient.of(server) as client, RawClient.of(server) as observer:
        number = client.number("CLIENT", "ID")
        client.send_raw(sent)
        deadline = time.monotonic() + PATIENCE_S
        shown = figures_in(observer.run("CLIENT", "LIST", "ID", number))
        while shown != figures and time.monotonic() < deadline:
            time.sleep(0.01)
            shown = figures_in(observer.run("CLIENT", "LIST", "ID", number))
        assert shown == figures


def test_memory_is_that_of_the_buffer_whatever_is_in_it(headrace_server: redis.Redis) -> None:
    with RawClient.of(headrace_server) as client:
        line = str(parse(client.run(*INFO)))
        found = {name: int(value) for name, value in re.findall(r"([\w-]+)=(\d+)", line)}
        assert found["tot-mem"] == found["qbuf"] + found["qbuf-free"] + found["argv-mem"]
