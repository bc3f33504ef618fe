"""Publish and subscribe over real sockets, with redis-py as its users use it."""

import asyncio
from pathlib import Path

import pytest
import redis
import redis.asyncio

from support.raw_client import port_of
from support.server_process import ServerProcess


def messages(listener: redis.client.PubSub, count: int) -> list[tuple[object, ...]]:
    """The next messages, confirmations included."""
    found: list[tuple[object, ...]] = []
    while len(found) < count:
        message = listener.get_message(timeout=10)
        assert message is not None
        found.append((message["type"], message["pattern"], message["channel"], message["data"]))
    return found


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_publishes_and_listens(headrace_server: redis.Redis, protocol: int) -> None:
    client = redis.Redis(port=port_of(headrace_server), protocol=protocol)
    with client, client.pubsub() as listener:
        listener.subscribe("news")
        listener.psubscribe("n*")
        assert messages(listener, 2) == [("subscribe", None, b"news", 1), ("psubscribe", None, b"n*", 2)]
        assert client.publish("news", "one") == 2
        assert client.publish("nothing", "two") == 1
        assert messages(listener, 3) == [
            ("message", None, b"news", b"one"),
            ("pmessage", b"n*", b"news", b"one"),
            ("pmessage", b"n*", b"nothing", b"two"),
        ]
        listener.ping("still there?")
        (kind, _, _, data), *_ = messages(listener, 1)
        assert (kind, data) == ("pong", b"still there?")
        listener.unsubscribe()
        listener.punsubscribe()
        assert [each[0] for each in messages(listener, 2)] == ["unsubscribe", "punsubscribe"]
        assert client.publish("news", "nobody") == 0


@pytest.mark.parametrize("protocol", [2, 3])
def test_redis_py_asyncio_listens_to_many_messages_in_order(headrace_server: redis.Redis, protocol: int) -> None:
    async def talk() -> list[int]:
        client = redis.asyncio.Redis(port=port_of(headrace_server), protocol=protocol)
        async with client, client.pubsub() as listener:
            await listener.subscribe("numbers")
            await listener.get_message(timeout=10)
            pipeline = client.pipeline(transaction=False)
            for number in range(2000):
                pipeline.publish("numbers", number)
            assert await pipeline.execute() == [1] * 2000
            heard: list[int] = []
            while len(heard) < 2000:
                message = await listener.get_message(timeout=10)
                assert message is not None
                heard.append(int(message["data"]))
            return heard

    assert asyncio.run(talk()) == list(range(2000))


def test_a_listener_that_does_not_read_is_disconnected_at_the_limit_of_its_class(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path, "--client-output-buffer-limit", "pubsub", "1mb", "0", "0") as server,
        server.raw() as deaf,
    ):
        deaf.run("SUBSCRIBE", "c")
        with server.client() as client:
            for _ in range(200):
                if client.publish("c", "x" * 100_000) == 0:
                    break
            assert client.info("stats")["client_output_buffer_limit_disconnections"] == 1
            assert client.info("clients")["pubsub_clients"] == 0
    assert "overcoming of output buffer limits" in server.log


def test_a_listener_is_never_idle(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--timeout", "1") as server, server.raw() as listener, server.raw() as silent:
        listener.run("SUBSCRIBE", "c")
        silent.run("PING")
        with pytest.raises(ConnectionError):
            silent.reply()
        with server.client() as client:
            assert client.publish("c", "x") == 1
        assert listener.reply().endswith(b"$1\r\nx\r\n")
