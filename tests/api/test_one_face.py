"""One set of tests over every kind of database: what a program does near, it does far, with the same results."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest

import headrace
from headrace import Database, Message, NotSupported, Refused, StreamID


def test_messages_are_added_found_sliced_trimmed_and_deleted(db: Database) -> None:
    stream = db.stream("s")
    assert (len(stream), stream.first, stream.last, stream.last_id, list(stream)) == (0, None, None, StreamID(0), [])
    ids = [stream.add(n=n, text="für", raw=b"\xff", id=f"{n}-1") for n in range(1, 6)]
    assert ids == [StreamID(n, 1) for n in range(1, 6)]
    assert stream.add({"n": 6, "half": 0.5, "answers": ids[0]}) > ids[-1]
    assert [id for id, _ in db.execute("XRANGE", "s", ids[0], ids[0])] == [b"1-1"]
    assert [message["answers"] for message in stream.range(reverse=True, count=1)] == ["1-1"]
    message = stream["2-1"]
    assert (message["n"], message["text"], message["raw"].encode("utf-8", "surrogateescape")) == ("2", "für", b"\xff")
    assert db.stream("s", decode=False)["2-1"][b"raw"] == b"\xff"
    assert [each["n"] for each in stream[ids[1] : ids[3]]] == ["2", "3"]
    assert [each["n"] for each in stream[datetime(1970, 1, 1, tzinfo=UTC) : ids[2]]] == ["1", "2"]
    assert [each["n"] for each in stream.range("2", "4-1", reverse=True, count=2)] == ["4", "3"]
    assert ("2-1" in stream, "2-2" in stream, stream.get("2-2"), db.streams()) == (True, False, None, ["s"])
    with pytest.raises(KeyError):
        stream["2-2"]
    assert (stream.delete("2-1", "9-9"), stream.trim(maxlen=2), stream.trim(minid=stream.last_id)) == (1, 3, 1)
    assert (len(stream), stream.add(n=7, maxlen=1) == stream.last_id, len(stream)) == (1, True, 1)
    assert (stream.drop(), stream.drop(), db.streams()) == (True, False, [])


def test_many_messages_come_in_order_and_are_read_in_pages(db: Database) -> None:
    stream = db.stream("s")
    assert stream.add_many({"n": n} for n in range(2500)) == 2500
    assert stream.add_many([]) == 0
    assert [int(message["n"]) for message in stream] == list(range(2500))
    assert [int(message["n"]) for message in reversed(stream)] == list(range(2499, -1, -1))
    with pytest.raises(TypeError, match="none of str, bytes, int, float and StreamID"):
        stream.add_many([{"n": 1}, {"n": None}])  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="at least one field"):
        stream.add()
    assert len(stream) == 2500


def test_what_is_refused_is_raised_with_its_code(db: Database) -> None:
    db.execute("SET", "text", "x")
    stream = db.stream("s")
    stream.add(n=1, id="5-5")
    with pytest.raises(Refused, match="equal or smaller"):
        stream.add(n=2, id="5-5")
    for act in (lambda: db.stream("text").add(n=1), lambda: len(db.stream("text")), lambda: db.stream("text").groups()):
        with pytest.raises(Refused) as refused:
            act()
        assert refused.value.code == "WRONGTYPE"
    with pytest.raises(Refused):
        db.stream("text").add_many({"n": n} for n in range(1500))
    with pytest.raises(Refused, match="unknown command"):
        db.execute("NOSUCH")
    with pytest.raises(ValueError, match=r"use redis\(\)"):
        db.execute("MULTI")
    assert (db.execute("STRLEN", "text"), db.execute("ECHO", 1.5)) == (1, b"1.5")


def test_a_loop_acknowledges_and_a_failure_leaves_the_message_in_hand(db: Database) -> None:
    stream = db.stream("s")
    stream.add_many({"n": n} for n in range(5))
    group = stream.group("g")
    seen: list[tuple[str, int]] = []
    for attempt in (1, 2):
        with suppress(LookupError):
            for message in group.consumer("c", timeout=0, prefetch=attempt):
                seen.append((message["n"], message.deliveries))
                if message["n"] == "2":
                    raise LookupError
    assert seen == [("0", 1), ("1", 1), ("2", 1), ("2", 2)]
    assert [(each.id, each.consumer, each.deliveries) for each in group.pending()] == [(message.id, "c", 2)]
    assert [message["n"] for message in group.consumer("c", timeout=0)] == ["2", "3", "4"]
    assert (group.pending(), group.lag, group.consumers(), stream.groups()) == ([], 0, ["c"], ["g"])
    group.position = "0"
    assert (group.position, group.drop(), group.drop(), stream.groups()) == (StreamID(0), True, False, [])


def test_batches_reads_and_claims(db: Database) -> None:
    stream = db.stream("s")
    stream.add_many({"n": n} for n in range(6))
    group = stream.group("g")
    dead, alive = group.consumer("dead", timeout=0), group.consumer("alive", timeout=0)
    assert [message["n"] for message in dead.read(2)] == ["0", "1"]
    assert (alive.claim(idle=60), [message["n"] for message in alive.claim(idle=0)]) == ([], ["0", "1"])
    with suppress(LookupError), alive.batch(2) as messages:
        assert [message["n"] for message in messages] == ["0", "1"]
        raise LookupError
    with alive.batch(10) as messages:
        assert [message["n"] for message in messages] == ["0", "1"]
    with alive.batch(10) as messages:
        assert [message["n"] for message in messages] == ["2", "3", "4", "5"]
        messages[0].ack()
    assert (alive.read(1), group.pending(), dead.drop(), group.consumers()) == ([], [], 0, ["alive"])


def test_a_loop_and_a_tail_wait_for_what_comes(db: Database) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    tail = stream.tail(timeout=20)
    for n in range(3):
        threading.Timer(0.05, stream.add, kwargs={"n": n}).start()
        assert next(tail)["n"] == str(n)
        assert next(iter(group.consumer(f"c{n}", timeout=20)))["n"] == str(n)
    assert list(stream.tail(timeout=0.02)) == []
    assert list(group.consumer("c", timeout=0.02)) == []


def test_coroutines_have_a_twin_of_everything(db: Database) -> None:
    async def main() -> None:
        async with db:
            stream = db.stream("s")
            id = await stream.aadd(n=0)
            assert await stream.aadd(n=1, maxlen=10) > id
            assert await stream.aadd_many({"n": n} for n in range(2, 1200)) == 1198
            assert [int(message["n"]) async for message in stream] == list(range(1200))
            last = [message["n"] async for message in stream.arange(count=1, reverse=True)]
            assert (last, await stream.alen(), await stream.alast_id() > id) == (["1199"], 1200, True)
            found = await stream.aget(id), await stream.afirst(), await stream.alast()
            assert [message and message["n"] for message in found] == ["0", "0", "1199"]
            assert (await stream.aget("1-1"), await stream.adelete(id), await stream.atrim(maxlen=5)) == (None, 1, 1194)
            group = await stream.agroup("g")
            assert (await stream.agroups(), await group.alag(), await group.aposition()) == (["g"], 5, StreamID(0))
            consumer = group.consumer("c", timeout=0)
            [message] = await consumer.aread()
            assert (await message.adeliveries(), len(await group.apending()), len(await consumer.apending())) == (
                1,
            ) * 3
            assert (await message.aack(), await group.aack(message)) == (True, 0)
            async with consumer.abatch(2) as messages:
                assert len(messages) == 2
            assert [message["n"] async for message in consumer] == ["1198", "1199"]
            tail = await stream.atail(timeout=20)
            adding = asyncio.create_task(later(stream.aadd, n=7))
            assert (await anext(tail))["n"] == "7"
            await adding
            await group.aset_position("0")
            assert (await db.astreams(), await db.aexecute("XLEN", "s"), await group.aconsumers()) == (["s"], 6, ["c"])
            assert (await consumer.aclaim(idle=0), await consumer.adrop(), await group.adrop()) == ([], 0, True)
            assert await stream.adrop()
        assert db.closed

    async def later(act: Callable[..., Awaitable[Any]], **named: Any) -> None:
        await asyncio.sleep(0.05)
        await act(**named)

    asyncio.run(main())


def test_threads_share_a_database_and_no_message_is_given_twice(db: Database) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    handled: list[str] = []

    def add(name: int) -> None:
        for n in range(40):
            stream.add(n=f"{name}-{n}")

    def work(name: str) -> None:
        handled.extend(message["n"] for message in group.consumer(name, timeout=0.3))

    threads = [threading.Thread(target=add, args=(n,)) for n in range(4)]
    threads += [threading.Thread(target=work, args=(f"w{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work("last")  # where they gave up on a slow machine
    assert sorted(handled) == sorted(f"{name}-{n}" for name in range(4) for n in range(40))
    assert (group.pending(), group.lag) == ([], 0)


def test_a_call_that_waits_ends_when_the_database_is_closed(db: Database) -> None:
    stream = db.stream("s")
    ended: list[BaseException] = []

    def wait(messages: Any) -> None:
        try:
            next(iter(messages))
        except BaseException as error:  # noqa: BLE001
            ended.append(error)

    waiting = [stream.tail(), stream.group("g").consumer("c")]
    threads = [threading.Thread(target=wait, args=(messages,)) for messages in waiting]
    for thread in threads:
        thread.start()
    threading.Event().wait(0.1)
    db.close()
    for thread in threads:
        thread.join()
    assert [type(error) for error in ended] == [headrace.DatabaseClosed] * 2
    with pytest.raises(headrace.DatabaseClosed):
        stream.add(n=1)
    assert db.closed
    assert repr(db).endswith(", closed>")


def test_what_a_server_lacks_raises_one_error(db: Database, keeps_rules: bool) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    newer: list[tuple[Callable[[], Any], str]] = [
        (lambda: stream.add(n=1, idmp=("p", 1)), r"idmp of add\(\), which Headrace and Redis from 8.6"),
        (lambda: stream.add(n=1, maxlen=100, policy="acked"), r"policy of add\(\), which Headrace and Redis from 8.2"),
        (lambda: stream.trim(maxlen=100, policy="delref"), r"policy of trim\(\), which Headrace and Redis from 8.2"),
        (lambda: stream.policy(maxlen=100), "is no Headrace"),
        (lambda: group.policy(visibility=60), "is no Headrace"),
        (lambda: stream.add(n=1, delay=3600), "is no Headrace"),
        (stream.scheduled, "is no Headrace"),
    ]
    for act, sentence in newer:
        if keeps_rules:
            act()
        else:
            with pytest.raises(NotSupported, match=sentence):
                act()


def test_a_message_is_a_mapping_of_its_fields(db: Database) -> None:
    stream = db.stream("s")
    stream.add(a=1, b="x")
    message: Message = next(iter(stream))
    match message:
        case {"a": number, **others}:
            assert (number, others) == ("1", {"b": "x"})
    assert ({**message}, dict(message), list(message), len(message)) == ({"a": "1", "b": "x"},) * 2 + (["a", "b"], 2)
    assert (message == {"a": "1", "b": "x"}, list(message.items())) == (True, [("a", "1"), ("b", "x")])
    assert (list(message.keys()), list(message.values()), message.deliveries) == (["a", "b"], ["1", "x"], 0)
    with pytest.raises(ValueError, match="not read by a consumer"):
        message.ack()


def test_the_redis_py_client_sees_the_same_data(db: Database) -> None:
    db.stream("s").add(n=1, id="1-1")
    with db.redis(decode_responses=True) as client:
        assert client.xrange("s") == [("1-1", {"n": "1"})]
