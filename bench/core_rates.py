"""The core, without a server: how fast it is when Python calls it. One function a measurement, each in a fresh process.

Every loop is the plain `for` that a user would write. Messages, IDs and batches are made before the clock starts;
what a call returns is dropped at once, as a consumer drops what it has handled.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from bench.harness import Row, fresh, median, seconds, spread
from bench.run import Run
from headrace.core.group import Group
from headrace.core.stream import Policy, Stream
from headrace.core.stream_id import StreamID

START_MS = 1_700_000_000_000
A_MILLISECOND = 1000  # messages; 3 million/s would be 3000
BATCH = 100
ENTRIES = 1_000_000
ROUNDS = 5

MESSAGES = [(b"dev", b"%d" % (i % 100), b"temp", b"%d.%d" % (18 + i % 13, i % 10)) for i in range(A_MILLISECOND)]


def append_messages(stream: Stream, count: int) -> None:
    """Append two-field messages with generated IDs, a thousand a millisecond."""
    append = stream.append
    for now_ms in range(START_MS, START_MS + count // A_MILLISECOND):
        for message in MESSAGES:
            append(message, b"*", now_ms)


def filled() -> Stream:
    """Make a stream to measure other things with."""
    stream = Stream()
    append_messages(stream, ENTRIES)
    return stream


def batches_of_ids(stream: Stream) -> list[list[StreamID]]:
    """List every ID of the stream, in order, in batches."""
    ids = [entry_id for entry_id, _ in stream.range()]
    return [ids[i : i + BATCH] for i in range(0, len(ids), BATCH)]


def drain(entries: Iterator[object]) -> None:
    """Take everything an iterator gives."""
    for _ in entries:
        pass


def deliver(group: Group, noack: bool = False) -> None:
    """Read everything new, a batch at a time, as Python objects."""
    read_new = group.read_new
    while read_new(b"c1", START_MS, BATCH, noack):
        pass


def rate(operation: str, samples: list[float], count: int, target: float | None = None) -> Row:
    """Make a row, millions a second, from the seconds of several rounds."""
    millions = count / median(samples) / 1e6
    return {
        "operation": operation,
        "million/s": millions,
        "ns each": 1e3 / millions,
        "spread %": round(spread(samples)),
        "target": target,
        "met": None if target is None else millions >= target,
    }


# --- entries ---------------------------------------------------------------------------------------------------


def append_and_visit() -> list[Row]:
    """Measure the two rates that everything else rests on."""
    appending, visiting, iterating, reversing = [], [], [], []
    for _ in range(ROUNDS):
        stream = Stream()
        appending.append(seconds(append_messages, stream, ENTRIES))
        visiting.append(seconds(stream.count))
        iterating.append(seconds(drain, stream.range()))
        reversing.append(seconds(drain, stream.range(reverse=True)))
    return [
        rate("append, two fields, ID *", appending, ENTRIES, 3.0),
        rate("visit, compiled cursor (Stream.count)", visiting, ENTRIES, 5.0),
        rate("iterate as Python objects (Stream.range)", iterating, ENTRIES),
        rate("the same from the end", reversing, ENTRIES),
    ]


# --- groups ----------------------------------------------------------------------------------------------------


def deliver_and_acknowledge() -> list[Row]:
    """Measure group reads and acknowledgements, in batches as clients do them."""
    stream = filled()
    batches = batches_of_ids(stream)
    delivering, acknowledging, unrecorded = [], [], []

    def acknowledge_all(group: Group) -> None:
        acknowledge = group.acknowledge
        for batch in batches:
            acknowledge(batch)

    for _ in range(ROUNDS):
        group = stream.create_group(b"g")
        delivering.append(seconds(deliver, group))
        acknowledging.append(seconds(acknowledge_all, group))
        group.set_id(b"0")
        unrecorded.append(seconds(deliver, group, True))
        stream.destroy_group(b"g")
    return [
        rate(f"deliver, batches of {BATCH}, as Python objects", delivering, ENTRIES, 3.0),
        rate("the same with NOACK: nothing becomes pending", unrecorded, ENTRIES),
        rate(f"acknowledge, batches of {BATCH}", acknowledging, ENTRIES, 3.0),
    ]


def claim_and_list() -> list[Row]:
    """Measure taking over the pending entries of others, and looking at them."""
    stream = filled()
    batches = batches_of_ids(stream)
    group = stream.create_group(b"g")
    deliver(group)
    owners = [b"c2", b"c1"] * ROUNDS

    def claim_all(consumer: bytes) -> None:
        for batch in batches:
            group.claim(consumer, batch, 0, START_MS)

    def auto_claim_all(consumer: bytes) -> None:
        cursor: StreamID | bytes = b"0-0"
        while True:
            cursor, _, _ = group.auto_claim(consumer, 0, cursor, START_MS, BATCH)
            if cursor == StreamID(0, 0):
                return

    def list_all() -> None:
        start: StreamID | None = None
        while records := group.pending_records(start, None, BATCH):
            start = records[-1][0].successor()

    claiming = [seconds(claim_all, owners[i]) for i in range(ROUNDS)]
    auto_claiming = [seconds(auto_claim_all, owners[i + 1]) for i in range(ROUNDS)]
    listing = [seconds(list_all) for _ in range(ROUNDS)]
    return [
        rate(f"claim, batches of {BATCH}", claiming, ENTRIES),
        rate(f"auto_claim, {BATCH} at a time", auto_claiming, ENTRIES),
        rate(f"pending_records, {BATCH} at a time", listing, ENTRIES),
    ]


# --- removing --------------------------------------------------------------------------------------------------


def trim_and_delete() -> list[Row]:
    """Measure getting rid of entries: by whole nodes, one by one, in order and at random."""
    original = filled()
    in_order = batches_of_ids(original)
    shuffled = [entry_id for batch in in_order for entry_id in batch]
    random.Random(2).shuffle(shuffled)
    at_random = [shuffled[i : i + BATCH] for i in range(0, ENTRIES, BATCH)]

    def delete_all(stream: Stream, batches: list[list[StreamID]]) -> None:
        for batch in batches:
            stream.delete(batch)

    def trim_in_steps(stream: Stream, step: int, policy: Policy) -> None:
        for length in range(ENTRIES - step, -1, -step):
            stream.trim_to_length(length, policy=policy)

    def measured(remove: Callable[..., object], *arguments: object) -> list[float]:
        return [seconds(remove, original.copy(), *arguments) for _ in range(3)]

    return [
        rate("trim to 0, whole nodes", measured(Stream.trim_to_length, 0, True), ENTRIES),
        rate("trim exactly, 10 at a time", measured(trim_in_steps, 10, Policy.KEEPREF), ENTRIES),
        rate("trim ACKED (no group), 1000 at a time", measured(trim_in_steps, 1000, Policy.ACKED), ENTRIES),
        rate(f"delete in ID order, batches of {BATCH}", measured(delete_all, in_order), ENTRIES),
        rate(f"delete at random, batches of {BATCH}", measured(delete_all, at_random), ENTRIES),
        rate("copy the stream", measured(Stream.copy), ENTRIES),
    ]


def core(run: Run) -> None:
    """Measure all of them."""
    rows: list[Row] = []
    for measure in (append_and_visit, deliver_and_acknowledge, claim_and_list, trim_and_delete):
        run.told(measure.__name__.replace("_", " "))
        rows += fresh(measure)
    run.keep_table("The core, called from Python: million operations a second", rows)
