"""The server in figures: `python -m bench.server`, or `make bench`; Headrace beside this machine's redis-server.

    both servers run, private and without persistence; one is idle while the other is measured
    a round:  Headrace, redis-server    the next:  redis-server, Headrace    …    medians of all rounds

Each workload has two figures: requests a second as clients see them, and the microseconds of processor that the server
itself spent on one. On a small machine the load generator is often what limits the first; the row says so then, and
the second is the one to look at. At pipeline 1 redis-benchmark is the generator, and its p99 the latency. Elsewhere it
is `drive`, the same for both servers: it sends one prepared buffer and only counts what comes back, which costs 0.5 µs
an XADD at pipeline 16 where redis-benchmark costs 0.7, and does not parse 100 entries a reply.

A goal that is missed is marked, not an error: the machine may be busy.
"""

from __future__ import annotations

import csv
import os
import resource
import select
import shutil
import socket
import statistics
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import redis

from bench.harness import Report, Row, median, report, spread
from bench.redis_reference import IN_MEMORY, RedisReference, packed, redis_reference, redis_version, running

ROUNDS = 6
CLIENTS = 50
WAITING = 100
WAKES = 50
FILLED = 1_000_000
AT_ONCE = 100
BUSY = 0.85
"""The share of a core from which on a process counts as the limit."""

XADD = (b"XADD", b"mystream", b"*", b"myfield", b"data")


@dataclass(frozen=True)
class Workload:
    """One command, sent by 50 clients."""

    name: str
    goal: float
    command: tuple[bytes, ...]
    requests: int
    pipeline: int = 1
    mark: bytes = b""
    """A byte that every reply has once; without one, replies all have the length of the first."""
    redis_benchmark: bool = False


WORKLOADS = [
    Workload("XADD, pipeline 1", 1.0, XADD, 60_000, redis_benchmark=True),
    Workload("XADD, pipeline 16", 1.5, XADD, 640_000, 16, b"$"),
    Workload("XADD, pipeline 64", 2.0, XADD, 960_000, 64, b"$"),
    Workload("XRANGE COUNT 100", 1.5, (b"XRANGE", b"filled", b"-", b"+", b"COUNT", b"100"), 20_000),
    Workload(
        "XREADGROUP COUNT 100",
        1.5,
        (b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"100", b"STREAMS", b"filled", b">"),
        # `drive` first sends one request to learn the length of a reply; none may find the stream read to its end.
        FILLED // AT_ONCE - CLIENTS,
    ),
    Workload("XLEN, pipeline 16", 1.0, (b"XLEN", b"filled"), 640_000, 16, b":"),
]
LATENCY = "p99 of XADD, pipeline 1"
WAKE = f"wake {WAITING} XREAD"


# --- measuring, each in a process of its own -------------------------------------------------------------------


def processor_seconds(pid: int) -> float:
    """Read what all threads of a process have run, user and system: what its stat says in ticks, in nanoseconds."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text("ascii").split()[0]) for thread in threads) / 1e9


def machine_seconds() -> float:
    """Read what all cores have run since boot, for whomever."""
    user, nice, system, _idle, _wait, irq, softirq, *_ = Path("/proc/stat").read_text("ascii").split()[1:]
    return sum(map(int, (user, nice, system, irq, softirq))) / os.sysconf("SC_CLK_TCK")


def connected(port: int) -> socket.socket:
    """Open a connection that does not wait for more to send."""
    line = socket.create_connection(("127.0.0.1", port))
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return line


def benchmarked(workload: Workload, port: int, pid: int) -> Row:
    """Let redis-benchmark send the workload."""
    everything, loaded = machine_seconds(), resource.getrusage(resource.RUSAGE_CHILDREN)
    served = processor_seconds(pid)
    answer = subprocess.run(
        [
            *("redis-benchmark", "-p", str(port), "-c", str(CLIENTS), "-n", str(workload.requests), "--csv"),
            *("-P", str(workload.pipeline), *workload.command),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    served, after = processor_seconds(pid) - served, resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = list(csv.DictReader(answer.stdout.splitlines()))[-1]
    took = workload.requests / float(figures["rps"])
    load = after.ru_utime + after.ru_stime - loaded.ru_utime - loaded.ru_stime
    return measured(workload, took, served, load, everything) | {"p99": 1000 * float(figures["p99_latency_ms"])}


def drive(workload: Workload, port: int, pid: int) -> Row:
    """Send the workload in prepared buffers, each client the next when the last is answered; count the replies."""
    with connected(port) as first:
        first.sendall(packed(*workload.command))
        time.sleep(0.05)
        reply = first.recv(1 << 20)
    if reply.startswith(b"-"):
        raise RuntimeError(f"{workload.name}: {reply.decode().strip()}")
    mark, buffer = workload.mark, packed(*workload.command) * workload.pipeline
    whole = workload.pipeline * (reply.count(mark) if mark else len(reply))
    buffers = workload.requests // workload.pipeline
    lines = [connected(port) for _ in range(CLIENTS)]
    poll = select.epoll()
    for line in lines:
        poll.register(line, select.EPOLLIN)
    receive, send = ({line.fileno(): getattr(line, what) for line in lines} for what in ("recv", "sendall"))
    missing = dict.fromkeys(receive, whole)
    everything, served = machine_seconds(), processor_seconds(pid)
    load, started = time.process_time(), time.perf_counter()
    for each in send.values():
        each(buffer)
    sent, answered = CLIENTS, 0
    while answered < buffers:
        for line, _ in poll.poll():
            data = receive[line](1 << 16)
            if not data:
                raise RuntimeError(f"{workload.name}: the server closed a connection")
            left = missing[line] - (data.count(mark) if mark else len(data))
            if left > 0:
                missing[line] = left
                continue
            missing[line] = whole
            answered += 1
            if sent < buffers:
                send[line](buffer)
                sent += 1
    took = time.perf_counter() - started
    load, served = time.process_time() - load, processor_seconds(pid) - served
    for line in lines:
        line.close()
    return measured(workload, took, served, load, everything)


def measured(workload: Workload, took: float, served: float, load: float, everything: float) -> Row:
    """Say a run, before which the machine had run for `everything` seconds, in the units of the report."""
    return {
        "rate": workload.requests / took,
        "processor": 1e6 * served / workload.requests,
        "server busy": served / took,
        "load busy": load / took,
        "others busy": max(0.0, machine_seconds() - everything - served - load) / took,
    }


def wake(port: int, pid: int) -> Row:
    """Time, in microseconds, from an XADD until every client that was blocked for it has read its reply."""
    control = redis.Redis(port=port)
    request, entry = packed(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"woken", b"$"), packed(b"XADD", b"woken", *XADD[2:])
    writer, lines = connected(port), {line.fileno(): line for line in (connected(port) for _ in range(WAITING))}
    poll = select.epoll()
    for line in lines:
        poll.register(line, select.EPOLLIN)
    times, served = [], 0.0
    for _ in range(WAKES):
        for line in lines.values():
            line.sendall(request)
        while control.info("clients")["blocked_clients"] < WAITING:
            time.sleep(0.001)
        before, started = processor_seconds(pid), time.perf_counter()
        writer.sendall(entry)
        waiting = dict.fromkeys(lines, b"")
        while waiting:
            for line, _ in poll.poll():
                waiting[line] += lines[line].recv(4096)
                if waiting[line].endswith(b"$4\r\ndata\r\n"):
                    del waiting[line]
        times.append(1e6 * (time.perf_counter() - started))
        writer.recv(64)
        served += processor_seconds(pid) - before
    for line in [writer, *lines.values()]:
        line.close()
    control.close()
    return {"p50": median(times), "p99": statistics.quantiles(times, n=100)[98], "processor": 1e6 * served / WAKES}


# --- the servers -----------------------------------------------------------------------------------------------


def headrace(settings: tuple[str, ...] = IN_MEMORY) -> AbstractContextManager[RedisReference]:
    """Start our server as redis_reference starts the other."""
    return running(str(Path(sys.executable).with_name("headrace")), "serve", settings=settings)


def fill(server: RedisReference) -> None:
    """Make the stream that is read; its IDs have one length, so that replies have."""
    server.feed(packed(b"XADD", b"filled", b"%d-0" % (10**12 + each), *XADD[3:]) for each in range(FILLED))
    if server.client.xlen("filled") != FILLED:
        raise RuntimeError("a server did not take all entries")


def renew(server: RedisReference) -> None:
    """Bring a server to where every round starts: nothing written, nothing delivered."""
    server.client.delete("mystream", "woken")
    server.client.xgroup_destroy("filled", "g")
    server.client.xgroup_create("filled", "g", "0")


# --- telling ---------------------------------------------------------------------------------------------------


def limit(rounds: list[Row]) -> str:
    """Tell what kept a server from answering more, by who used the cores of the machine."""
    server, load, others = (median([each[f"{who} busy"] for each in rounds]) for who in ("server", "load", "others"))
    if server >= BUSY:
        who = "server"
    elif load >= BUSY:
        who = "GENERATOR"
    else:
        who = "OTHER WORK" if others >= 1 - BUSY else "round trips"
    return f"{who} ({100 * server:.0f}/{100 * load:.0f}/{100 * others:.0f})"


def compared(
    name: str, goal: float, ours: list[Row], theirs: list[Row], *, figure: str, unit: str, limited: bool
) -> tuple[Row, Row]:
    """Make a row of ratios, above 1 where Headrace is better, and one of the figures behind them."""
    our, their = ([each[figure] for each in rounds] for rounds in (ours, theirs))
    our_cost, their_cost = ([each["processor"] for each in rounds] for rounds in (ours, theirs))
    if figure == "rate":
        ratio, best = median(our) / median(their), max(our) / max(their)
    else:
        ratio, best = median(their) / median(our), min(their) / min(our)
    ratios = {
        "workload": name,
        "faster": ratio,
        "goal": goal,
        "met": ratio >= goal,
        "best rounds": best,
        "less CPU": median(their_cost) / median(our_cost),
        "limit of Headrace": limit(ours) if limited else None,
        "limit of redis": limit(theirs) if limited else None,
    }
    figures = {
        "workload": name,
        "unit": unit,
        "Headrace": median(our),
        "± %": spread(our),
        "redis": median(their),
        "±  %": spread(their),
        "Headrace CPU µs": median(our_cost),
        "±   %": spread(our_cost),
        "redis CPU µs": median(their_cost),
        "±    %": spread(their_cost),
    }
    return ratios, figures


def compare(run: Report, servers: dict[str, RedisReference], version: str) -> None:
    """Measure all rounds of all workloads, then show them."""
    found: dict[str, dict[str, list[Row]]] = {
        name: {who: [] for who in servers} for name in [*(workload.name for workload in WORKLOADS), WAKE]
    }
    for turn in range(ROUNDS):
        order = list(servers.items())[:: -1 if turn % 2 else 1]
        for workload in WORKLOADS:
            for who, server in order:
                renew(server)
                way = benchmarked if workload.redis_benchmark else drive
                row = run.measure(f"{workload.name}: {who}", way, workload, server.port, server.pid)
                found[workload.name][who].append(row)
        for who, server in order:
            renew(server)
            found[WAKE][who].append(run.measure(f"{WAKE}: {who}", wake, server.port, server.pid))
    pairs = [
        compared(
            workload.name, workload.goal, *found[workload.name].values(), figure="rate", unit="requests/s", limited=True
        )
        for workload in WORKLOADS
    ]
    latencies = [
        (LATENCY, WORKLOADS[0].name, "p99"),
        (f"{WAKE}, p50", WAKE, "p50"),
        (f"{WAKE}, p99", WAKE, "p99"),
    ]
    pairs += [
        compared(name, 1.0, *found[source].values(), figure=figure, unit="µs", limited=source != WAKE)
        for name, source, figure in latencies
    ]
    run.table(
        f"Headrace : redis-server {version}, {CLIENTS} clients; above 1 is better",
        [ratios for ratios, _ in pairs],
        "faster: of the medians; best rounds: of each server's best, which other work on the machine disturbs least."
        "\nlimit: who had a core to itself (server/load generator/others, % of one). Where that is not the server, the"
        "\nserver could do more: compare less CPU.",
    )
    run.table(
        f"Medians of {ROUNDS} rounds, and the slowest to the fastest in %",
        [figures for _, figures in pairs],
        "CPU: the server's own, a request; of wake: an XADD and its 100 replies",
    )


def main() -> None:
    """Measure everything and say it."""
    missing = [binary for binary in ("redis-server", "redis-benchmark") if shutil.which(binary) is None]
    if missing:
        print(f"There is no {' and no '.join(missing)} here to compare with; apt-get install redis-server brings both.")
        return
    with report("server", 2 * ROUNDS * (len(WORKLOADS) + 1)) as run, headrace() as ours, redis_reference() as theirs:
        for server in (ours, theirs):
            run.progress.update(run.task, description=f"writing {FILLED:,} entries to each")
            fill(server)
        compare(run, {"Headrace": ours, "redis-server": theirs}, redis_version() or "")


if __name__ == "__main__":
    main()
