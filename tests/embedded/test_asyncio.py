"""Coroutines: each method that waits has a variant that does not block the event loop."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.api.database import Database
from headrace.api.errors import DatabaseClosed


@pytest.fixture(params=["in memory", "on disk"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with headrace.open(None if request.param == "in memory" else tmp_path) as db:
        yield db


def test_many_tasks_add_and_one_reads(db: Database) -> None:
    stream = db.stream("s")

    async def add(task: int) -> None:
        for n in range(20):
            await stream.aadd(task=task, n=n)

    async def read() -> list[tuple[str, str]]:
        found = []
        async for message in stream.tail("0"):
            found.append((message["task"], message["n"]))
            if len(found) == 200:
                break
        return found

    async def main() -> None:
        reading = asyncio.create_task(read())
        await asyncio.gather(*(add(task) for task in range(10)))
        found = await reading
        assert sorted(found) == sorted((str(task), str(n)) for task in range(10) for n in range(20))

    asyncio.run(main())
    assert len(stream) == 200


def test_a_consumer_acknowledges_and_a_failure_leaves_the_message(db: Database) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    consumer = group.consumer("c", timeout=0)

    async def main() -> None:
        assert await stream.aadd_many({"n": n} for n in range(1500)) == 1500
        with suppress(RuntimeError):
            async for message in consumer:
                if message["n"] == "3":
                    raise RuntimeError
        async for message in consumer:
            assert message["n"] == "3"
            break
        with suppress(RuntimeError):
            async with consumer.abatch(10) as messages:
                raise RuntimeError
        async with consumer.abatch(10) as messages:
            assert [message["n"] for message in messages] == ["3"]
        assert [message["n"] for message in await consumer.aread(2)] == ["4", "5"]
        claimed = await group.consumer("d").aclaim(idle=0)
        assert [message["n"] for message in claimed] == ["4", "5"]
        assert await group.aack(*claimed) == 2
        assert await stream.aadd(n=7, maxlen=1) == stream.last_id

    asyncio.run(main())
    assert group.pending() == []


def test_a_cancelled_wait_takes_nothing(db: Database) -> None:
    stream = db.stream("s")
    group = stream.group("g")

    async def main() -> None:
        waiting = asyncio.ensure_future(anext(aiter(group.consumer("c"))))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await stream.aadd(n=1)
        assert group.lag == 1

    asyncio.run(main())


def test_the_event_loop_goes_on_while_tasks_wait(db: Database) -> None:
    async def main() -> None:
        waiting = asyncio.ensure_future(anext(db.stream("s").tail()))
        for _ in range(10):
            await asyncio.sleep(0.001)
        assert not waiting.done()
        db.close()
        with pytest.raises(DatabaseClosed):
            await waiting

    asyncio.run(main())


@pytest.mark.parametrize("protocol", [2, 3])
def test_the_asyncio_client_of_redis_py_is_a_real_one(db: Database, protocol: int) -> None:
    async def main() -> None:
        async with db.aredis(decode_responses=True, protocol=protocol) as client:
            assert await client.xadd("s", {"n": 1}, id="1-0") == "1-0"
            assert await client.xrange("s") == [("1-0", {"n": "1"})]
            reading = asyncio.create_task(client.xread({"s": "$"}, block=10_000))
            await asyncio.sleep(0.02)
            await client.xadd("s", {"n": 2}, id="2-0")
            reply: Any = await reading
            assert reply == ([["s", [("2-0", {"n": "2"})]]] if protocol == 2 else {"s": [[("2-0", {"n": "2"})]]})
            assert not await client.xread({"s": "$"}, block=10)
            async with client.pipeline() as pipe:
                pipe.set("k", 1)
                pipe.incr("k")
                assert await pipe.execute() == [True, 2]
            async with client.pubsub(ignore_subscribe_messages=True) as listener:
                await listener.subscribe("news")
                await listener.get_message(timeout=1)
                await client.publish("news", "x" * 200_000)
                message = await listener.get_message(timeout=5)
                assert message is not None
                assert message["data"] == "x" * 200_000
            counted = await asyncio.gather(*(client.incr("k") for _ in range(100)))
            assert sorted(counted) == list(range(3, 103))

    asyncio.run(main())
