"""`python -m bench.larger_than_memory [part …]`: history on disk beside the same history in memory, in one run.

    memory      what a message of two short fields takes in memory, hot and cold
    appending   with moving and without it, as fast as it goes
    pacing      the same by a producer that sends so many a second: whether it is kept, and what an answer takes
    reading     over 1, 4 and 16 times the memory for data: append, scan, random read, group read
    bystander   how long an XADD waits while others scan history
    spark       the connector's read
    start       from the start of the process after kill -9 to its first reply, and a rewrite, by the size of the data

`hot` is a server with memory for everything, `cold` one that has moved all but the newest entries to segments. Both do
the same work in turns, so that ratios mean something on a busy machine; processor time is that of all threads of the
server. The page cache has the segments, unless it is said otherwise; `dd` reads the same files.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from bench.bystander import bystand
from headrace.measuring.load import Load
from headrace.measuring.targets import (
    HEADRACE,
    REDIS,
    Target,
    await_answer,
    free_port,
    headrace_command,
    packed,
    redis_command,
    running,
)
from headrace.measuring.workloads import FIRST_MS, entry_id

KEY = b"s"
SHORT = (b"dev", b"17", b"temp", b"21.5")
LONG = (b"dev", b"17", b"data", b"x" * 1000)
SETTINGS = (
    *("--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-min-size", "1gb"),
    *("--rdbcompression", "no"),
)
ROUNDS = 3
AT_ONCE = 1000  # entries of one XRANGE
RANDOM_READS = 3000
LIMIT_S = 600.0
TIMES = [1, 4, 16]  # how much larger than memory the data is
SETTLED_S = 0.3
PACES = [25, 50, 100]  # MB a second
PACED_S = 10


class Timed(NamedTuple):
    """What some work took."""

    seconds: float
    processor: float  # of the server

    def rate(self, count: int) -> float:
        """How many a second."""
        return count / self.seconds

    def micros(self, count: int) -> float:
        """Processor time of each."""
        return 1e6 * self.processor / count


# --- servers and work ------------------------------------------------------------------------------------------


@contextmanager
def server(directory: Path, *settings: str, who: str = HEADRACE) -> Iterator[Target]:
    """Start a server on a directory."""
    directory.mkdir(exist_ok=True)
    command = headrace_command() if who == HEADRACE else redis_command()
    assert command is not None  # noqa: S101 — asked for only where there is one
    with running(who, command, (*SETTINGS, *settings), str(directory)) as target:
        yield target


def offload(bytes_of_all: int) -> tuple[str, ...]:
    """Return the settings of a server that moves entries to segments."""
    return ("--maxmemory", str(bytes_of_all), "--maxmemory-policy", "offload")


def idle_bytes() -> int:
    """Return what a server without data takes, which is part of maxmemory."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory, server(Path(directory)) as target:
        return target.resident()


def timed(target: Target, buffers: list[bytes], replies: int = 1, clients: int = 1) -> Timed:
    """Send each buffer once, the next when one is answered."""
    lines = [target.connect() for _ in range(clients)]
    load = Load([line.fileno() for line in lines])
    used = target.processor_seconds()
    load.run(buffers, replies, LIMIT_S, len(buffers))
    used = target.processor_seconds() - used
    for line in lines:
        line.close()
    if load.errors:
        raise RuntimeError(f"{target.name}: {load.first_error}")
    return Timed(load.seconds, used)


def append(target: Target, first: int, last: int, words: tuple[bytes, ...], key: bytes = KEY) -> Timed:
    """Append entries number `first` up to `last`, 100 at a time."""
    head, tail = packed(b"XADD", key, entry_id(0), *words).split(entry_id(0))
    buffers = [
        b"".join([b"%b%d-0%b" % (head, FIRST_MS + number, tail) for number in range(start, start + 100)])
        for start in range(first, last, 100)
    ]
    return timed(target, buffers, 100)


def scan(target: Target, count: int, first: int = 0) -> Timed:
    """Read entries in order, a thousand at a time."""
    ranges = range(first, first + count, AT_ONCE)
    return timed(target, [packed(b"XRANGE", KEY, entry_id(at), b"+", b"COUNT", b"%d" % AT_ONCE) for at in ranges])


def read_at_random(target: Target, last: int) -> Timed:
    """Read single entries anywhere, each time the same."""
    dice = random.Random(last)
    ids = [entry_id(dice.randrange(last)) for _ in range(RANDOM_READS)]
    return timed(target, [packed(b"XRANGE", KEY, each, each, b"COUNT", b"1") for each in ids], clients=10)


def read_by_group(target: Target, count: int) -> Timed:
    """Read from the beginning as a group, without pending entries."""
    target.client.xgroup_create(KEY, "g", "0")
    words = (b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"%d" % AT_ONCE, b"NOACK", b"STREAMS", KEY, b">")
    try:
        return timed(target, [packed(*words)] * (count // AT_ONCE))
    finally:
        target.client.xgroup_destroy(KEY, "g")


def settle(target: Target) -> None:
    """Wait until nothing is moved any more."""
    before = -1
    while (moved := int(target.client.info("persistence")["headrace_offloaded_bytes"])) != before:
        before = moved
        time.sleep(SETTLED_S)


def figures(target: Target) -> dict[str, int]:
    """Return what HEADRACE MEMORY says."""
    answer = target.execute("HEADRACE", "MEMORY", KEY)
    return {name.decode(): int(value) for name, value in zip(answer[::2], answer[1::2], strict=True)}


def in_turns(targets: list[Target], work: Callable[[Target], Timed]) -> list[Timed]:
    """Do the same work at each, several times; the median of each by its time."""
    found: list[list[Timed]] = [[] for _ in targets]
    for _ in range(ROUNDS):
        for target, results in zip(targets, found, strict=True):
            results.append(work(target))
    return [sorted(results)[len(results) // 2] for results in found]


# --- parts -----------------------------------------------------------------------------------------------------


def memory(console: Console, directory: Path, megabytes: int) -> None:
    """Weigh messages of two short fields: in memory, and when nearly all of them are on disk."""
    table = Table("messages of two short fields", "messages", "on disk", "bytes a message in memory", title="Memory")
    messages = 40_000 * megabytes // 2
    with server(directory / "hot") as hot:
        before = hot.resident()
        append(hot, 0, messages, SHORT)
        table.add_row("hot", f"{messages:,}", "0", f"{(hot.resident() - before) / messages:.2f}")
    with server(directory / "cold", *offload(idle_bytes() + (16 << 20))) as cold:
        append(cold, 0, messages, SHORT)
        settle(cold)
        begun, index = cold.resident(), figures(cold)
        append(cold, messages, 5 * messages, SHORT)
        settle(cold)
        growth = cold.resident() - begun
        told = figures(cold)
        share = told["disk-entries"] / (5 * messages)
        table.add_row(
            "cold, growth of the process", f"{5 * messages:,}", f"{share:.1%}", f"{growth / (4 * messages):.2f}"
        )
        history = told["disk-entries"] - index["disk-entries"]
        parts = (told["disk-parts"] - index["disk-parts"]) / history
        table.add_row("cold, parts for each message on disk", "", "", f"{parts:.6f}")
    console.print(table)


def appending(console: Console, directory: Path, megabytes: int) -> None:
    """Append with moving and without it, in turns, when memory is full."""
    table = Table(
        "append", "hot, a second", "µs", "cold, a second", "µs ", "cold : hot", "µs cold : hot", title="Appending"
    )
    settings = offload(idle_bytes() + (megabytes << 18))
    for name, words, size in (("two short fields", SHORT, 20), ("a field of 1,000 bytes", LONG, 1000)):
        step = (megabytes << 18) // size // 100 * 100
        place = directory / str(size)
        place.mkdir()
        with server(place / "hot") as hot, server(place / "cold", *settings) as cold:
            found: list[list[Timed]] = [[], []]
            for turn in range(2 * ROUNDS + 2):
                for target, results in zip((hot, cold), found, strict=True):
                    results.append(append(target, turn * step, (turn + 1) * step, words))
            hots, colds = (sorted(results[2:])[ROUNDS] for results in found)
            cells = [cell for each in (hots, colds) for cell in (f"{each.rate(step):,.0f}", f"{each.micros(step):.2f}")]
            used = [sum(each.processor for each in results[2:]) for results in found]
            table.add_row(name, *cells, f"{hots.seconds / colds.seconds:.2f}", f"{used[1] / used[0]:.2f}")
    console.print(table)


def pacing(console: Console, directory: Path, megabytes: int) -> None:
    """Append so many messages of 1 KB a second, with moving and without it; each is several times memory."""
    table = Table("MB a second", "server", "kept", "µs a message", "p50, ms", "p99, ms", "longest, ms", title="Pacing")
    settings = offload(idle_bytes() + (megabytes << 20))
    for rate in PACES:
        place = directory / str(rate)
        place.mkdir()
        with server(place / "hot") as hot, server(place / "cold", *settings) as cold:
            first = 2 * megabytes * 1000 // 100 * 100
            for target in (hot, cold):
                append(target, 0, first, LONG)
            settle(cold)
            count = rate * PACED_S * 1000
            for name, target in (("hot", hot), ("cold", cold)):
                found, took = append_at_pace(target, first, count, rate * 1000)
                cells = (took[len(took) // 2], took[len(took) * 99 // 100], took[-1])
                kept = found.rate(count) / (rate * 1000)
                used = f"{found.micros(count):.2f}"
                table.add_row(str(rate), name, f"{kept:.2f}", used, *(f"{1000 * each:.2f}" for each in cells))
    console.print(table)


def append_at_pace(target: Target, first: int, count: int, rate: int) -> tuple[Timed, list[float]]:
    """Append entries a hundred at a time, so many a second, and time each answer."""
    head, tail = packed(b"XADD", KEY, entry_id(0), *LONG).split(entry_id(0))
    took: list[float] = []
    used = target.processor_seconds()
    began = time.perf_counter()
    with target.connect() as line:
        for sent in range(0, count, 100):
            time.sleep(max(began + sent / rate - time.perf_counter(), 0))
            start = first + sent
            data = b"".join([b"%b%d-0%b" % (head, FIRST_MS + number, tail) for number in range(start, start + 100)])
            asked = time.perf_counter()
            line.sendall(data)
            lines = 0
            while lines < 200:  # a length and an ID
                reply = line.recv(1 << 16)
                if reply.startswith(b"-") or not reply:
                    raise RuntimeError(f"{target.name}: {reply!r}")
                lines += reply.count(b"\r\n")
            took.append(time.perf_counter() - asked)
    return Timed(time.perf_counter() - began, target.processor_seconds() - used), sorted(took)


def reading(console: Console, directory: Path, megabytes: int) -> None:
    """Compare hot and cold over data of several sizes, and appending with and without moving."""
    table = Table("", "MB", "hot, MB/s", "µs a message", "cold, MB/s", "µs a message ", "cold : hot", title="Reading")
    for times in TIMES:
        size = times * megabytes
        count = size * 1000
        settings = offload(idle_bytes() + (megabytes << 20))
        with server(directory / f"hot{times}") as hot, server(directory / f"cold{times}", *settings) as cold:
            both = [hot, cold]
            step = count // ROUNDS // 100 * 100
            rounds = [[append(each, at, at + step, LONG) for each in both] for at in range(0, ROUNDS * step, step)]
            count = ROUNDS * step
            row(table, "append", size, [sorted(each)[ROUNDS // 2] for each in zip(*rounds, strict=True)], step)
            settle(cold)
            told = figures(cold)
            table.add_row("on disk", "", "", "", f"{told['disk-entries'] / count:.0%}", "", "")
            most = min(count, 200_000)
            found = in_turns(both, partial(scan, count=most))
            row(table, "scan, XRANGE COUNT 1000", size, found, most)
            found = in_turns(both, partial(read_at_random, last=count))
            row(table, "random read, 10 clients", size, found, RANDOM_READS)
            found = in_turns(both, partial(read_by_group, count=most))
            row(table, "group read, COUNT 1000", size, found, most)
    console.print(table)
    rate = rate_of_dd(directory / f"cold{TIMES[-1]}" / "segments")
    console.print(f"dd reads the segments at {rate:,.0f} MB/s from the page cache")


def row(table: Table, name: str, size: int, found: list[Timed], count: int) -> None:
    """Add a line of both: rates in MB/s of messages of 1 KB."""
    hot, cold = found
    cells = [cell for each in found for cell in (f"{each.rate(count) / 1000:,.1f}", f"{each.micros(count):.2f}")]
    table.add_row(name, f"{size:,}", *cells, f"{hot.seconds / cold.seconds:.2f}")


def rate_of_dd(directory: Path) -> float:
    """Read files with dd, the second time, in MB/s."""
    files = sorted(directory.glob("*.seg"))
    size = sum(file.stat().st_size for file in files)
    for _ in range(2):
        began = time.perf_counter()
        for file in files:
            subprocess.run(["dd", f"if={file}", "of=/dev/null", "bs=128k", "status=none"], check=True)
        took = time.perf_counter() - began
    return size / 1e6 / took


def bystander(console: Console, directory: Path, megabytes: int) -> None:
    """Measure what an XADD waits while four clients scan."""
    table = Table("others", "p50, ms", "p99, ms", "longest, ms", "they read, MB/s", title="A bystander's XADD")
    count = 16 * megabytes * 1000
    settings = offload(idle_bytes() + (megabytes << 20))
    p99 = {}
    with server(directory / "by-hot") as hot, server(directory / "by-cold", *settings) as cold:
        for target in (hot, cold):
            append(target, 0, count, LONG)
        settle(cold)
        for name, target, scans in (
            ("do nothing", hot, False),
            ("scan memory", hot, True),
            ("scan history", cold, True),
        ):
            port = int(target.client.connection_pool.connection_kwargs["port"])
            over = threading.Event()
            read = [0] * 4
            readers = [
                threading.Thread(target=scan_again, args=(target, count, over, read, number)) for number in range(4)
            ]
            began = time.perf_counter()
            if scans:
                for reader in readers:
                    reader.start()
            took = bystand(port, None)
            over.set()
            seconds = time.perf_counter() - began
            for reader in readers if scans else ():
                reader.join()
            p99[name] = took[len(took) * 99 // 100]
            cells = (took[len(took) // 2], p99[name], took[-1])
            table.add_row(name, *(f"{1000 * each:.2f}" for each in cells), f"{sum(read) / 1000 / seconds:,.0f}")
    table.add_row("history : memory", "", f"{p99['scan history'] / p99['scan memory']:.2f}", "", "")
    console.print(table)


def scan_again(target: Target, count: int, over: threading.Event, read: list[int], number: int) -> None:
    """Scan from places of one's own until it is over."""
    at = number * count // 4
    while not over.is_set():
        scan(target, 20 * AT_ONCE, at)
        read[number] += 20 * AT_ONCE
        at = (at + 20 * AT_ONCE) % (count - 20 * AT_ONCE)


def spark(console: Console, directory: Path, megabytes: int) -> None:
    """Read with the connector, hot and cold in turns."""
    from bench.spark import start_spark, to_nowhere  # noqa: PLC0415 — needs PySpark

    table = Table("", "messages", "hot, a second", "cold, a second", "cold : hot", title="Spark")
    count = 20_000 * megabytes
    session = start_spark(directory)
    settings = offload(idle_bytes() + (megabytes << 18))
    with server(directory / "spark-hot") as hot, server(directory / "spark-cold", *settings) as cold:
        for target in (hot, cold):
            append(target, 0, count, SHORT)
        settle(cold)
        took: dict[str, list[float]] = {"hot": [], "cold": []}
        for turn in range(ROUNDS + 1):
            for name, target in (("hot", hot), ("cold", cold)):
                port = target.client.connection_pool.connection_kwargs["port"]
                options = {"url": f"redis://127.0.0.1:{port}", "keys": KEY.decode(), "minPartitions": "2"}
                frame = session.read.format("headrace").options(**options).schema("_ms long, dev string, temp string")
                began = time.perf_counter()
                to_nowhere(frame.load())
                if turn:
                    took[name].append(time.perf_counter() - began)
        rates = [count / median(took[name]) for name in ("hot", "cold")]
        share = figures(cold)["disk-entries"] / count
        table.add_row(
            f"{share:.0%} on disk", f"{count:,}", *(f"{each:,.0f}" for each in rates), f"{rates[1] / rates[0]:.2f}"
        )
    session.stop()
    console.print(table)


def start(console: Console, directory: Path, megabytes: int) -> None:
    """Time a start after kill -9, and a rewrite, by the size of the data."""
    table = Table("MB", "server", "start, s", "rewrite, s", "files, MB", "memory, MB", title="Start and rewrite")
    memory_of_all = idle_bytes() + (megabytes << 20)
    for times in TIMES:
        for who in (HEADRACE, REDIS):
            if who == REDIS and (redis_command() is None or times * megabytes > 2000):
                continue
            start_row(table, directory, who, times * megabytes, memory_of_all)
    console.print(table)


def start_row(table: Table, directory: Path, who: str, size: int, memory_of_all: int) -> None:
    """Fill a server, rewrite, kill it in the middle of appends, and start it again."""
    place = directory / f"start-{who}-{size}"
    settings = offload(memory_of_all) if who == HEADRACE else ()
    with server(place, *settings, who=who) as target:
        for at in range(0, size * 1000, 200_000):
            append(target, at, min(at + 200_000, size * 1000), LONG)
        rewrite(target)
        rewritten = rewrite(target)
        append(target, size * 1000, size * 1000 + 10_000, LONG)
        memory_used = target.resident()
        assert target.pid is not None  # noqa: S101
        os.kill(target.pid, signal.SIGKILL)
    started = start_again(who, place, settings)
    files = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    table.add_row(
        *(f"{size:,}", who, f"{started:.2f}", f"{rewritten:.2f}", f"{files / 1e6:,.0f}", f"{memory_used / 1e6:,.0f}")
    )
    subprocess.run(["rm", "-rf", str(place)], check=True)


def rewrite(target: Target) -> float:
    """Time a rewrite of the append-only files."""
    while target.client.info("persistence")["aof_rewrite_in_progress"]:
        time.sleep(0.01)
    began = time.perf_counter()
    target.client.bgrewriteaof()
    time.sleep(0.005)
    while target.client.info("persistence")["aof_rewrite_in_progress"]:
        time.sleep(0.005)
    return time.perf_counter() - began


def start_again(who: str, place: Path, settings: tuple[str, ...]) -> float:
    """Time a start to the first reply."""
    command = headrace_command() if who == HEADRACE else redis_command()
    assert command is not None  # noqa: S101
    port = free_port()
    began = time.perf_counter()
    process = subprocess.Popen(
        [*command, "--port", str(port), "--dir", str(place), *SETTINGS, *settings], stdout=subprocess.DEVNULL
    )
    target = Target(who, {"host": "127.0.0.1", "port": port}, process.pid)
    try:
        await_answer(process, target)
        return time.perf_counter() - began
    finally:
        target.client.close()
        process.kill()
        process.wait(60)


PARTS = {part.__name__: part for part in (memory, appending, pacing, reading, bystander, spark, start)}


def main() -> int:
    """Measure what is asked for, and print it."""
    parser = argparse.ArgumentParser(prog="python -m bench.larger_than_memory")
    parser.add_argument("parts", nargs="*", help=f"some of {' '.join(PARTS)}; all by default")
    parser.add_argument("--megabytes", type=int, default=64, help="memory for data")
    parser.add_argument("--times", type=int, nargs="+", default=TIMES, help="how much larger than that the data is")
    options = parser.parse_args()
    TIMES[:] = options.times
    console = Console(width=140, highlight=False)
    for name in options.parts or PARTS:
        with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
            PARTS[name](console, Path(directory), options.megabytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
