"""Durability in figures: `python -m bench.durable`, or `make bench`; Headrace beside this machine's redis-server.

    writing     XADD under `always` and `everysec`, as `bench.server` measures it without persistence
    loading     a million messages from a snapshot (DEBUG RELOAD NOSAVE) and from append-only files (DEBUG LOADAOF)
    saving      the same million (SAVE); and the slowest of many small requests while a snapshot of two million is
                written in the background and somebody else writes on, with the memory that the server had at most

The disk is the one that holds the temporary directory; both servers write to the same one, one at a time.
"""

from __future__ import annotations

import shutil
import socket
import threading
import time

from bench.harness import Report, Row, report
from bench.redis_reference import RedisReference, packed, redis_reference, redis_version
from bench.server import WORKLOADS, XADD, benchmarked, compared, drive, headrace

ROUNDS = 5
MESSAGES = 1_000_000
WRITE_GOALS = {"always": 1.5, "everysec": 1.0}
SETTINGS = ("--save", "", "--appendonly", "yes", "--enable-debug-command", "yes", "--auto-aof-rewrite-percentage", "0")


# --- writing ---------------------------------------------------------------------------------------------------


def write(run: Report, servers: dict[str, RedisReference], policy: str) -> list[tuple[Row, Row]]:
    """Measure XADD at pipeline 1 and 16 under a policy."""
    pairs = []
    for workload in WORKLOADS[:2]:
        found: dict[str, list[Row]] = {who: [] for who in servers}
        for turn in range(ROUNDS):
            for who, server in list(servers.items())[:: -1 if turn % 2 else 1]:
                server.client.config_set("appendfsync", policy)
                server.client.delete("mystream")
                way = benchmarked if workload.redis_benchmark else drive
                row = run.measure(f"{policy}, {workload.name}: {who}", way, workload, server.port, server.pid)
                found[who].append(row)
        pairs.append(
            compared(
                f"{policy}: {workload.name}",
                WRITE_GOALS[policy],
                *found.values(),
                figure="rate",
                unit="requests/s",
                limited=True,
            )
        )
    return pairs


# --- loading and saving ----------------------------------------------------------------------------------------


def fill(server: RedisReference, messages: int) -> None:
    """Write messages into append-only files that have nothing else."""
    server.client.flushall()
    server.client.config_set("appendfsync", "no")
    server.client.bgrewriteaof()
    while server.client.info("persistence")["aof_rewrite_in_progress"]:
        time.sleep(0.05)
    server.feed(packed(b"XADD", b"filled", b"%d-0" % (10**12 + each), *XADD[3:]) for each in range(messages))


def timed(server: RedisReference, *words: str) -> Row:
    """Time one command, in milliseconds, with what the server itself spent on it in place of a request."""
    started = time.perf_counter()
    server.client.execute_command(*words)
    took = 1000 * (time.perf_counter() - started)
    return {"took": took, "processor": 1000 * took}


def load_and_save(run: Report, servers: dict[str, RedisReference]) -> list[tuple[Row, Row]]:
    """Measure how long a million messages take from and to the disk."""
    for server in servers.values():
        fill(server, MESSAGES)
    pairs = []
    for name, words in (
        ("load append-only files", ("DEBUG", "LOADAOF")),
        ("save a snapshot", ("SAVE",)),
        ("load a snapshot", ("DEBUG", "RELOAD", "NOSAVE")),
    ):
        found: dict[str, list[Row]] = {who: [] for who in servers}
        for turn in range(ROUNDS):
            for who, server in list(servers.items())[:: -1 if turn % 2 else 1]:
                run.progress.update(run.task, description=f"{name}: {who}")
                found[who].append(timed(server, *words))
                run.progress.advance(run.task)
        if any(server.client.xlen("filled") != MESSAGES for server in servers.values()):
            raise RuntimeError(f"{name}: a server lost messages")
        pairs.append(
            compared(f"{name}, {MESSAGES:,} messages", 1.0, *found.values(), figure="took", unit="ms", limited=False)
        )
    return pairs


# --- a snapshot under load -------------------------------------------------------------------------------------


def snapshot_under_load(server: RedisReference) -> Row:
    """Let one client write and another ask for little, while a snapshot is written in the background."""
    fill(server, 2 * MESSAGES)
    before = server.resident()
    ended = threading.Event()
    writer = threading.Thread(target=_write_on, args=(server.port, ended))
    writer.start()
    slowest = peak = 0.0
    requests = 0
    server.client.bgsave()
    try:
        while server.client.info("persistence")["rdb_bgsave_in_progress"] or requests < 100:
            for _ in range(20):
                started = time.perf_counter()
                server.client.xlen("filled")
                slowest = max(slowest, time.perf_counter() - started)
                requests += 1
                time.sleep(0.001)
            peak = max(peak, server.resident())
    finally:
        ended.set()
        writer.join()
    return {
        "requests": requests,
        "slowest ms": 1000 * slowest,
        "memory before MB": before / 1e6,
        "memory at most MB": peak / 1e6,
        "child copied MB": server.client.info("persistence")["rdb_last_cow_size"] / 1e6,
    }


def _write_on(port: int, ended: threading.Event) -> None:
    buffer = packed(*XADD) * 16
    with socket.create_connection(("127.0.0.1", port)) as line:
        while not ended.is_set():
            line.sendall(buffer)
            answered = 0
            while answered < 16:
                answered += line.recv(1 << 16).count(b"$")


# --- telling ---------------------------------------------------------------------------------------------------


def show(run: Report, title: str, pairs: list[tuple[Row, Row]]) -> None:
    """Show ratios first, and then the figures behind them."""
    kept = ("workload", "faster", "goal", "met", "best rounds", "limit of Headrace", "limit of redis")
    run.table(title, [{name: ratios[name] for name in kept} for ratios, _ in pairs], "faster: of the medians")
    kept = ("workload", "unit", "Headrace", "± %", "redis", "±  %")
    run.table(f"Medians of {ROUNDS} rounds", [{name: figures[name] for name in kept} for _, figures in pairs], "")


def main() -> None:
    """Measure everything and say it."""
    if shutil.which("redis-server") is None or shutil.which("redis-benchmark") is None:
        print("There is no redis-server here to compare with; apt-get install redis-server brings one.")
        return
    steps = 2 * ROUNDS * (2 * len(WRITE_GOALS) + 3) + 2
    with report("durable", steps) as run, headrace(SETTINGS) as ours, redis_reference(SETTINGS) as theirs:
        servers = {"Headrace": ours, "redis-server": theirs}
        version = redis_version()
        pairs = [pair for policy in WRITE_GOALS for pair in write(run, servers, policy)]
        show(run, f"Writing, Headrace : redis-server {version}, 50 clients; above 1 is better", pairs)
        pairs = load_and_save(run, servers)
        show(run, f"Loading and saving, Headrace : redis-server {version}; above 1 is better", pairs)
        rows = []
        for who, server in servers.items():
            run.progress.update(run.task, description=f"a snapshot under load: {who}")
            rows.append({"server": who} | snapshot_under_load(server))
            run.progress.advance(run.task)
        run.table(f"A snapshot of {2 * MESSAGES:,} messages under load", rows, "slowest: of small requests meanwhile")


if __name__ == "__main__":
    main()
