"""The commands of a connection: their words are Redis's, and what they change lasts as long as in Redis."""

import asyncio
from collections.abc import Iterator

import pytest
import redis
import redis.asyncio

from support.raw_client import RawClient, port_of

SAME_ANSWERS = [
    "PING",
    "PING hello",
    "PING a b",
    "ECHO",
    "ECHO hello",
    "SELECT",
    "SELECT abc",
    "SELECT -1",
    "SELECT 16",
    "SELECT 99999999999999",
    "SELECT 99999999999999999999",
    "SELECT 15",
    "HELLO abc",
    "HELLO 1",
    "HELLO 4",
    "HELLO 3 AUTH default",
    "HELLO 3 SETNAME",
    "HELLO 2 NONSENSE",
    "HELLO 2 AUTH nobody x",
    "AUTH",
    "AUTH x",
    "AUTH default x",
    "AUTH nobody x",
    "AUTH a b c",
    "RESET x",
    "RESET",
    "NOSUCH",
    "NOSUCH a b c",
    "READONLY",
]


@pytest.fixture
def protected(headrace_server: redis.Redis) -> Iterator[redis.Redis]:
    """A server with a password, seen by a connection from before it had one."""
    headrace_server.config_set("requirepass", "sesame")
    yield headrace_server
    headrace_server.config_set("requirepass", "")


@pytest.mark.parametrize("protocol", [2, 3])
def test_answers_are_those_of_redis(headrace_server: redis.Redis, redis_server: redis.Redis, protocol: int) -> None:
    with RawClient.of(headrace_server, protocol) as ours, RawClient.of(redis_server, protocol) as theirs:
        for request in SAME_ANSWERS:
            assert ours.run(*request.split()) == theirs.run(*request.split()), request


def test_hello_switches_the_protocol_both_ways(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    with RawClient.of(headrace_server) as ours, RawClient.of(redis_server) as theirs:
        for request in ("HELLO 3", "HELLO", "HELLO 2", "HELLO", "HELLO 3 AUTH default x SETNAME me"):
            expected = theirs.run(*request.split()).replace(b"$6\r\n7.0.15", b"$6\r\n8.10.0")
            found = ours.run(*request.split())
            own_id = b":%d\r\n" % ours.number("CLIENT", "ID")
            assert found.replace(own_id, b":1\r\n") == expected.replace(
                b":%d\r\n" % theirs.number("CLIENT", "ID"), b":1\r\n"
            )
        assert ours.run("CLIENT", "GETNAME") == b"$2\r\nme\r\n"


def test_hello_that_is_refused_changes_nothing(headrace_server: redis.Redis) -> None:
    with RawClient.of(headrace_server) as wire:
        assert wire.run("HELLO", "3", "SETNAME", "two words").startswith(b"-ERR Client names cannot contain")
        assert wire.run("HELLO", "3", "SETNAME", "me", "AUTH", "nobody", "x").startswith(b"-WRONGPASS")
        assert wire.run("CLIENT", "GETNAME") == b"$-1\r\n"


def test_quit_answers_and_closes_and_what_follows_is_not_run(headrace_server: redis.Redis) -> None:
    with RawClient.of(headrace_server) as wire:
        wire.send_words("QUIT")
        wire.send_words("PING")
        assert wire.reply() == b"+OK\r\n"
        assert wire.is_closed()


def test_reset_makes_a_connection_like_a_new_one(headrace_server: redis.Redis) -> None:
    with RawClient.of(headrace_server, 3) as wire:
        for request in ("SELECT 9", "CLIENT SETNAME me", "CLIENT NO-EVICT ON", "WATCH k", "MULTI", "PING"):
            wire.run(*request.split())
        assert wire.run("RESET") == b"+RESET\r\n"
        assert wire.run("EXEC") == b"-ERR EXEC without MULTI\r\n"
        line = wire.run("CLIENT", "INFO")
        for field in (b" name= ", b" flags=N ", b" db=0 ", b" multi=-1 ", b" watch=0 ", b" resp=2 "):
            assert field in line


def test_reset_ends_reply_off(headrace_server: redis.Redis) -> None:
    with RawClient.of(headrace_server) as wire:
        wire.send_words("CLIENT", "REPLY", "OFF")
        assert wire.run("RESET") == b"+RESET\r\n"
        assert wire.run("PING") == b"+PONG\r\n"


def test_a_password_keeps_strangers_out(protected: redis.Redis, redis_server: redis.Redis) -> None:
    redis_server.config_set("requirepass", "sesame")
    try:
        with RawClient.of(protected) as ours, RawClient.of(redis_server) as theirs:
            for request in (
                "XLEN k",
                "XLEN",
                "NOSUCH",
                "CLIENT NOSUCH",
                "AUTH wrong",
                "AUTH default wrong",
                "AUTH nobody sesame",
                "PING",
                "AUTH default sesame",
                "PING",
                "RESET",
                "PING",
                "AUTH sesame",
                "XLEN k",
            ):
                assert ours.run(*request.split()) == theirs.run(*request.split()), request
    finally:
        redis_server.config_set("requirepass", "")


def test_hello_authenticates(protected: redis.Redis) -> None:
    with RawClient.of(protected) as wire:
        assert wire.run("HELLO", "3").startswith(b"-NOAUTH HELLO must be called with the client already authenticated")
        assert wire.run("HELLO", "3", "AUTH", "default", "wrong").startswith(b"-WRONGPASS")
        assert wire.run("HELLO", "3", "AUTH", "default", "sesame").startswith(b"%7\r\n")


def test_a_new_password_does_not_throw_out_who_was_in(protected: redis.Redis) -> None:
    assert protected.ping()
    protected.config_set("requirepass", "another")
    assert protected.ping()


def test_without_a_password_again_a_stranger_may_stay(headrace_server: redis.Redis) -> None:
    headrace_server.config_set("requirepass", "sesame")
    with RawClient.of(headrace_server) as wire:
        assert wire.run("PING").startswith(b"-NOAUTH")
        headrace_server.config_set("requirepass", "")
        assert wire.run("PING") == b"+PONG\r\n"


def test_the_slow_log_shows_no_password(headrace_server: redis.Redis) -> None:
    headrace_server.config_set("slowlog-log-slower-than", 0)
    with RawClient.of(headrace_server) as wire:
        wire.run("AUTH", "open-sesame")
        wire.run("AUTH", "default", "open-sesame")
        wire.run("HELLO", "2", "AUTH", "default", "open-sesame")
        shown = wire.run("SLOWLOG", "GET", "-1")
    assert b"(redacted)" in shown
    assert b"open-sesame" not in shown


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_introduces_itself(headrace_server: redis.Redis, protocol: int) -> None:
    with redis.Redis(port=port_of(headrace_server), protocol=protocol, db=3, client_name="worker") as client:
        info = client.client_info()
        assert info["name"] == "worker"
        assert info["lib-name"].startswith("redis-py")
        assert info["lib-ver"] == redis.__version__
        assert (info["db"], info["resp"]) == (3, str(protocol))


@pytest.mark.parametrize("protocol", [2, 3])
def test_asyncio_redis_py_introduces_itself(headrace_server: redis.Redis, protocol: int) -> None:
    async def introduce() -> dict[str, str]:
        async with redis.asyncio.Redis(
            port=port_of(headrace_server), protocol=protocol, client_name="worker"
        ) as client:
            await client.xadd("greetings", {"hello": "world"})
            info: dict[str, str] = await client.client_info()
            return info

    info = asyncio.run(introduce())
    assert info["name"] == "worker"
    assert info["lib-ver"] == redis.__version__
