"""Servers in memory: appending, reading, groups, and looking after streams; Headrace beside redis-server."""

from __future__ import annotations

from bench.run import Run
from bench.servers import servers
from headrace.measuring import workloads
from headrace.measuring.workloads import Shape, Streams, xadd

PIPELINES = (1, 16, 64)
CLIENTS = (1, 50, 500)
FIELDS = (1, 2, 10)
SIZES = (10, 100, 1_000, 10_000)

BY_LOAD = "XADD by clients and pipeline"
BY_SHAPE = "XADD by message, pipeline 16, 50 clients"
RANGES = "Ranges, 50 clients"
WAKING = "Waking blocked readers"
GROUPS = "Groups"
PENDING = "Pending entries"
LOOKING = "Looking at streams"
REMOVING = "Removing entries"


def append(run: Run) -> None:
    """XADD by pipeline, clients, fields and size of the values."""
    with servers(run) as targets:
        for clients in CLIENTS:
            for pipeline in PIPELINES:
                name = f"XADD, pipeline {pipeline}, {clients} client{'s' if clients > 1 else ''}"
                run.compare(
                    targets,
                    xadd(name=name, pipeline=pipeline, clients=clients, latency=(pipeline, clients) == (1, 50)),
                    BY_LOAD,
                )
        for fields in FIELDS:
            for size in SIZES:
                name = f"XADD, {fields} × {size:,} bytes"
                run.compare(targets, xadd(name=name, shape=Shape(fields, size), pipeline=16), BY_SHAPE)
        run.compare(targets, xadd(name="XADD MAXLEN ~ 1000, 1 × 10 bytes", pipeline=16, maxlen=1000), BY_SHAPE)


def read(run: Run) -> None:
    """XRANGE, XREVRANGE, XREAD, and XREAD that waits."""
    streams = Streams(run.scale.messages)
    with servers(run) as targets:
        for reverse in (False, True):
            for count in (1, 100, 10_000):
                run.compare(targets, workloads.xrange(streams, count, reverse=reverse), RANGES)
            run.compare(targets, workloads.xrange(streams, 1, reverse=reverse, pipeline=16), RANGES)
        run.compare(targets, workloads.xread(streams), RANGES)
        for readers in (1, 10, 100):
            run.compare(targets, workloads.wake(readers), WAKING)


def groups(run: Run) -> None:
    """XREADGROUP alone, and end to end with XACK."""
    streams = Streams(run.scale.messages)
    with servers(run) as targets:
        run.compare(targets, workloads.xreadgroup(streams), GROUPS)
        for consumers in (1, 4, 16):
            run.compare(targets, workloads.consume(streams, consumers), GROUPS)
        for just_ids in (False, True):
            run.compare(
                targets, workloads.xautoclaim(streams, just_ids=just_ids), PENDING, seconds=2 * run.scale.seconds
            )


def manage(run: Run) -> None:
    """XPENDING, XINFO, XTRIM, XDEL."""
    streams = Streams(run.scale.messages)
    with servers(run) as targets:
        for workload in workloads.looking(streams):
            run.compare(targets, workload, LOOKING)
        for workload in (
            workloads.xtrim_whole(streams),
            workloads.xtrim_steps(streams),
            workloads.xdel(streams, shuffled=False),
            workloads.xdel(streams, shuffled=True),
        ):
            run.compare(targets, workload, REMOVING)
