"""What entries and pending entries weigh, here and in redis-server, for the same messages with the same IDs.

Three figures, because each alone can mislead: what the structures say of themselves (memory_usage, MEMORY USAGE), what
the heap gave out (redis-server's used_memory; ours counts heap blocks already), and the growth of resident memory,
which includes whatever the allocator wastes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from bench.harness import Row, resident_bytes, settled_resident_bytes
from bench.redis_reference import RedisReference, packed, redis_reference
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID

MESSAGES = 500_000
START_MS = 1_700_000_000_000
BATCH = 100

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


def entry_ids(a_millisecond: int) -> Iterator[StreamID]:
    """Give an ID for each message, when so many arrive in a millisecond."""
    return (StreamID(START_MS + i // a_millisecond, i % a_millisecond) for i in range(MESSAGES))


def filled_stream(message: Callable[[int], Message], a_millisecond: int = 1) -> Stream:
    """Make our stream of the messages."""
    stream = Stream()
    for i, entry_id in enumerate(entry_ids(a_millisecond)):
        stream.append(message(i), entry_id)
    return stream


def fill_redis(server: RedisReference, message: Callable[[int], Message], a_millisecond: int = 1) -> None:
    """Make their stream of the messages."""
    ids = entry_ids(a_millisecond)
    server.feed(packed(b"XADD", b"s", bytes(entry_id), *message(i)) for i, entry_id in enumerate(ids))
    if server.client.xlen("s") != MESSAGES:
        raise RuntimeError(f"redis-server holds {server.client.xlen('s')} entries, not {MESSAGES}")


# --- entries ---------------------------------------------------------------------------------------------------


def our_entries(shape: str) -> Row:
    """Weigh entries in this process."""
    before = settled_resident_bytes()
    stream = filled_stream(SHAPES[shape])
    return {"counted": stream.memory_usage / MESSAGES, "resident": (resident_bytes() - before) / MESSAGES}


def redis_entries(shape: str) -> Row:
    """Weigh entries in redis-server."""
    with redis_reference() as server:
        used, resident = server.used_memory(), server.resident()
        fill_redis(server, SHAPES[shape])
        return {
            "counted": server.key_memory(b"s") / MESSAGES,
            "heap": (server.used_memory() - used) / MESSAGES,
            "resident": (server.resident() - resident) / MESSAGES,
        }


# --- pending entries -------------------------------------------------------------------------------------------


def half_of_the_ids(a_millisecond: int) -> list[list[StreamID]]:
    """Choose a random half of all IDs, in batches: what happens to be acknowledged at some moment."""
    ids = random.Random(3).sample(list(entry_ids(a_millisecond)), MESSAGES // 2)
    return [ids[i : i + BATCH] for i in range(0, len(ids), BATCH)]


def our_pending(consumers: int, a_millisecond: int) -> list[Row]:
    """Weigh pending entries in this process: all of them, and when a random half was acknowledged."""
    stream = filled_stream(constant_message, a_millisecond)
    acknowledged = half_of_the_ids(a_millisecond)
    names = [b"consumer-%d" % i for i in range(consumers)]
    before = settled_resident_bytes()
    group = stream.create_group(b"g")
    for turn in range(MESSAGES // BATCH):
        group.read_new(names[turn % consumers], START_MS + turn, BATCH)

    def weighed() -> Row:
        pending = group.pending_count
        return {
            "pending": pending,
            "counted": group.memory_usage / pending,
            "resident": (resident_bytes() - before) / pending,
        }

    full = weighed()
    for batch in acknowledged:
        group.acknowledge(batch)
    return [full, weighed()]


def redis_pending(consumers: int, a_millisecond: int) -> list[Row]:
    """Weigh pending entries in redis-server, the same way."""
    acknowledged = half_of_the_ids(a_millisecond)
    reads = [
        packed(b"XREADGROUP", b"GROUP", b"g", b"consumer-%d" % i, b"COUNT", b"%d" % BATCH, b"STREAMS", b"s", b">")
        for i in range(consumers)
    ]
    with redis_reference() as server:
        fill_redis(server, constant_message, a_millisecond)
        server.client.xgroup_create("s", "g", "0")
        used, resident = server.used_memory(), server.resident()

        def weighed() -> Row:
            pending = server.client.xpending("s", "g")["pending"]
            return {
                "pending": pending,
                "heap": (server.used_memory() - used) / pending,
                "resident": (server.resident() - resident) / pending,
            }

        server.feed(reads[turn % consumers] for turn in range(MESSAGES // BATCH))
        full = weighed()
        server.feed(packed(b"XACK", b"s", b"g", *map(bytes, batch)) for batch in acknowledged)
        return [full, weighed()]
