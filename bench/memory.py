"""What messages and pending entries weigh, by shape: the same messages with the same IDs in each server.

Two figures, because each alone can mislead: what the heap gave out (redis-server's used_memory; MEMORY USAGE of ours,
which counts heap blocks), and the growth of resident memory, which includes whatever the allocator wastes. fakeredis
keeps Python objects in this process, where only the second can be told.
"""

from __future__ import annotations

import ctypes
import gc
import random
from collections.abc import Callable, Iterator
from importlib.util import find_spec

from bench.harness import fresh, resident_bytes
from bench.run import Run
from bench.servers import servers
from headrace.measuring.samples import Finding
from headrace.measuring.targets import HEADRACE, Target, packed
from headrace.measuring.workloads import FIRST_MS

BATCH = 100
KEY = b"s"
STORED = "Bytes a message"
PENDING = "Bytes a pending entry"
FAKEREDIS = "fakeredis"
MOST_FAKED = 20_000  # messages; some thousands a second

Message = tuple[bytes, ...]


def constant_message(_: int) -> Message:
    """Repeat the same text: what the stored form is best at."""
    return b"dev", b"3", b"temp", b"21.5"


def sensor_message(i: int) -> Message:
    """Keep the names and change the values."""
    return b"dev", b"%d" % (i % 1000), b"temp", b"%d.%d" % (18 + i * 7 % 13, i % 10)


def mixed_message(i: int) -> Message:
    """Change the names from message to message, so that most entries cannot borrow those of their node."""
    reading = (b"temp", b"humidity", b"battery")[i % 3]
    return b"dev", b"%d" % (i % 1000), reading, b"%d.%d" % (18 + i * 7 % 13, i % 10)


def large_message(i: int) -> Message:
    """Carry a value of 200 bytes, where what surrounds it hardly counts."""
    return b"dev", b"%d" % (i % 1000), b"temp", b"%0200d" % (i * 7919)


SHAPES: dict[str, Callable[[int], Message]] = {
    "constant values": constant_message,
    "varying values": sensor_message,
    "varying names": mixed_message,
    "a value of 200 bytes": large_message,
}


def ids(messages: int, a_millisecond: int) -> Iterator[bytes]:
    """Give an ID for each message, when so many arrive in a millisecond."""
    return (b"%d-%d" % (FIRST_MS + i // a_millisecond, i % a_millisecond) for i in range(messages))


def memory(run: Run) -> None:
    """Weigh messages of each shape, then pending entries."""
    messages = run.scale.messages // 4
    for shape, message in SHAPES.items():
        run.told(f"bytes a message, {shape}")
        heap: dict[str, list[float]] = {}
        resident: dict[str, list[float]] = {}
        with servers(run) as targets:
            for target in targets:
                used, occupied = _used(target), target.resident()
                _fill(target, message, messages, 1)
                heap[target.name] = [(_used(target) - used) / messages]
                resident[target.name] = [(target.resident() - occupied) / messages]
        if find_spec("fakeredis") is not None:
            resident[FAKEREDIS] = [fresh(weigh_fakeredis, shape, min(messages, MOST_FAKED))]
        run.keep(_bytes(f"a message, {shape}", STORED, heap))
        run.keep(_bytes(f"a message, {shape}, resident", STORED, resident))
    for a_millisecond in (1, 1000):
        for consumers in (1, 10):
            _weigh_pending(run, messages, a_millisecond, consumers)


def _bytes(name: str, table: str, rounds: dict[str, list[float]]) -> Finding:
    return Finding(name, "bytes", more_is_better=False, table=table, rounds=rounds)


def _used(target: Target) -> int:
    """Heap bytes of the stream: ours by its own count, theirs by that of the server."""
    if target.name == HEADRACE:
        return int(target.client.memory_usage(KEY, samples=0) or 0)
    return target.used_memory()


def _fill(target: Target, message: Callable[[int], Message], messages: int, a_millisecond: int) -> None:
    target.feed(
        packed(b"XADD", KEY, entry_id, *message(number)) for number, entry_id in enumerate(ids(messages, a_millisecond))
    )
    if target.client.xlen(KEY) != messages:
        raise RuntimeError(f"{target.name} holds {target.client.xlen(KEY)} entries, not {messages}")


def _weigh_pending(run: Run, messages: int, a_millisecond: int, consumers: int) -> None:
    """Weigh pending entries: all of them, and when a random half was acknowledged."""
    half = random.Random(3).sample(list(ids(messages, a_millisecond)), messages // 2)
    reads = [
        packed(*(b"XREADGROUP", b"GROUP", b"g", b"consumer-%d" % i), *(b"COUNT", b"%d" % BATCH, b"STREAMS", KEY, b">"))
        for i in range(consumers)
    ]
    full: dict[str, list[float]] = {}
    halved: dict[str, list[float]] = {}
    who = f"{consumers} consumer{'s' if consumers > 1 else ''}, {a_millisecond:,} a ms"
    with servers(run) as targets:
        for target in targets:
            run.told(f"bytes a pending entry, {who}: {target.name}")
            _fill(target, constant_message, messages, a_millisecond)
            target.client.xgroup_create(KEY, "g", "0")
            used = _used(target)
            target.feed(reads[turn % consumers] for turn in range(messages // BATCH))
            full[target.name] = [(_used(target) - used) / target.client.xpending(KEY, "g")["pending"]]
            target.feed(packed(b"XACK", KEY, b"g", *half[at : at + BATCH]) for at in range(0, len(half), BATCH))
            halved[target.name] = [(_used(target) - used) / target.client.xpending(KEY, "g")["pending"]]
    run.keep(_bytes(f"a pending entry, {who}", PENDING, full))
    run.keep(_bytes(f"a pending entry, {who}, half acknowledged", PENDING, halved))


def weigh_fakeredis(shape: str, messages: int) -> float:
    """Weigh a message in fakeredis, by the growth of this process."""
    import fakeredis  # noqa: PLC0415 — only this process needs it

    client = fakeredis.FakeRedis()
    client.xadd("warm", {"dev": 3})
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = resident_bytes()
    for number, entry_id in enumerate(ids(messages, 1)):
        words = SHAPES[shape](number)
        client.xadd("s", dict(zip(words[::2], words[1::2], strict=True)), id=entry_id)
    gc.collect()
    return (resident_bytes() - before) / messages
