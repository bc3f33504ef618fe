"""Consumers' loops over queues that run empty: what came before is acknowledged, what comes later is handled.

The loop acknowledges a message and waits for the next in one step. That step has two replies, and an hour may pass
between them.
"""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import redis

import headrace
from headrace.api.database import Database
from headrace.api.errors import DatabaseClosed, Refused
from headrace.api.message import Message
from support.own_host import host_of
from support.patience import PATIENCE_S, await_that


@pytest.fixture(params=["in memory", "on disk"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with headrace.open(None if request.param == "in memory" else tmp_path) as db:
        yield db


class Worker(threading.Thread):
    """Runs a loop in a thread, and remembers what it was given and how it ended."""

    def __init__(self, loop: Callable[["Worker"], Any]) -> None:
        super().__init__(daemon=True)
        self._loop = loop
        self.handled: list[Any] = []
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._loop(self)
        except BaseException as error:  # noqa: BLE001
            self.error = error

    def handle(self, message: Message) -> None:
        self.handled.append(message["n"])

    def handle_all(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self.handle(message)

    def has_handled(self, count: int) -> bool:
        """Whether it has handled so many, or has ended, which the test then sees."""
        return len(self.handled) == count or not self.is_alive()

    def end(self) -> None:
        self.join(PATIENCE_S)
        assert not self.is_alive(), "it still waits"


def blocked(db: Database) -> int:
    return int(
        dict(line.split(b":") for line in db.execute("INFO", "clients").split() if b":" in line)[b"blocked_clients"]
    )


def consume(consumer: Any) -> Callable[[Worker], None]:
    def loop(worker: Worker) -> None:
        for message in consumer:
            worker.handle(message)

    return loop


def aconsume(consumer: Any) -> Callable[[Worker], None]:
    async def main(worker: Worker) -> None:
        async for message in consumer:
            worker.handle(message)

    return lambda worker: asyncio.run(main(worker))


LOOPS = pytest.mark.parametrize("loop", [consume, aconsume])


@LOOPS
@pytest.mark.parametrize("prefetch", [1, 3])
def test_a_loop_goes_on_when_the_queue_was_empty(db: Database, loop: Any, prefetch: int) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    worker = Worker(loop(group.consumer("c", prefetch=prefetch)))
    for n in range(20):
        await_that(lambda: blocked(db) == 1 or not worker.is_alive())
        assert group.pending() == []
        stream.add(n=n)
        await_that(partial(worker.has_handled, n + 1))
    await_that(lambda: blocked(db) == 1)
    assert worker.handled == [str(n) for n in range(20)]
    assert (group.pending(), group.lag) == ([], 0)
    db.close()
    worker.end()
    assert type(worker.error) is DatabaseClosed


@LOOPS
def test_a_timeout_counts_from_the_last_message_and_acknowledges_it(db: Database, loop: Any) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    stream.add(n=0)
    worker = Worker(loop(group.consumer("c", timeout=0.3)))
    await_that(lambda: worker.handled == ["0"] and blocked(db) == 1)
    stream.add(n=1)
    worker.end()
    assert (worker.error, worker.handled, group.pending()) == (None, ["0", "1"], [])


@LOOPS
def test_many_workers_share_a_queue_that_runs_empty_again_and_again(db: Database, loop: Any) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    workers = [Worker(loop(group.consumer(f"c{n}", prefetch=1 + n % 2))) for n in range(4)]
    for n in range(60):
        if n % 7 == 0:
            await_that(lambda: blocked(db) == 4 or not all(worker.is_alive() for worker in workers))
        stream.add(n=n)
    await_that(lambda: blocked(db) == 4 or not all(worker.is_alive() for worker in workers))
    assert sorted(int(n) for worker in workers for n in worker.handled) == list(range(60))
    assert (group.pending(), group.lag) == ([], 0)


def test_an_exception_in_the_body_leaves_what_came_after_a_wait(db: Database) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    consumer = group.consumer("c")

    def fail_once(worker: Worker) -> None:
        for message in consumer:
            if message["n"] == "1" and "failed" not in worker.handled:
                worker.handled.append("failed")
                break
            worker.handle(message)
        consume(consumer)(worker)

    worker = Worker(fail_once)
    for n in range(3):
        stream.add(n=n)
        await_that(lambda: blocked(db) == 1 or not worker.is_alive())
    assert worker.handled == ["0", "failed", "1", "2"]
    assert group.pending() == []


def test_two_loops_under_one_name_lose_nothing(db: Database) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    workers = [Worker(consume(group.consumer("same"))) for _ in range(2)]
    for n in range(30):
        stream.add(n=n)
        if n % 5 == 0:
            await_that(lambda: blocked(db) == 2 or not all(worker.is_alive() for worker in workers))
    await_that(lambda: blocked(db) == 2)
    assert {int(n) for worker in workers for n in worker.handled} == set(range(30))
    assert group.pending() == []


def test_a_stream_that_is_dropped_ends_its_loop_with_a_refusal(db: Database) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    stream.add(n=0)
    worker = Worker(consume(group.consumer("c")))
    await_that(lambda: blocked(db) == 1)
    stream.drop()
    worker.end()
    assert isinstance(worker.error, Refused)
    assert worker.error.code == "NOGROUP"
    stream.add(n=1)
    assert [message["n"] for message in stream.group("g").consumer("c", timeout=0)] == ["1"]


def test_an_interrupt_of_a_loop_that_waits_leaves_the_next_message_to_others(db: Database) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    stream.add(n=0)
    main = threading.get_ident()

    def interrupt(_worker: Worker) -> None:
        await_that(lambda: blocked(db) == 1)
        signal.pthread_kill(main, signal.SIGINT)

    interrupting = Worker(interrupt)
    handled: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        handled.extend(message["n"] for message in group.consumer("c"))
    interrupting.end()
    assert (handled, blocked(db), group.pending()) == (["0"], 0, [])
    for n in range(1, 10):
        stream.add(n=n)
    assert [message["n"] for message in group.consumer("d", timeout=0)] == [str(n) for n in range(1, 10)]


def test_a_cancelled_loop_that_waits_leaves_the_next_message_to_others(db: Database) -> None:
    stream = db.stream("s")
    group = stream.group("g")

    async def main() -> None:
        async def loop() -> None:
            async for message in group.consumer("c"):
                handled.append(message["n"])  # noqa: PERF401

        handled: list[str] = []
        await stream.aadd(n=0)
        waiting = asyncio.create_task(loop())
        while blocked(db) == 0:
            await asyncio.sleep(0.002)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        assert (handled, blocked(db), group.pending()) == (["0"], 0, [])
        for n in range(1, 10):
            await stream.aadd(n=n)
        assert group.lag == 9

    asyncio.run(main())


def test_a_pause_keeps_a_loop_waiting_and_loses_no_acknowledgement(db: Database) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    stream.add_many({"n": n} for n in range(3))
    consumer = group.consumer("c", timeout=0)
    messages = iter(consumer)
    assert next(messages)["n"] == "0"
    client = db.redis()
    client.client_pause(60_000, all=False)
    worker = Worker(lambda worker: worker.handle_all(messages))
    time.sleep(0.05)
    assert (worker.handled, len(group.pending())) == ([], 1)
    client.client_unpause()
    worker.end()
    assert (worker.error, worker.handled, group.pending()) == (None, ["1", "2"], [])


def test_commands_that_wait_do_not_disturb_those_of_other_threads(db: Database) -> None:
    stream = db.stream("s")
    waiting = [
        Worker(lambda worker: worker.handled.append(db.execute("BLPOP", "list", 0)[1].decode())) for _ in range(3)
    ]
    loops = [Worker(consume(stream.group("g").consumer(f"c{n}"))) for n in range(3)]
    tail = stream.tail()
    tailing = Worker(lambda worker: worker.handle_all(islice(tail, 50)))
    await_that(lambda: blocked(db) == 7)
    for n in range(50):
        before = stream.last_id
        assert stream.add(n=n) > before
        assert db.execute("ECHO", n) == b"%d" % n
    tailing.end()
    assert tailing.handled == [str(n) for n in range(50)]
    await_that(lambda: blocked(db) == 6)
    assert sorted(int(n) for loop in loops for n in loop.handled) == list(range(50))
    db.execute("RPUSH", "list", 1, 2, 3)
    for each in waiting:
        each.end()
    assert sorted(n for each in waiting for n in each.handled) == ["1", "2", "3"]


def test_a_forked_process_is_told_that_it_cannot_go_on_with_the_loop(db: Database) -> None:
    stream = db.stream("s")
    stream.add_many({"n": n} for n in range(2))
    group = stream.group("g")
    worker = Worker(consume(group.consumer("other")))
    await_that(lambda: blocked(db) == 1)
    stream.add_many({"n": n} for n in range(2))
    await_that(lambda: blocked(db) == 1)
    messages = iter(group.consumer("c"))
    stream.add(n=9)
    await_that(lambda: len(worker.handled) == 5)
    child = os.fork()
    if child == 0:
        code = 1
        with suppress(BaseException):
            try:
                next(messages)
            except DatabaseClosed:
                code = 0
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    stream.add(n=10)
    await_that(lambda: worker.handled[-1] == "10" and blocked(db) == 1)
    assert group.pending() == []


def test_rows_before_one_that_is_refused_are_on_disk_and_no_connection_is_left(tmp_path: Path) -> None:
    with headrace.open(tmp_path) as db:
        stream = db.stream("s")
        stream.add(n=0)
        connections = len(host_of(db).connections)

        def rows() -> Iterator[dict[str, Any]]:
            yield from ({"n": n} for n in range(1000))
            raise LookupError("the source ends")

        for _ in range(20):
            with pytest.raises(LookupError):
                stream.add_many(rows())
            with pytest.raises(TypeError):
                stream.add_many([*({"n": n} for n in range(1000)), {"n": None}])  # type: ignore[dict-item]
            with pytest.raises(LookupError):
                asyncio.run(stream.aadd_many(rows()))
        assert len(stream) == 60_001
        assert len(host_of(db).connections) <= connections + 1


# --- the same with redis-py ------------------------------------------------------------------------------------------


def test_redis_py_waits_in_pipelines_and_goes_on_behind_what_blocked(db: Database) -> None:
    client = db.redis(decode_responses=True)

    def wait(worker: Worker) -> None:
        with client.pipeline(transaction=False) as pipe:
            pipe.set("before", 1).blpop("list", 0).xread({"s": "$"}, block=50).incr("before")
            worker.handled = pipe.execute()

    worker = Worker(wait)
    await_that(lambda: blocked(db) == 1)
    assert client.get("before") == "1"
    client.rpush("list", "x")
    worker.end()
    assert worker.error is None
    assert worker.handled[0] is True
    assert list(worker.handled[1]) == ["list", "x"]
    assert not worker.handled[2]
    assert worker.handled[3] == 2
    assert client.ping()


def test_redis_py_timeouts_leave_nothing_behind(db: Database) -> None:
    client = db.redis(decode_responses=True, socket_timeout=0.05, retry=None)
    for _ in range(5):
        with pytest.raises(redis.TimeoutError):
            client.blpop("list", 0)
        with pytest.raises(redis.TimeoutError), client.pipeline(transaction=False) as pipe:
            pipe.set("k", 1).blpop("list", 0).execute()
    assert blocked(db) == 0
    client.rpush("list", "x")
    assert client.lrange("list", 0, -1) == ["x"]
    assert len(client.client_list()) <= 2


def test_cancelled_tasks_of_redis_py_leave_nothing_behind(db: Database) -> None:
    async def main() -> None:
        async with db.aredis(decode_responses=True) as client:
            for _ in range(5):
                tasks = [
                    asyncio.create_task(client.blpop("list", 0)),
                    asyncio.create_task(client.xread({"s": "$"}, block=0)),
                ]
                while blocked(db) < 2:
                    await asyncio.sleep(0.002)
                for task in tasks:
                    task.cancel()
                assert [type(each) for each in await asyncio.gather(*tasks, return_exceptions=True)] == [
                    asyncio.CancelledError,
                    asyncio.CancelledError,
                ]
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(client.blpop("list", 0), 0.01)
            assert blocked(db) == 0
            await client.rpush("list", "x")
            await client.xadd("s", {"n": 1})
            assert await client.lrange("list", 0, -1) == ["x"]
            assert await client.incr("k") == 1

    asyncio.run(main())


def test_a_subscription_goes_on_after_timeouts_and_ends_with_the_database(db: Database) -> None:
    client = db.redis(decode_responses=True)
    listener = client.pubsub(ignore_subscribe_messages=True)
    listener.subscribe("news")
    heard = []
    for n in range(5):
        assert listener.get_message(timeout=0.01) is None
        client.publish("news", n)
        while (message := listener.get_message(timeout=1)) is None:
            pass
        heard.append(message["data"])
    assert heard == ["0", "1", "2", "3", "4"]
    worker = Worker(lambda _: listener.get_message(timeout=None))
    time.sleep(0.02)
    db.close()
    worker.end()
    assert isinstance(worker.error, DatabaseClosed | redis.ConnectionError)
