"""One suite, through redis-py, on four servers: in process in memory and on disk, `headrace serve`, redis-server."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

import headrace
from support.patience import PATIENCE_S, await_that

Connect = Callable[..., redis.Redis]


@pytest.fixture(params=["in memory", "on disk", "a server", "redis-server"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connect]:
    """What makes clients of one of them; all see the same data, which is none at first."""
    if request.param in ("in memory", "on disk"):
        with headrace.open(None if request.param == "in memory" else tmp_path) as db:
            yield db.redis
        return
    server = request.getfixturevalue("headrace_server" if request.param == "a server" else "redis_server")
    port = server.connection_pool.connection_kwargs["port"]
    yield lambda **options: redis.Redis(port=port, **options)


@pytest.fixture(params=[2, 3])
def client(request: pytest.FixtureRequest, connect: Connect) -> Iterator[redis.Redis]:
    with connect(protocol=request.param, decode_responses=True) as client:
        yield client


@contextmanager
def soon(work: Callable[..., Any], *arguments: Any, **named: Any) -> Iterator[None]:
    """Do something in another thread a moment after the block has begun to wait for it."""
    timer = threading.Timer(0.05, work, arguments, named)
    timer.start()
    yield
    timer.join()


def next_message(listener: Any) -> dict[str, Any]:
    """The next message that was published; what confirms a subscription is none."""
    while (found := listener.get_message(timeout=PATIENCE_S)) is None:
        pass
    return dict(found)


def read_of(reply: Any) -> list[tuple[str, list[Any]]]:
    """What XREAD and XREADGROUP gave, whichever protocol it came through."""
    if isinstance(reply, dict):
        return [(key, [entry for batch in batches for entry in batch]) for key, batches in reply.items()]
    return [(key, entries) for key, entries in reply]


def test_entries_are_added_read_trimmed_and_deleted(client: redis.Redis) -> None:
    ids = [client.xadd("s", {"n": n, "text": "für"}, id=f"{n}-1") for n in range(1, 6)]
    assert ids == [f"{n}-1" for n in range(1, 6)]
    assert client.xrange("s", "2", "(4-1") == [(f"{n}-1", {"n": str(n), "text": "für"}) for n in (2, 3)]
    assert [entry for entry, _ in client.xrevrange("s", count=2)] == ["5-1", "4-1"]
    assert client.xdel("s", "2-1", "9-9") == 1
    assert client.xtrim("s", maxlen=2, approximate=False) == 2
    assert client.xlen("s") == 2
    assert client.xinfo_stream("s")["last-generated-id"] == "5-1"
    with pytest.raises(redis.ResponseError, match="equal or smaller"):
        client.xadd("s", {"a": 1}, id="5-1")


def test_a_group_delivers_claims_and_acknowledges(client: redis.Redis) -> None:
    for n in range(1, 5):
        client.xadd("s", {"n": n}, id=f"{n}-0")
    client.xgroup_create("s", "g", "0")
    first = read_of(client.xreadgroup("g", "alice", {"s": ">"}, count=3))
    assert first == [("s", [(f"{n}-0", {"n": str(n)}) for n in (1, 2, 3)])]
    assert client.xack("s", "g", "1-0") == 1
    assert [entry for entry, _ in client.xclaim("s", "g", "bob", 0, ["2-0"])] == ["2-0"]
    assert client.xautoclaim("s", "g", "carol", 0, "3-0", justid=True) == ["3-0"]
    pending = client.xpending_range("s", "g", "-", "+", 10)
    assert [(each["message_id"], each["consumer"]) for each in pending] == [("2-0", "bob"), ("3-0", "carol")]
    assert client.xinfo_groups("s")[0]["lag"] == 1
    with pytest.raises(redis.ResponseError, match="NOGROUP"):
        client.xreadgroup("nobody", "c", {"s": ">"})


def test_a_blocked_reader_wakes_or_gives_up(connect: Connect, client: redis.Redis) -> None:
    assert not client.xread({"s": "$"}, block=20)
    assert client.blpop("list", timeout=0.02) is None
    with connect() as other:
        with soon(other.xadd, "s", {"n": 1}, id="7-0"):
            assert read_of(client.xread({"s": "0"}, block=4000)) == [("s", [("7-0", {"n": "1"})])]
        with soon(other.rpush, "list", "x"):
            assert client.blpop("list", timeout=4) in (["list", "x"], ("list", "x"))


def test_a_transaction_is_whole_and_a_watched_key_fails_it(connect: Connect, client: redis.Redis) -> None:
    with client.pipeline() as pipe:
        pipe.set("n", 1)
        pipe.incr("n")
        pipe.xadd("s", {"n": 2}, id="1-0")
        pipe.lpush("s", "not a list")
        assert [str(reply)[:9] for reply in pipe.execute(raise_on_error=False)] == ["True", "2", "1-0", "WRONGTYPE"]
    with client.pipeline() as pipe, connect() as other:
        pipe.watch("s")
        other.xadd("s", {"n": 3})
        pipe.multi()
        pipe.set("n", 100)
        with pytest.raises(redis.WatchError):
            pipe.execute()
    assert client.get("n") == "2"


def test_a_long_pipeline_is_answered_in_order(client: redis.Redis) -> None:
    with client.pipeline(transaction=False) as pipe:
        for n in range(5000):
            pipe.xadd("s", {"n": n, "filler": "x" * 100}, id=f"{n + 1}-0")
        assert pipe.execute() == [f"{n + 1}-0" for n in range(5000)]
    assert [entry for entry, _ in client.xrange("s")] == [f"{n + 1}-0" for n in range(5000)]


def test_messages_are_published_to_who_listens(connect: Connect, client: redis.Redis) -> None:
    with client.pubsub(ignore_subscribe_messages=True) as listener, connect() as other:
        assert other.publish("news", "too early") == 0
        listener.subscribe("news")
        listener.psubscribe("n*")
        await_that(lambda: other.pubsub_numsub("news") == [(b"news", 1)] and other.pubsub_numpat() == 1)
        assert other.publish("news", "hello") == 2
        assert other.publish("news", "the end") == 2
        found = [next_message(listener) for _ in range(4)]
        assert [(each["type"], each["data"]) for each in found] == [
            ("message", "hello"),
            ("pmessage", "hello"),
            ("message", "the end"),
            ("pmessage", "the end"),
        ]


def test_keyspace_events_tell_of_every_add(connect: Connect, client: redis.Redis) -> None:
    client.config_set("notify-keyspace-events", "Kt")
    with client.pubsub(ignore_subscribe_messages=True) as listener, connect() as other:
        listener.subscribe("__keyspace@0__:s")
        await_that(lambda: other.pubsub_numsub("__keyspace@0__:s") == [(b"__keyspace@0__:s", 1)])
        other.xadd("s", {"n": 1}, maxlen=0, approximate=False)
        assert [next_message(listener)["data"] for _ in range(2)] == ["xadd", "xtrim"]
    client.config_set("notify-keyspace-events", "")


def test_databases_names_and_expiry_belong_to_the_connection_and_the_clock(connect: Connect) -> None:
    with connect(db=3, client_name="me", decode_responses=True) as client, connect() as elsewhere:
        client.set("k", "v", px=30)
        assert client.client_getname() == "me"
        assert not elsewhere.exists("k")
        for _ in range(200):
            if not client.exists("k"):
                break
            threading.Event().wait(0.01)
        assert client.get("k") is None


def test_a_client_that_is_killed_connects_again(connect: Connect) -> None:
    with connect() as client, connect() as other:
        number = client.client_id()
        assert other.client_kill_filter(_id=str(number)) == 1
        assert client.ping()
        assert client.client_id() != number


def test_a_client_is_unblocked_by_another(connect: Connect) -> None:
    with connect() as client, connect() as other:
        number = client.client_id()
        with soon(other.client_unblock, number):
            assert not client.xread({"s": "$"}, block=4000)
