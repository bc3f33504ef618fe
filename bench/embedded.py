"""In-process use in figures: `python -m bench.embedded`, or `make bench`; beside redis-py with a redis-server.

    a round:  every workload here, then the same thing through redis-py to a redis-server on the loopback
    medians of all rounds, each measurement in a process of its own

Every message has two fields of small integers. `here` is what a program sees by the clock; `of a core` is what it would
see with a core to itself, by the processor time that all its threads took, and is what goals in memory are measured by.
A goal that is missed is marked, not an error: the machine may be busy.
"""

from __future__ import annotations

import gc
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import redis

import headrace
from bench.harness import Row, median, report, spread
from bench.redis_reference import RedisReference, redis_reference, redis_version
from headrace.embedded.database import Database

ROUNDS = 5
THREADS = 16
ALWAYS = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")


@dataclass(frozen=True)
class Workload:
    """One thing to do with messages, here and through redis-py."""

    name: str
    messages: int
    here: Callable[[Database, int], None]
    there: Callable[[redis.Redis, int], None]
    there_messages: int
    durable: bool = False
    rate_goal: float | None = None
    """Messages a second of a core."""
    ratio_goal: float | None = None


# --- here --------------------------------------------------------------------------------------------------------


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


def iterate(db: Database, _messages: int) -> None:
    """Read everything, and one field of each."""
    for message in db.stream("filled"):
        message["temp"]


def consume(db: Database, _messages: int) -> None:
    """Let a consumer handle everything, a message at a time."""
    for _ in db.stream("filled").group("g").consumer("c", timeout=0, prefetch=100):
        pass


def add_by_redis_py(db: Database, messages: int) -> None:
    """Add messages one by one through redis-py, without a server."""
    there_add(db.redis(), messages)


# --- there -------------------------------------------------------------------------------------------------------


def there_add(client: redis.Redis, messages: int) -> None:
    """Add messages one by one."""
    for _ in range(messages):
        client.xadd("devmsg", {"dev": 3, "temp": 26})


def there_add_many(client: redis.Redis, messages: int) -> None:
    """Add messages in pipelines of a thousand."""
    for _ in range(0, messages, 1000):
        with client.pipeline(transaction=False) as pipe:
            for row in ROWS:
                pipe.xadd("devmsg", row)
            pipe.execute()


def there_add_from_threads(client: redis.Redis, messages: int) -> None:
    """Add messages one by one from many threads."""
    _in_threads(lambda: there_add(client, messages // THREADS))


def there_iterate(client: redis.Redis, _messages: int) -> None:
    """Read everything, a thousand messages at a time, and one field of each."""
    start = "-"
    while found := client.xrange("filled", start, count=1000):
        for _, fields in found:
            fields[b"temp"]
        start = f"({found[-1][0].decode()}"


def there_consume(client: redis.Redis, _messages: int) -> None:
    """Let a consumer handle everything: read by hundreds, acknowledge one by one."""
    client.xgroup_create("filled", "g", "0")
    while reply := client.xreadgroup("g", "c", {"filled": ">"}, count=100):
        for entry, _ in reply[0][1]:
            client.xack("filled", "g", entry)
    client.xgroup_destroy("filled", "g")


def _in_threads(work: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


ROWS = [{"dev": number % 100, "temp": 26} for number in range(1000)]
FILLED = 20_000

WORKLOADS = [
    Workload("add", 300_000, add, there_add, 10_000, rate_goal=500_000, ratio_goal=20),
    Workload("add_many", 2_000_000, add_many, there_add_many, 50_000, rate_goal=3_000_000),
    Workload("iterate", FILLED, iterate, there_iterate, FILLED),
    Workload("consume, one by one", FILLED, consume, there_consume, FILLED),
    Workload("redis-py's xadd", 20_000, add_by_redis_py, there_add, 10_000),
    Workload("always: add", 2_000, add, there_add, 2_000, durable=True),
    Workload(f"always: add, {THREADS} threads", 16_000, add_from_threads, there_add_from_threads, 8_000, durable=True),
    Workload("always: add_many", 200_000, add_many, there_add_many, 50_000, durable=True),
]


# --- measuring ---------------------------------------------------------------------------------------------------


def measure_here(number: int) -> Row:
    """Run a workload in this process."""
    workload = WORKLOADS[number]
    with tempfile.TemporaryDirectory() as directory, headrace.open(directory if workload.durable else None) as db:
        db.stream("filled").add_many(ROWS * (FILLED // len(ROWS)))
        gc.collect()
        began, processor = time.perf_counter(), time.process_time()
        workload.here(db, workload.messages)
        took, processor = time.perf_counter() - began, time.process_time() - processor
    return {"rate": workload.messages / took, "of a core": workload.messages / processor}


def measure_there(number: int, port: int) -> Row:
    """Run the same through redis-py."""
    workload = WORKLOADS[number]
    with redis.Redis(port=port, protocol=2) as client:
        client.flushall()
        with client.pipeline(transaction=False) as pipe:
            for row in ROWS * (FILLED // len(ROWS)):
                pipe.xadd("filled", row)
            pipe.execute()
        began = time.perf_counter()
        workload.there(client, workload.there_messages)
        took = time.perf_counter() - began
    return {"rate": workload.there_messages / took}


def row(workload: Workload, here: list[Row], there: list[Row]) -> Row:
    """Say what was found."""
    ours, theirs = [each["rate"] for each in here], [each["rate"] for each in there]
    core = median([each["of a core"] for each in here])
    ratio = median(ours) / median(theirs) if theirs else None
    met = None
    if workload.rate_goal is not None:
        met = core >= workload.rate_goal and (ratio is None or ratio >= (workload.ratio_goal or 0))
    return {
        "workload": workload.name,
        "here/s": median(ours),
        "± %": spread(ours),
        "of a core/s": core,
        "goal/s": workload.rate_goal,
        "redis-py + redis-server/s": median(theirs) if theirs else None,
        "×": ratio,
        "goal ×": workload.ratio_goal,
        "met": met,
    }


def measure_all(servers: dict[bool, RedisReference]) -> None:
    """Measure all rounds, then show them."""
    sides = 2 if servers else 1
    with report("embedded", sides * ROUNDS * len(WORKLOADS)) as run:
        here: dict[str, list[Row]] = {workload.name: [] for workload in WORKLOADS}
        there: dict[str, list[Row]] = {workload.name: [] for workload in WORKLOADS}
        for _ in range(ROUNDS):
            for number, workload in enumerate(WORKLOADS):
                here[workload.name].append(run.measure(f"{workload.name}: here", measure_here, number))
                if servers:
                    port = servers[workload.durable].port
                    there[workload.name].append(
                        run.measure(f"{workload.name}: redis-server", measure_there, number, port)
                    )
        run.table(
            f"In process, and redis-py with redis-server {redis_version() or '(none here)'}: messages a second",
            [row(workload, here[workload.name], there[workload.name]) for workload in WORKLOADS],
            f"medians of {ROUNDS} rounds, and the slowest to the fastest in %; of a core: by processor time",
        )


def main() -> None:
    """Measure everything and say it."""
    if redis_version() is None:
        measure_all({})
        return
    with redis_reference() as in_memory, redis_reference(ALWAYS) as durable:
        measure_all({False: in_memory, True: durable})


if __name__ == "__main__":
    main()
