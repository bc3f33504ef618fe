"""In-process use: streams of `headrace.open`, beside redis-py with a redis-server on the loopback, and fakeredis.

    Headrace                        db.stream("devmsg").add(dev=3, temp=26)
    redis-py, Headrace in process   db.redis().xadd("devmsg", {"dev": 3, "temp": 26}); no socket
    fakeredis                       fakeredis.FakeRedis().xadd(…); no socket, nothing on disk
    redis-py, redis-server          redis.Redis().xadd(…); a socket of the loopback

Every message has two fields of small integers. Each measurement has a process of its own, and a figure is by the clock.
"""

from __future__ import annotations

import gc
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import redis

import headrace
from bench.harness import fresh
from bench.run import Run
from bench.servers import ALONE
from headrace.api.database import Database
from headrace.measuring.rounds import alternated
from headrace.measuring.samples import Finding
from headrace.measuring.targets import HEADRACE, IN_MEMORY, private_redis, redis_command

THREADS = 16
ALWAYS = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")
ROWS: list[dict[str, int]] = [{"dev": number % 100, "temp": 26} for number in range(1000)]

CLIENT = "redis-py, Headrace in process"
FAKEREDIS = "fakeredis"
SERVER = "redis-py, redis-server"
TABLE = "In process"


# --- what is done, with streams of ours ----------------------------------------------------------------------------


def add(db: Database, messages: int) -> None:
    """Add messages one by one."""
    stream_add = db.stream("devmsg").add
    for _ in range(messages):
        stream_add(dev=3, temp=26)


def add_many(db: Database, messages: int) -> None:
    """Add messages that are there already."""
    db.stream("devmsg").add_many(ROWS * (messages // len(ROWS)))


def add_from_threads(db: Database, messages: int) -> None:
    """Add messages one by one from many threads."""
    _in_threads(lambda: add(db, messages // THREADS))


def iterate(db: Database, messages: int) -> None:
    """Read everything, and one field of each."""
    if sum(1 for message in db.stream("filled") if message["temp"]) != messages:
        raise RuntimeError("messages are missing")


def consume(db: Database, messages: int) -> None:
    """Let a consumer handle everything, a message at a time."""
    consumer = db.stream("filled").group("g").consumer("c", timeout=0, prefetch=100)
    if sum(1 for _ in consumer) != messages:
        raise RuntimeError("messages are missing")


# --- the same, through redis-py ------------------------------------------------------------------------------------


def client_add(client: redis.Redis, messages: int) -> None:
    """Add messages one by one."""
    for _ in range(messages):
        client.xadd("devmsg", {"dev": 3, "temp": 26})


def client_add_many(client: redis.Redis, messages: int) -> None:
    """Add messages in pipelines of a thousand."""
    for _ in range(0, messages, 1000):
        with client.pipeline(transaction=False) as pipe:
            for row in ROWS:
                pipe.xadd("devmsg", row)
            pipe.execute()


def client_add_from_threads(client: redis.Redis, messages: int) -> None:
    """Add messages one by one from many threads."""
    _in_threads(lambda: client_add(client, messages // THREADS))


def client_iterate(client: redis.Redis, _messages: int) -> None:
    """Read everything, a thousand messages at a time, and one field of each."""
    start = "-"
    while found := client.xrange("filled", start, count=1000):
        for _, fields in found:
            fields[b"temp"]
        start = f"({found[-1][0].decode()}"


def client_consume(client: redis.Redis, _messages: int) -> None:
    """Let a consumer handle everything: read by hundreds, acknowledge one by one."""
    client.xgroup_create("filled", "g", "0")
    while reply := client.xreadgroup("g", "c", {"filled": ">"}, count=100):
        for entry, _ in reply[0][1]:
            client.xack("filled", "g", entry)


def _in_threads(work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@dataclass(frozen=True)
class Workload:
    """One thing to do with messages: so many of them here, and so many through clients, which are slower."""

    name: str
    here: Callable[[Database, int], None]
    messages: int
    there: Callable[[Any, int], None]
    there_messages: int
    durable: bool = False
    read: bool = False
    without: tuple[str, ...] = field(default=())
    """Who cannot do it, or not in a way that says anything."""


WORKLOADS = [
    Workload("in process: add", add, 300_000, client_add, 5_000),
    Workload("in process: add_many", add_many, 2_000_000, client_add_many, 10_000),
    Workload("in process: iterate", iterate, 100_000, client_iterate, 20_000, read=True),
    Workload("in process: consume, one by one", consume, 50_000, client_consume, 3_000, read=True),
    Workload("in process, always: add", add, 2_000, client_add, 2_000, durable=True, without=(FAKEREDIS,)),
    Workload(
        f"in process, always: add, {THREADS} threads",
        *(add_from_threads, 16_000, client_add_from_threads, 8_000),
        durable=True,
        without=(FAKEREDIS, CLIENT),
    ),
    Workload(
        "in process, always: add_many", add_many, 200_000, client_add_many, 20_000, durable=True, without=(FAKEREDIS,)
    ),
]


# --- measuring, each in a process of its own -----------------------------------------------------------------------


def measure(number: int, who: str, port: int, share: float) -> float:
    """Do a workload once, and tell messages a second."""
    workload = WORKLOADS[number]
    messages = max(
        1000, int((workload.messages if who == HEADRACE else workload.there_messages) * share) // 1000 * 1000
    )
    with _opened(who, workload, port) as (place, work):
        if workload.read:
            _fill(place, messages)
        gc.collect()
        began = time.perf_counter()
        work(place, messages)
        return messages / (time.perf_counter() - began)


@contextmanager
def _opened(who: str, workload: Workload, port: int) -> Iterator[tuple[Any, Callable[[Any, int], None]]]:
    if who in {HEADRACE, CLIENT}:
        with (
            tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory,
            headrace.open(directory if workload.durable else None) as db,
        ):
            yield (db, workload.here) if who == HEADRACE else (db.redis(), workload.there)
    elif who == FAKEREDIS:
        import fakeredis  # noqa: PLC0415 — only this process needs it

        yield fakeredis.FakeRedis(), workload.there
    else:
        with redis.Redis(port=port, protocol=2) as client:
            client.flushall()
            yield client, workload.there


def _fill(place: Any, messages: int) -> None:
    if isinstance(place, Database):
        place.stream("filled").add_many(ROWS * (messages // len(ROWS)))
        return
    for _ in range(0, messages, len(ROWS)):
        with place.pipeline(transaction=False) as pipe:
            for row in ROWS:
                pipe.xadd("filled", row)
            pipe.execute()


def in_process(run: Run) -> None:
    """Measure all workloads, round by round."""
    share = min(1.0, run.scale.messages / 1_000_000)
    sides = [HEADRACE, CLIENT]
    if find_spec("fakeredis") is not None:
        sides.append(FAKEREDIS)
    else:
        run.note("fakeredis is not installed, so that it is left out; make setup brings it.")
    if redis_command() is None:
        run.note(ALONE)
        _measure_all(run, sides, {False: 0, True: 0}, share)
        return
    with private_redis(IN_MEMORY) as quick, private_redis(ALWAYS) as durable:
        ports = {each: int(server.client.connection_pool.connection_kwargs["port"])
                 for each, server in ((False, quick), (True, durable))}  # fmt: skip
        _measure_all(run, [*sides, SERVER], ports, share)


def _measure_all(run: Run, sides: list[str], ports: dict[bool, int], share: float) -> None:
    for number, workload in enumerate(WORKLOADS):
        these = [who for who in sides if who not in workload.without]
        rounds: dict[str, list[float]] = {who: [] for who in these}
        for turn in range(run.scale.rounds):
            for who in alternated(these, turn):
                run.told(f"{workload.name}: {who}")
                rounds[who].append(fresh(measure, number, who, ports[workload.durable], share))
        run.keep(Finding(workload.name, "messages/s", more_is_better=True, table=TABLE, rounds=rounds))
