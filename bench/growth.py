"""Whether an operation costs the same in a long stream as in a short one: 10^4 to 10^7 messages.

The figure is the processor time of the server for a request, which other work on the machine disturbs least. Requests
go to places all over the stream; an operation that changes a stream works on a copy of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from bench.run import Run
from bench.servers import servers
from headrace.measuring import workloads
from headrace.measuring.samples import Figure, Sample
from headrace.measuring.targets import Target, packed
from headrace.measuring.workloads import GROUP, Streams, Workload, drive, entry_id, piped, places

TABLE = "Growth"
PIPELINE = 16
CLIENTS = 10
ROUNDS = 3
COST = Figure("processor", "µs", more_is_better=False)
DELETIONS = 3_200


def growth(run: Run) -> None:
    """Measure every operation at every size."""
    with servers(run) as targets:
        for messages in run.scale.growth:
            for workload in operations(Streams(messages)):
                run.compare(targets, workload, TABLE, at=messages, seconds=run.scale.seconds / 2, rounds=ROUNDS)
            for target in targets:
                target.clean()


def operations(streams: Streams) -> list[Workload]:
    """Every main operation, on a stream of that size."""
    size = streams.messages
    pending = streams.pending

    def key(target: Target) -> bytes:
        return target.key(f"pending-{size}")

    def grown(target: Target) -> bytes:
        return target.key("copied")

    def claim(target: Target) -> tuple[bytes, ...]:
        return b"XAUTOCLAIM", key(target), GROUP, b"c0", b"0"

    def anywhere(
        name: str,
        prepare: Callable[[Target], bytes],
        words: Callable[[Target, int], tuple[bytes, ...]],
        count: int,
        limit: int = -1,
    ) -> Workload:
        """A command whose words are made for a place in the stream."""

        def measure(target: Target, seconds: float) -> Sample:
            numbers = places(size, count)
            if limit > 0:
                numbers = random.Random(5).sample(range(size), min(limit, size))
            buffers = piped([packed(*words(target, number)) for number in numbers], PIPELINE)
            most = len(buffers) if limit > 0 else -1
            return drive(target, buffers, pipeline=PIPELINE, clients=CLIENTS, seconds=seconds, limit=most)

        return Workload(name, name, measure, lambda target: workloads.void(prepare(target)), (COST,))

    ten = (b"COUNT", b"10")
    return [
        anywhere("XADD", streams.copied, lambda t, _: (b"XADD", grown(t), b"*", b"field-0", b"value"), 1),
        anywhere("XLEN", streams.filled, lambda t, _: (b"XLEN", streams.filled(t)), 1),
        anywhere("XRANGE COUNT 10", pending, lambda t, n: (b"XRANGE", key(t), entry_id(n), b"+", *ten), 10),
        anywhere("XREVRANGE COUNT 10", pending, lambda t, n: (b"XREVRANGE", key(t), entry_id(n), b"-", *ten), 10),
        _of_messages(workloads.consume(streams, 4)),
        anywhere("XPENDING", pending, lambda t, _: (b"XPENDING", key(t), GROUP), 1),
        anywhere("XPENDING 10", pending, lambda t, n: (b"XPENDING", key(t), GROUP, entry_id(n), b"+", b"10"), 10),
        anywhere("XAUTOCLAIM COUNT 10", pending, lambda t, n: (*claim(t), entry_id(n), *ten), 10),
        anywhere("XDEL", streams.copied, lambda t, n: (b"XDEL", grown(t), entry_id(n)), 1, DELETIONS),
        anywhere("XINFO STREAM", pending, lambda t, _: (b"XINFO", b"STREAM", key(t)), 1),
    ]


def _of_messages(workload: Workload) -> Workload:
    """Tell the cost of a message that is read and acknowledged."""
    return Workload("consume", "XREADGROUP + XACK, a message", workload.measure, workload.prepare, (COST,))
