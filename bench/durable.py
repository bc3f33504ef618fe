"""Servers that write to disk: `always` and `everysec`, saving a snapshot, and being asked while one is written.

The disk is the one that holds the temporary directory; both servers write to the same one, one at a time.
"""

from __future__ import annotations

import socket
import threading
import time

from bench.run import Row, Run
from bench.servers import servers
from headrace.measuring.rounds import alternated
from headrace.measuring.samples import Sample
from headrace.measuring.targets import Target, packed
from headrace.measuring.workloads import TOOK, Shape, Workload, fill, xadd

SETTINGS = ("--save", "", "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")
WRITING = "XADD to disk, 50 clients"
SAVING = "Snapshots"


def durable(run: Run) -> None:
    """XADD under both policies, then snapshots."""
    with servers(run, SETTINGS) as targets:
        for policy in ("always", "everysec"):
            for target in targets:
                target.client.config_set("appendfsync", policy)
            for pipeline in (1, 16):
                workload = xadd(name=f"{policy}: XADD, pipeline {pipeline}", pipeline=pipeline)
                run.compare(targets, workload, WRITING, seconds=2 * run.scale.seconds)
        for target in targets:
            target.clean()
            fill(target, target.key("saved"), 0, run.scale.messages, Shape().words())
        run.compare(targets, saving(run.scale.messages), SAVING)
        rows: list[Row] = []
        for target in alternated(targets, 0):
            run.told(f"a snapshot under load: {target.name}")
            rows.append({"server": target.name} | snapshot_under_load(target))
        run.keep_table(f"A snapshot of {run.scale.messages:,} messages while somebody writes", rows)


def saving(messages: int) -> Workload:
    """Write everything into a snapshot while nobody else is served."""

    def measure(target: Target, _seconds: float) -> Sample:
        began = time.perf_counter()
        target.client.save()
        return {"took": 1000 * (time.perf_counter() - began)}

    return Workload("save", f"SAVE, {messages:,} messages", measure, figures=(TOOK,))


def snapshot_under_load(target: Target) -> Row:
    """Let one client write and another ask for little, while a snapshot is written in the background."""
    before = target.resident()
    ended = threading.Event()
    writer = threading.Thread(target=_write_on, args=(target, ended))
    writer.start()
    slowest = peak = 0.0
    requests = 0
    target.client.bgsave()
    try:
        while target.client.info("persistence")["rdb_bgsave_in_progress"] or requests < 100:
            for _ in range(20):
                began = time.perf_counter()
                target.client.xlen(target.key("saved"))
                slowest = max(slowest, time.perf_counter() - began)
                requests += 1
                time.sleep(0.001)
            peak = max(peak, target.resident())
    finally:
        ended.set()
        writer.join()
    return {
        "slowest of small requests, ms": 1000 * slowest,
        "memory before, MB": before / 1e6,
        "at most, MB": peak / 1e6,
        "child copied, MB": target.client.info("persistence")["rdb_last_cow_size"] / 1e6,
    }


def _write_on(target: Target, ended: threading.Event) -> None:
    buffer = packed(b"XADD", target.key("beside"), b"*", *Shape().words()) * 16
    with target.connect() as line:
        line.settimeout(60)
        while not ended.is_set():
            line.sendall(buffer)
            _await_replies(line, 16)


def _await_replies(line: socket.socket, count: int) -> None:
    while count > 0:
        count -= line.recv(1 << 16).count(b"$")
