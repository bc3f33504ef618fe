"""`python -m bench.rule_turns`: how long the timed work of the rules keeps a server busy at once.

    10,000 streams with rules of their own and of their groups, an entry pending in each; a million scheduled messages

    nothing due    ticks while all of that is there and none of it is due
    all due        the visibility of every group and the age of every stream end within a second; messages go out
    a pattern      a rule for a pattern that matches all streams is set
    woken          the same server is promoted

Each tick is measured by the processor time of the thread, so that a busy machine does not count. The clock is set.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from statistics import quantiles

from rich.console import Console
from rich.table import Table

from headrace.commands.all import make_engine
from headrace.engine.channel import ClosedChannel
from headrace.engine.configuration.config import Config
from headrace.server import garbage

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000


class SetServer:
    """An engine whose clock is set, with one client, and the time that each of its ticks took."""

    def __init__(self) -> None:
        self.engine = make_engine(Config())
        self.client = self.engine.connect(ClosedChannel())
        self.took_us: list[float] = []
        self.set_clock(START_MS)

    def set_clock(self, now_ms: int) -> None:
        """Let it be this time from now on."""
        self.now_ms = now_ms
        self.engine.clocks.unix_source = self.engine.clocks.steady_source = lambda: now_ms

    def run(self, *words: str | bytes | int) -> bytes:
        """Run a command and return its reply, raw."""
        self.engine.execute(self.client, [w if isinstance(w, bytes) else str(w).encode() for w in words])
        return b"".join(self.client.reply.take())

    def tick_until(self, end_ms: int, step_ms: int) -> None:
        """Tick until it is so late, and note how long each tick takes."""
        while self.now_ms < end_ms:
            self.set_clock(self.now_ms + step_ms)
            self.measure(self.engine.tick)
            if self.now_ms // 100 != (self.now_ms - step_ms) // 100:
                garbage.freeze_survivors()

    def measure(self, work: Callable[[], object]) -> None:
        """Do something, and note how long it took."""
        began = time.thread_time_ns()
        work()
        self.took_us.append((time.thread_time_ns() - began) / 1000)

    def take_times(self) -> list[float]:
        """Return what the ticks took since the last time, in µs."""
        taken, self.took_us = self.took_us, []
        return taken


def fill(server: SetServer, streams: int, scheduled: int) -> None:
    """Make streams with rules, and schedule messages for a tenth of a second each, from a day on."""
    for number in range(streams):
        key = f"s:{number}"
        server.run("HEADRACE", "POLICY", "SET", key, "MAXAGE", "7d", "MAXLEN", 1000, "ACKED", "DROP", "ACKED")
        server.run(
            *("HEADRACE", "POLICY", "SET", key, "GROUP", "g", "VISIBILITY", "30s", "RETRY", "1s", "5m"),
            *("MAXDELIVERIES", 5, "CONSUMERTTL", "1d", "CREATE", "FROM", 0),
        )
        server.run("XADD", key, "*", "n", number)
        server.run("XREADGROUP", "GROUP", "g", "c", "STREAMS", key, ">")
    garbage.freeze_survivors()
    for number in range(scheduled):
        key = f"d:{number % 100}"
        server.run("HEADRACE", "SCHEDULE", key, "AT", START_MS + DAY_MS + number // 10, "due", number, "dev", 3)


def measure(streams: int, scheduled: int) -> Table:
    """Go through the day of a server."""
    garbage.begin()  # as the server does
    server = SetServer()
    fill(server, streams, scheduled)
    table = Table("ticks", "count", "p50, µs", "p99, µs", "longest, µs", "of them garbage collections, µs")
    collections: list[float] = []
    began = [0]

    def watch(phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            began[0] = time.thread_time_ns()
        else:
            collections.append((time.thread_time_ns() - began[0]) / 1000)

    gc.callbacks.append(watch)

    def note(name: str) -> None:
        times = server.take_times()
        cuts = quantiles(times, n=100)
        longest = max(collections, default=0)
        collections.clear()
        table.add_row(
            name, f"{len(times):,}", f"{cuts[49]:,.0f}", f"{cuts[98]:,.0f}", f"{max(times):,.0f}", f"{longest:,.0f}"
        )

    server.tick_until(START_MS + 3000, 3)
    note("after the rules were set")
    server.tick_until(START_MS + 20_000, 3)
    note("nothing due")
    server.tick_until(START_MS + 60_000, 3)
    note("the visibility of all groups ends")
    server.set_clock(START_MS + DAY_MS - 1000)
    server.tick_until(START_MS + DAY_MS + 10_000, 1)
    note("messages go out, all consumers have left")
    server.measure(lambda: server.run("HEADRACE", "POLICY", "SET", "MATCH", "s:*", "GROUP", "h", "VISIBILITY", "30s"))
    server.tick_until(server.now_ms + 10_000, 3)
    note("after a rule for a pattern of all was set")
    server.engine.begin_following()
    server.measure(server.engine.end_following)
    server.tick_until(server.now_ms + 10_000, 3)
    note("after a promotion")
    server.set_clock(START_MS + 8 * DAY_MS)
    server.tick_until(START_MS + 8 * DAY_MS + 10_000, 3)
    note("all entries are too old")
    return table


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.rule_turns")
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--scheduled", type=int, default=1_000_000)
    options = parser.parse_args()
    Console(highlight=False, width=140).print(measure(options.streams, options.scheduled))
    return 0


if __name__ == "__main__":
    sys.exit(main())
