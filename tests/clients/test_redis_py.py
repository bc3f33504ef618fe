"""redis-py, the client that most users have: every stream method, sync and asyncio, RESP2 and RESP3."""

import asyncio
import inspect
from collections.abc import Generator
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.commands.core import StreamCommands

from support.raw_client import port_of

Session = Generator[Any, Any, None]


def streams(answer: Any) -> dict[str, Any]:
    """Return the entries of each stream: XREAD gives a map of wrapped lists in RESP3, and pairs in RESP2."""
    if not isinstance(answer, dict):
        return dict(answer)
    return {key: entries[0] if isinstance(entries[0], list) else entries for key, entries in answer.items()}


def plain(answer: Any) -> Any:
    """Make lists of tuples."""
    return [plain(item) for item in answer] if isinstance(answer, list | tuple) else answer


def entry(id: str) -> list[Any]:
    return [id, {"f": "v"}]


def entries_and_producers(client: Any) -> Session:
    assert (yield client.xadd("s", {"f": "v"}, id="1-0")) == "1-0"
    assert (yield client.xadd("s", {"f": "v"}, id="2-*")) == "2-0"
    assert (yield client.xadd("s", {"f": "v"}, id="3-0", maxlen=100, limit=10, ref_policy="ACKED")) == "3-0"
    assert (yield client.xadd("s", {"f": "v"}, id="4-0", minid="1-0", approximate=False)) == "4-0"
    assert (yield client.xadd("none", {"f": "v"}, nomkstream=True)) is None
    assert (yield client.xlen("s")) == 4
    assert plain((yield client.xrange("s"))) == [entry("1-0"), entry("2-0"), entry("3-0"), entry("4-0")]
    assert plain((yield client.xrange("s", min="(1-0", max="3", count=1))) == [entry("2-0")]
    assert plain((yield client.xrevrange("s", count=2))) == [entry("4-0"), entry("3-0")]
    assert plain(streams((yield client.xread({"s": "2-0", "none": "0"})))["s"]) == [entry("3-0"), entry("4-0")]
    assert plain(streams((yield client.xread({"s": "0"}, count=1)))["s"]) == [entry("1-0")]
    assert plain(streams((yield client.xread({"s": "0"}, max_count=3, max_size=1)))["s"]) == [entry("1-0")]
    assert not (yield client.xread({"s": "$"}, block=5))
    info = yield client.xinfo_stream("s")
    assert (info["length"], info["last-generated-id"], info["entries-added"]) == (4, "4-0", 4)
    assert plain(info["first-entry"]) == entry("1-0")
    assert (yield client.xdel("s", "1-0", "9-0")) == 1
    assert (yield client.xdelex("s", "2-0", "9-0", ref_policy="DELREF")) == [1, -1]
    assert (yield client.xtrim("s", maxlen=1, approximate=False)) == 1
    assert (yield client.xtrim("s", minid="9-0", approximate=False, ref_policy="ACKED")) == 1

    first = yield client.xadd("p", {"f": "v"}, idmp=("producer", b"1"))
    assert (yield client.xadd("p", {"f": "v"}, idmp=("producer", b"1"))) == first
    automatic = yield client.xadd("p", {"f": "v"}, idmpauto="producer")
    assert (yield client.xadd("p", {"f": "v"}, idmpauto="producer")) == automatic
    assert (yield client.xcfgset("p", idmp_duration=10, idmp_maxsize=5)) in (True, "OK")
    info = yield client.xinfo_stream("p")
    assert (info["idmp-duration"], info["idmp-maxsize"], info["iids-duplicates"]) == (10, 5, 2)


def groups(client: Any) -> Session:
    for id in ("1-0", "2-0", "3-0", "4-0"):
        yield client.xadd("s", {"f": "v"}, id=id)
    assert (yield client.xgroup_create("s", "g", id="0", entries_read=0)) is True
    assert (yield client.xgroup_create("fresh", "g", mkstream=True)) is True
    assert (yield client.xgroup_createconsumer("s", "g", "alice")) == 1
    read = yield client.xreadgroup("g", "alice", {"s": ">"}, count=2)
    assert plain(streams(read)["s"]) == [entry("1-0"), entry("2-0")]
    read = yield client.xreadgroup("g", "alice", {"s": "0"}, count=1)
    assert plain(streams(read)["s"]) == [entry("1-0")]
    read = yield client.xreadgroup("g", "bob", {"s": ">"}, count=1, noack=True)
    assert plain(streams(read)["s"]) == [entry("3-0")]
    pending = yield client.xpending("s", "g")
    assert (pending["pending"], pending["min"], pending["max"]) == (2, "1-0", "2-0")
    assert pending["consumers"] == [{"name": "alice", "pending": 2}]
    [record] = yield client.xpending_range("s", "g", "-", "+", 1, consumername="alice", idle=0)
    assert (record["message_id"], record["consumer"], record["times_delivered"]) == ("1-0", "alice", 2)
    assert plain((yield client.xclaim("s", "g", "bob", 0, ["1-0"], retrycount=5))) == [entry("1-0")]
    assert (yield client.xclaim("s", "g", "bob", 0, ["2-0"], idle=100, justid=True)) == ["2-0"]
    assert plain((yield client.xautoclaim("s", "g", "alice", 0, count=1))) == ["2-0", [entry("1-0")], []]
    assert plain((yield client.xautoclaim("s", "g", "alice", 0, start_id="2-0", justid=True))) == ["2-0"]
    assert (yield client.xnack("s", "g", "FATAL", "1-0")) == 1
    [record] = yield client.xpending_range("s", "g", "-", "+", 1)
    assert (record["consumer"], record["time_since_delivered"], record["times_delivered"]) == ("", -1, 2**63 - 1)
    read = yield client.xreadgroup("g", "carol", {"s": ">"}, claim_min_idle_time=100_000, max_count=1)
    [[id, fields, idle, deliveries]] = plain(streams(read)["s"])
    assert (id, fields, int(deliveries)) == ("1-0", {"f": "v"}, 2**63 - 1)
    assert int(idle) > 1_600_000_000_000
    [group] = yield client.xinfo_groups("s")
    assert (group["name"], group["consumers"], group["pending"], group["lag"]) == ("g", 3, 2, 1)
    consumers = yield client.xinfo_consumers("s", "g")
    assert {consumer["name"]: consumer["pending"] for consumer in consumers} == {"alice": 1, "bob": 0, "carol": 1}
    info = yield client.xinfo_stream("s", full=True)
    assert info["groups"][0]["pel-count"] == 2
    assert (yield client.xack("s", "g", "1-0", "9-0")) == 1
    assert (yield client.xackdel("s", "g", "2-0", "9-0", ref_policy="ACKED")) == [1, -1]
    assert (yield client.xgroup_setid("s", "g", "0", entries_read=0)) is True
    assert (yield client.xgroup_delconsumer("s", "g", "alice")) == 0
    assert (yield client.xgroup_destroy("s", "g")) == 1


def advance(session: Session, answer: Any) -> Any:
    """Give a session the answer to its last call; its next call, or None at its end."""
    try:
        return session.send(answer)
    except StopIteration:
        return session


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("steps", [entries_and_producers, groups])
def test_every_stream_method_is_answered(headrace_server: redis.Redis, steps: Any, protocol: int) -> None:
    with redis.Redis(port=port_of(headrace_server), protocol=protocol, decode_responses=True) as client:
        session = steps(client)
        answer = advance(session, None)
        while answer is not session:
            answer = advance(session, answer)


@pytest.mark.parametrize("protocol", [2, 3])
@pytest.mark.parametrize("steps", [entries_and_producers, groups])
def test_every_stream_method_is_answered_in_asyncio(headrace_server: redis.Redis, steps: Any, protocol: int) -> None:
    async def run() -> None:
        options = {"port": port_of(headrace_server), "protocol": protocol, "decode_responses": True}
        async with redis.asyncio.Redis(**options) as client:
            session = steps(client)
            call = advance(session, None)
            while call is not session:
                call = advance(session, await call)

    asyncio.run(run())


def test_the_sessions_use_every_stream_method_of_redis_py() -> None:
    said = inspect.getsource(entries_and_producers) + inspect.getsource(groups)
    methods = [name for name, _ in inspect.getmembers(StreamCommands, inspect.isfunction) if name.startswith("x")]
    assert len(methods) >= 25
    assert [method for method in methods if f"client.{method}(" not in said] == []


@pytest.mark.parametrize("protocol", [2, 3])
def test_a_pipeline_and_a_watched_transaction_work(headrace_server: redis.Redis, protocol: int) -> None:
    with redis.Redis(port=port_of(headrace_server), protocol=protocol, decode_responses=True) as client:
        with client.pipeline(transaction=False) as batch:
            for ms in range(1, 1001):
                batch.xadd("s", {"f": ms}, id=f"{ms}-0")
            assert batch.execute() == [f"{ms}-0" for ms in range(1, 1001)]
        with client.pipeline() as batch:
            batch.watch("s")
            assert batch.xlen("s") == 1000
            headrace_server.xadd("s", {"f": "v"}, id="1001-0")
            batch.multi()
            batch.xlen("s")
            with pytest.raises(redis.WatchError):
                batch.execute()


def test_a_blocked_reader_in_asyncio_is_served(headrace_server: redis.Redis) -> None:
    async def run() -> Any:
        async with redis.asyncio.Redis(port=port_of(headrace_server), protocol=3, decode_responses=True) as client:
            reader = asyncio.create_task(client.xread({"s": "$"}, block=10_000))
            while not (await client.info("clients"))["blocked_clients"]:
                await asyncio.sleep(0.01)
            await client.xadd("s", {"f": "v"}, id="1-0")
            return await asyncio.wait_for(reader, 10)

    assert plain(streams(asyncio.run(run()))["s"]) == [entry("1-0")]
