"""What a rate of messages takes: servers, replicas, executors, network, disk and memory, and what is short first.

    producers ─► server ─► journal            one loop a server: append + feed replicas + serve readers, on one core
                   ├─► replica ─► journal     repeats the effects
                   └─► tasks ─► rows ─► Parquet

A message costs each part some processor time and some bytes, whatever the rate is; `Costs` has what `python -m
bench.scaling` measured. What a rate takes is those costs times the rate, divided by what one machine gives. That is
all there is to this model. It knows nothing of skew, of pauses, and of what happens while something is away: `USED`
is the part of each resource that a plan uses, and leaves the rest for these.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

USED: Final = 0.5


@dataclass(frozen=True)
class Costs:
    """Of one message: microseconds of a core, and bytes."""

    append_us: float  # of the server
    feed_us: float  # of the server, for each replica
    repeat_us: float  # of a replica
    serve_us: float  # of the server, for each reader
    read_us: float  # of an executor: asking, decoding, and Spark's work on the rows
    archive_us: float  # of an executor: reading and writing Parquet
    append_bytes: float  # to the server
    effect_bytes: float  # to the journal, and to each replica
    serve_bytes: float  # to a reader
    memory_bytes: float  # that a message takes in memory
    archive_bytes: float  # of Parquet


MEASURED: Final = Costs(
    append_us=0.47,
    feed_us=1.2,
    repeat_us=0.41,
    serve_us=0.026,
    read_us=0.79,
    archive_us=9.2,
    append_bytes=92,
    effect_bytes=109,
    serve_bytes=27,
    memory_bytes=30,
    archive_bytes=6.7,
)
"""Of messages with two short fields in 48 streams, on two cores of a busy machine: see docs/scaling.md."""


@dataclass(frozen=True)
class Machine:
    """What one server's machine gives."""

    network_bytes: float = 10e9 / 8  # a second, in and out each: 10 Gbit/s
    disk_bytes: float = 500e6  # a second, written
    memory_bytes: float = 64e9


@dataclass(frozen=True)
class Plan:
    """What a rate takes."""

    rate: float
    servers: int
    replicas: int
    cores: int  # of executors
    partitions: int
    network_bytes: float  # a second, out of one server
    disk_bytes: float  # a second, on one server
    hot_seconds: float  # that memory holds
    archive_bytes: float  # a day
    limits: dict[
        str, float
    ]  # messages a second at which each part of one server, or one core, is used as far as it may be

    @property
    def first_limit(self) -> str:
        """What of a server is used up first."""
        return min((name for name in self.limits if name != "core"), key=self.limits.__getitem__)


def limits_of(costs: Costs, machine: Machine, *, replicas: int, readers: int) -> dict[str, float]:
    """Return the messages a second that each part of one server takes, and one core of executors."""
    loop_us = costs.append_us + replicas * costs.feed_us + readers * costs.serve_us
    out_bytes = replicas * costs.effect_bytes + readers * costs.serve_bytes
    task_us = (readers - 1) * costs.read_us + costs.archive_us
    return {
        "loop": USED * 1e6 / loop_us,
        "network": USED * machine.network_bytes / max(costs.append_bytes, out_bytes),
        "disk": USED * machine.disk_bytes / costs.effect_bytes,
        "core": USED * 1e6 / task_us,
    }


def plan(rate: float, costs: Costs, machine: Machine | None = None, *, replicas: int = 1, readers: int = 2) -> Plan:
    """Say what a rate takes; one of the readers is the archive, the others are queries."""
    machine = machine or Machine()
    limits = limits_of(costs, machine, replicas=replicas, readers=readers)
    servers = ceil(rate / min(limits[name] for name in ("loop", "network", "disk")))
    cores = ceil(rate / limits["core"])
    each = rate / servers
    return Plan(
        rate=rate,
        servers=servers,
        replicas=servers * replicas,
        cores=cores,
        # Each core has a stream to read, and each server has as many as any other.
        partitions=servers * ceil(max(cores, servers) / servers),
        network_bytes=each * (replicas * costs.effect_bytes + readers * costs.serve_bytes),
        disk_bytes=each * costs.effect_bytes,
        hot_seconds=USED * machine.memory_bytes / (each * costs.memory_bytes),
        archive_bytes=rate * 86_400 * costs.archive_bytes,
        limits=limits,
    )
