"""`python -m bench.full_sync`: a follower gets all data of its master, and what others notice meanwhile.

    seconds         from the start of the follower's process until it is up to date
    processor       seconds of master and follower, their children included
    bystander       XADD in a loop at the master: the 99th percentile and the longest wait, without and with the
                    synchronisation; the same with PING at the follower is not asked, since it refuses while it loads

Master and follower are of one kind, keep nothing on disk but the snapshot, and share all cores.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.followers import AT_ONCE, IN_MEMORY, Start, offset_of
from headrace.measuring.load import Load
from headrace.measuring.targets import Target, packed, private_headrace, private_redis, redis_command

VALUE = 1000
STREAMS = 10
PIPELINE = 100
PAUSE_S = 0.001
QUIET_S = 3.0
LIMIT_S = 300.0


class Synchronisation(NamedTuple):
    """One run; latencies in ms."""

    size: int
    seconds: float
    master_processor: float
    follower_processor: float
    quiet: list[float]
    meanwhile: list[float]


def fill(target: Target, size: int) -> None:
    """Add entries that cannot be compressed, to several streams."""
    buffers = [
        b"".join(
            packed(b"XADD", b"stream:%d" % (number % STREAMS), b"*", b"field", os.urandom(VALUE))
            for number in range(PIPELINE)
        )
        for _ in range(20)
    ]
    lines = [target.connect() for _ in range(4)]
    run = Load([line.fileno() for line in lines])
    run.run(buffers, PIPELINE, LIMIT_S, size // (VALUE * PIPELINE))
    for line in lines:
        line.close()
    if run.errors:
        raise RuntimeError(f"{target.name}: {run.first_error}")


class Bystander:
    """A client that adds an entry, waits for the reply and a moment, and notes how long the reply took."""

    def __init__(self, target: Target) -> None:
        self.took: list[float] = []
        self._line = target.connect()
        self._line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        request = packed(b"XADD", b"bystander", b"MAXLEN", b"1000", b"*", b"n", b"1")
        while not self._over.is_set():
            began = time.perf_counter()
            self._line.sendall(request)
            self._line.recv(1024)
            self.took.append((time.perf_counter() - began) * 1000)
            time.sleep(PAUSE_S)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Be there for a time."""
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()
            self._line.close()


def processor_of(pid: int) -> float:
    """Processor seconds of a process, and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def synchronise(start: Start, size: int) -> Synchronisation:
    """Fill a master, and let a follower come."""
    with start((*IN_MEMORY, *AT_ONCE)) as master:
        fill(master, size)
        port = str(master.client.connection_pool.connection_kwargs["port"])
        quiet, busy = Bystander(master), Bystander(master)
        with quiet.watching():
            time.sleep(QUIET_S)
        used = processor_of(master.pid or 0)
        with busy.watching():
            began = time.monotonic()
            with start((*IN_MEMORY, *AT_ONCE, "--replicaof", "127.0.0.1", port)) as follower:
                while not is_up(follower) or offset_of(follower) < offset_of(master) - 10_000:
                    if time.monotonic() - began > LIMIT_S:
                        raise RuntimeError(f"{master.name}: no synchronisation in {LIMIT_S:.0f} seconds")
                    time.sleep(0.02)
                seconds = time.monotonic() - began
                used_there = processor_of(follower.pid or 0)
                used = processor_of(master.pid or 0) - used
        memory = int(master.client.info("memory")["used_memory"])
    return Synchronisation(memory, seconds, used, used_there, sorted(quiet.took), sorted(busy.took))


def is_up(follower: Target) -> bool:
    """Whether the follower has its data; it may refuse to tell while it loads."""
    return bool(follower.client.info("replication")["master_link_status"] == "up")


def main() -> int:
    """Synchronise both kinds of servers and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m bench.full_sync")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    starts: dict[str, Start] = {"Headrace": private_headrace}
    if redis_command() is not None:
        starts["redis-server"] = private_redis
    table = Table(
        *("server", "MB in memory", "seconds", "processor s, master", "follower", "bystander p99 quiet, ms"),
        *("p99 meanwhile, ms", "longest, ms"),
    )
    for _ in range(options.rounds):
        for who, start in starts.items():
            found = synchronise(start, options.megabytes * 1_000_000)
            table.add_row(
                *(who, f"{found.size / 1e6:,.0f}", f"{found.seconds:.1f}"),
                *(f"{found.master_processor:.1f}", f"{found.follower_processor:.1f}"),
                *(f"{percentile(found.quiet):.2f}", f"{percentile(found.meanwhile):.2f}", f"{found.meanwhile[-1]:.1f}"),
            )
    Console(width=140).print(table)
    return 0


def percentile(ordered: list[float]) -> float:
    """The 99th percentile."""
    return ordered[int(len(ordered) * 0.99)]


if __name__ == "__main__":
    sys.exit(main())
