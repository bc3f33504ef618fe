"""`python -m bench.followers`: what a follower costs its master, and what confirmed writes cost.

    alone           XADD at full speed, without a follower
    followed        the same with one follower, on the same cores; `kept` is the ratio of both
    lag             how far the follower is behind meanwhile, in ms of the master's writing: the 99th percentile; the
                    master is asked after the follower, so that its answer is counted, too
    confirmed       a client goes on when a replica has its write: here on both disks (min-replicas-to-confirm 1), there
                    on both disks, too (appendfsync always), or in both memories (XADD, and WAIT 1 when that is
                    answered; or both in one message). The clients are those of the other figures, or threads of a
                    Python program with a connection of redis-py each

Each figure is the middle of some rounds, in which the servers take turns.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from statistics import median, quantiles
from typing import NamedTuple

import redis
from rich.console import Console
from rich.table import Table

from headrace.measuring.load import Load
from headrace.measuring.targets import Target, packed, private_headrace, private_redis, redis_command

CLIENTS = 50
EVERYSEC = ("--save", "", "--appendonly", "yes", "--appendfsync", "everysec")
IN_MEMORY = ("--save", "", "--appendonly", "no")
ALWAYS = (*EVERYSEC, "--appendfsync", "always")
AT_ONCE = ("--repl-diskless-sync-delay", "0")
SAMPLE_S = 0.01
WRITE = (b"XADD", b"bench", b"MAXLEN", b"~", b"100000", b"*", b"field", b"v" * 40)
WAIT = (b"WAIT", b"1", b"0")

Start = Callable[[tuple[str, ...]], AbstractContextManager[Target]]


class Way(NamedTuple):
    """How a client learns that a replica has its write: which server it is, and what is sent when."""

    server: str
    on_disks: bool
    waits: str  # "": the reply of XADD tells it; "then": WAIT 1 when that has come; "at once": both in one message

    @property
    def name(self) -> str:
        """What the output calls it."""
        where = "on both disks" if self.on_disks else "in memory"
        asked = {"": "min-replicas-to-confirm 1", "then": "XADD, then WAIT 1", "at once": "XADD and WAIT 1 at once"}
        return f"{self.server}, {asked[self.waits]}, {where}"


HERE = Way("Headrace", on_disks=True, waits="")
THERE = [Way("redis-server", on_disks=disks, waits=waits) for disks in (True, False) for waits in ("then", "at once")]


class Round(NamedTuple):
    """One run: commands a second, processor microseconds of the master for each, and the lag of its follower."""

    rate: float
    processor_us: float
    lag_ms: float


def load(
    target: Target, requests: list[bytes], replies: int, seconds: float, clients: int = CLIENTS
) -> tuple[float, float]:
    """Send requests from many connections again and again; returns the rate and the processor time for each."""
    lines = [target.connect() for _ in range(clients)]
    try:
        run = Load([line.fileno() for line in lines])
        before = target.processor_seconds()
        run.run(requests, replies, seconds, 1 << 62, each_line=True)
        used = target.processor_seconds() - before
        if run.errors:
            raise RuntimeError(f"{target.name}: {run.first_error}")
        return run.requests / run.seconds, used / run.requests * 1e6
    finally:
        for line in lines:
            line.close()


@contextmanager
def followed(start: Start, settings: tuple[str, ...], master: Target) -> Iterator[Target]:
    """A follower of the same kind, which is up to date."""
    port = master.client.connection_pool.connection_kwargs["port"]
    with start((*settings, *AT_ONCE, "--replicaof", "127.0.0.1", str(port))) as follower:
        while follower.client.info("replication")["master_link_status"] != "up":
            time.sleep(0.01)
        yield follower


def offset_of(target: Target) -> int:
    """How far a server's history has come."""
    return int(target.client.info("replication")["master_repl_offset"])


def lag_during(master: Target, follower: Target, work: Callable[[], tuple[float, float]]) -> Round:
    """Do some work, and see how far the follower is behind meanwhile."""
    behind: list[int] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(SAMPLE_S):
            has = offset_of(follower)
            behind.append(max(offset_of(master) - has, 0))

    began, offset = time.monotonic(), offset_of(master)
    watch = threading.Thread(target=look)
    watch.start()
    try:
        rate, processor = work()
    finally:
        over.set()
        watch.join()
    bytes_a_ms = (offset_of(master) - offset) / (time.monotonic() - began) / 1000
    return Round(rate, processor, quantiles(behind, n=100)[98] / bytes_a_ms if len(behind) > 1 else 0.0)


def measure(start: Start, settings: tuple[str, ...], pipeline: int, seconds: float) -> list[Round]:
    """Measure a master alone, and then with a follower."""
    request = packed(*WRITE) * pipeline
    with ExitStack() as stack:
        master = stack.enter_context(start((*settings, *AT_ONCE)))
        alone = Round(*load(master, [request], pipeline, seconds), 0.0)
        follower = stack.enter_context(followed(start, settings, master))
        return [alone, lag_during(master, follower, lambda: load(master, [request], pipeline, seconds))]


@contextmanager
def confirming(start: Start, way: Way) -> Iterator[Target]:
    """A master whose replica has all of its journal."""
    with ExitStack() as stack:
        settings = ALWAYS if way.on_disks else IN_MEMORY
        asked = () if way.waits else ("--min-replicas-to-confirm", "1")
        master = stack.enter_context(start((*settings, *asked, *AT_ONCE)))
        stack.enter_context(followed(start, settings, master))
        time.sleep(1.5)
        yield master


def measure_confirmed(start: Start, way: Way, clients: int, seconds: float) -> float:
    """Return how many writes a second clients know to be at a replica."""
    write, wait = packed(*WRITE), packed(*WAIT)
    with confirming(start, way) as master:
        if not way.waits:
            return load(master, [write], 1, seconds, clients)[0]
        requests = [write + wait] if way.waits == "at once" else [write, wait]
        return load(master, requests, 2 if way.waits == "at once" else 1, seconds, clients)[0] / 2


def measure_by_redis_py(start: Start, way: Way, clients: int, seconds: float) -> float:
    """Return the same for threads of a Python program, each with a connection of redis-py."""
    with confirming(start, way) as master:
        port = master.client.connection_pool.connection_kwargs["port"]
        counts = [0] * clients
        until = time.monotonic() + seconds

        def write(number: int) -> None:
            with redis.Redis(port=port) as client:
                while time.monotonic() < until:
                    client.execute_command(*WRITE)
                    if way.waits:
                        client.execute_command(*WAIT)
                    counts[number] += 1

        threads = [threading.Thread(target=write, args=(number,)) for number in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(counts) / seconds


def print_confirmed(
    starts: dict[str, Start], ways: list[Way], by: str, measure: Callable[[Start, Way], float], rounds: int
) -> None:
    """Measure each way in turn, and print the middles."""
    ways = [way for way in ways if way.server in starts]
    rates: dict[Way, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            rates[way].append(measure(starts[way.server], way))
    for way in ways:
        Console(width=120).print(f"{by}, {way.name}: {median(rates[way]):,.0f} writes a second")


def main() -> int:
    """Measure both servers in turn and print the middles."""
    parser = argparse.ArgumentParser(prog="python -m bench.followers")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run")
    parser.add_argument("--confirmed", action="store_true", help="measure only confirmed writes")
    options = parser.parse_args()
    starts: dict[str, Start] = {"Headrace": private_headrace}
    if redis_command() is not None:
        starts["redis-server"] = private_redis
    table = Table(
        "journal", "pipeline", "server", "alone, /s", "followed, /s", "kept", "µs alone", "µs followed", "lag p99, ms"
    )
    for name, settings in () if options.confirmed else (("none", IN_MEMORY), ("everysec", EVERYSEC)):
        for pipeline in (1, 16):
            rounds: dict[str, list[list[Round]]] = {who: [] for who in starts}
            for _ in range(options.rounds):
                for who, start in starts.items():
                    rounds[who].append(measure(start, settings, pipeline, options.seconds))
            for who, found in rounds.items():
                alone, with_follower = ([pair[index] for pair in found] for index in (0, 1))
                first, second = (median(each.rate for each in each_round) for each_round in (alone, with_follower))
                table.add_row(
                    *(name, str(pipeline), who, f"{first:,.0f}", f"{second:,.0f}", f"{second / first:.2f}"),
                    *(
                        f"{median(each.processor_us for each in alone):.2f}",
                        f"{median(each.processor_us for each in with_follower):.2f}",
                        f"{median(each.lag_ms for each in with_follower):.1f}",
                    ),
                )
    if table.row_count:
        Console(width=120).print(table)
    for clients in (1, CLIENTS):
        for by, measured_by, ways in (
            ("clients", measure_confirmed, [HERE, *THERE]),
            ("threads with redis-py", measure_by_redis_py, [HERE, *(way for way in THERE if way.waits == "then")]),
        ):
            measured = partial(measured_by, clients=clients, seconds=options.seconds)
            print_confirmed(starts, ways, f"{clients} {by}", measured, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
