"""Waiting: for messages, for their end, and for none at all; and what ends a wait before its time."""

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import headrace
from headrace.api.database import Database
from headrace.api.errors import DatabaseBusy, DatabaseClosed
from support.patience import PATIENCE_S


@pytest.fixture(params=["in memory", "on disk"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    with headrace.open(None if request.param == "in memory" else tmp_path) as db:
        yield db


class Outcome(threading.Thread):
    """Does something in a thread, and remembers what came of it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._work()
        except BaseException as error:  # noqa: BLE001
            self.error = error

    def end(self) -> Any:
        self.join(20)
        assert not self.is_alive(), "it still waits"
        return self.result if self.error is None else self.error


def await_blocked(db: Database, clients: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while db.redis().info("clients")["blocked_clients"] < clients:
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_tail_gives_what_comes_after_it_was_asked_for(db: Database) -> None:
    stream = db.stream("s")
    stream.add(n=0)
    tail = stream.tail()
    stream.add(n=1)
    reading = Outcome(lambda: [next(tail)["n"] for _ in range(3)])
    await_blocked(db, 1)
    stream.add(n=2)
    stream.add_many([{"n": 3}, {"n": 4}])
    assert reading.end() == ["1", "2", "3"]
    assert next(tail)["n"] == "4"
    assert tail.position == stream.last_id


def test_a_tail_ends_when_nothing_has_come_in_time(db: Database) -> None:
    stream = db.stream("s")
    stream.add(n=0)
    assert [message["n"] for message in stream.tail("0", timeout=0)] == ["0"]
    assert list(stream.tail(timeout=0.02)) == []
    assert list(stream.tail("0", timeout=0.02)) == list(stream)


def test_every_way_of_adding_wakes_a_consumer_that_waits(db: Database) -> None:
    stream = db.stream("s")
    consumer = stream.group("g").consumer("c")
    for add in (
        lambda: stream.add(n=1),
        lambda: stream.add(n=1, id="*"),
        lambda: stream.add_many([{"n": 1}]),
        lambda: db.redis().xadd("s", {"n": 1}),
        lambda: db.execute("XADD", "s", "*", "n", 1),
        lambda: asyncio.run(stream.aadd(n=1)),
    ):
        waiting = Outcome(lambda: next(iter(consumer)))
        await_blocked(db, 1)
        add()
        assert consumer.ack(waiting.end()) == 1


def test_closing_ends_every_wait(db: Database) -> None:
    stream = db.stream("s")
    client = db.redis()
    waiting = [
        Outcome(lambda: next(stream.tail())),
        Outcome(lambda: next(iter(stream.group("g").consumer("c")))),
        Outcome(lambda: client.xread({"s": "$"}, block=0)),
        Outcome(lambda: asyncio.run(anext(stream.tail()))),
    ]
    await_blocked(db, len(waiting))
    db.close()
    assert [type(each.end()) for each in waiting] == [DatabaseClosed] * len(waiting)
    for use in (lambda: stream.add(n=1), lambda: len(stream), lambda: stream.add_many([{"n": 1}]), client.ping):
        with pytest.raises(DatabaseClosed, match="is closed"):
            use()
    assert db.closed
    db.close()


def test_closing_gives_everybody_who_adds_an_answer(tmp_path: Path) -> None:
    db = headrace.open(tmp_path)
    stream = db.stream("s")

    def add_on() -> int:
        added = 0
        try:
            while True:
                stream.add(n=added)
                added += 1
        except DatabaseClosed:
            return added

    adding = [Outcome(add_on) for _ in range(4)]
    while len(stream) < 200:
        time.sleep(0.001)
    db.close()
    acknowledged = sum(each.end() for each in adding)
    with headrace.open(tmp_path) as again:
        assert acknowledged <= len(again.stream("s")) <= acknowledged + len(adding)


def test_an_interrupt_ends_a_wait_and_what_comes_later_goes_to_the_next(db: Database) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    threading.Timer(0.1, signal.pthread_kill, [threading.get_ident(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        next(iter(group.consumer("c")))
    stream.add(n=1)
    assert group.lag == 1
    assert [message["n"] for message in group.consumer("d", timeout=0)] == ["1"]


def test_a_signal_handler_may_use_the_database_between_calls_and_is_told_when_it_may_not(db: Database) -> None:
    stream = db.stream("s")
    came: list[object] = []

    def handle(_number: int, _frame: object) -> None:
        try:
            came.append(stream.add(signal=1))
        except DatabaseBusy as busy:
            came.append(busy)
        if len(came) < 20:
            signal.setitimer(signal.ITIMER_REAL, 0.001)  # the next one; a slow disk would let a steady timer pile up

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    try:
        while len(came) < 20:
            stream.add(n=1)
            db.execute("INFO")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert sum("signal" in message for message in stream) == sum(not isinstance(each, DatabaseBusy) for each in came)


def test_a_client_may_be_closed_in_the_middle_of_a_command_as_finalizers_do(db: Database) -> None:
    clients = [db.redis() for _ in range(40)]
    for each in clients:
        each.ping()

    def handle(_number: int, _frame: object) -> None:
        if clients:
            clients.pop().close()
            signal.setitimer(signal.ITIMER_REAL, 0.001)

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    try:
        while clients:
            db.execute("INFO")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(db.redis().client_list()) == 1


def test_a_paused_database_keeps_who_adds_waiting(db: Database) -> None:
    stream = db.stream("s")
    client = db.redis()
    client.client_pause(20_000, all=False)
    adding = [Outcome(lambda: stream.add(n=1)), Outcome(lambda: stream.add_many([{"n": 1}] * 3))]
    time.sleep(0.05)
    assert len(stream) == 0
    client.client_unpause()
    for each in adding:
        each.end()
    assert len(stream) == 4


def test_a_socket_timeout_is_redis_pys(db: Database) -> None:
    client = db.redis(socket_timeout=0.05, retry=None)
    with pytest.raises(redis.TimeoutError):
        client.xread({"s": "$"}, block=0)
    assert client.ping()
    assert client.info("clients")["blocked_clients"] == 0
