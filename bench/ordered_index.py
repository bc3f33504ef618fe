"""Is a radix tree the right ordered index? `python -m bench.ordered_index`.

A document that this project started from compares the rax with a skip list, a B+ tree and a red-black tree, without
figures. Here are some, as far as Python can measure them; docs/ordered-index.md says what follows from them.
"""

from __future__ import annotations

import random
import sys
from itertools import islice, product

from bench.harness import Report, Row, median, report, resident_bytes, seconds, settled_resident_bytes
from bench.ordered_maps import KEYS, STRUCTURES, SkipListSet
from headrace.core.entry_log import NodeLimits
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.measuring.targets import packed, private_redis, redis_version

SIZES = [100_000, 1_000_000]
ROUNDS = 3
ROUNDS_OF_A_MILLION = 1  # where a round touches every key
LOOKUPS = 200_000
SCANS = 2_000
SCAN_LENGTH = 100
PREFIXES = 10_000
NODE_SIZES = [1, 10, 100, 1000]
STREAM_ENTRIES = 1_000_000
START_MS = 1_700_000_000_000

# Of the hash table in a sorted set, in redis-server 7: bytes of an entry, and of a slot.
REDIS_TABLE_ENTRY = 24
REDIS_SLOT = 8


def distinct_keys(kind: str, count: int) -> list[bytes]:
    """Make the keys, in the order in which they arrive."""
    return list(dict.fromkeys(KEYS[kind](count)))


def equal_objects(keys: list[bytes]) -> list[bytes]:
    """Copy keys, as they come from a socket, so that none is found by its address or by a hash computed before."""
    return [bytes(bytearray(key)) for key in keys]


def measure_times(structure: str, kind: str, count: int) -> Row:
    """Time each of the verbs, in nanoseconds, from Python."""
    keys = distinct_keys(kind, count)
    chance = random.Random(6)
    wanted = chance.choices(keys, k=LOOKUPS)
    starts = equal_objects(wanted[:SCANS])
    prefixes = [key[:24] for key in wanted[:PREFIXES]] if kind == "names with shared prefixes" else []
    long_rounds = ROUNDS if count < 1_000_000 else ROUNDS_OF_A_MILLION
    inserting = []
    for _ in range(long_rounds):
        index = STRUCTURES[structure]()
        inserting.append(seconds(index.insert, keys))
    finding = [seconds(index.find, equal_objects(wanted)) for _ in range(ROUNDS)]
    walking = [seconds(index.walk) for _ in range(long_rounds)]
    scans = index.scan(starts[:1], 1) is not None
    scanning = [seconds(index.scan, starts, SCAN_LENGTH) for _ in range(ROUNDS)] if scans else None
    found = index.match(prefixes) if prefixes else None
    matching = [seconds(index.match, prefixes) for _ in range(ROUNDS)] if found is not None else None
    return {
        "insert": 1e9 * median(inserting) / len(keys),
        "find": 1e9 * median(finding) / LOOKUPS,
        "walk": 1e9 * median(walking) / len(keys),
        "scan": 1e9 * median(scanning) / SCANS / SCAN_LENGTH if scanning else None,
        "match": 1e9 * median(matching) / PREFIXES if matching else None,
        "found": found,
    }


def measure_memory(structure: str, kind: str, count: int) -> Row:
    """Weigh a key: the growth of the process, and how much of it are Python's key objects."""
    warm = STRUCTURES[structure]()
    warm.insert(islice(KEYS[kind](2000), 100))
    before = settled_resident_bytes()
    index = STRUCTURES[structure]()
    index.insert(KEYS[kind](count))
    resident = resident_bytes() - before
    size = index.size()
    objects = 0.0
    if index.keeps_key_objects:
        # Python's allocator hands out multiples of 16 bytes.
        objects = sum(-(-sys.getsizeof(key) // 16) * 16 for key in islice(KEYS[kind](count), 10_000)) / 10_000
    allocated = index.allocated()
    return {
        "resident": resident / size,
        "key objects": objects,
        "counted": allocated / size if allocated is not None else None,
    }


def measure_redis_skip_list(kind: str, count: int) -> float:
    """Weigh a key in the skip list of redis-server: a sorted set, all scores equal, without its hash table.

    The table beside the skip list has an entry a key and a power of two of slots, no fewer than there are keys.
    """
    keys = distinct_keys(kind, count)
    slots = 1 << (len(keys) - 1).bit_length()
    with private_redis() as server:
        server.feed(
            packed(b"ZADD", b"z", *(word for key in keys[i : i + 1000] for word in (b"0", key)))
            for i in range(0, len(keys), 1000)
        )
        if server.client.zcard("z") != len(keys):
            raise RuntimeError(f"redis-server holds {server.client.zcard('z')} keys, not {len(keys)}")
        return (int(server.client.memory_usage("z", samples=0)) - slots * REDIS_SLOT) / len(keys) - REDIS_TABLE_ENTRY


def measure_nodes(entries_a_node: int) -> Row:
    """Time a stream whose rax leads to so many entries with each key; compiled loops but for append and get."""
    stream = Stream(NodeLimits(max_bytes=1 << 20, max_entries=entries_a_node))
    chance = random.Random(7)
    wanted = [StreamID(START_MS + i) for i in chance.choices(range(STREAM_ENTRIES), k=LOOKUPS)]

    def append_all() -> None:
        append = stream.append
        for now_ms in range(START_MS, START_MS + STREAM_ENTRIES):
            append((b"dev", b"3", b"temp", b"21.5"), b"*", now_ms)

    def get_all() -> None:
        get = stream.get
        for entry_id in wanted:
            get(entry_id)

    appending = seconds(append_all)
    visiting = [seconds(stream.count) for _ in range(ROUNDS)]
    getting = [seconds(get_all) for _ in range(ROUNDS)]
    return {
        "entries a node": entries_a_node,
        "keys in the rax": stream.node_count,
        "bytes an entry": stream.memory_usage / STREAM_ENTRIES,
        "append ns": 1e9 * appending / STREAM_ENTRIES,
        "visit ns": 1e9 * median(visiting) / STREAM_ENTRIES,
        "get by random ID ns": 1e9 * median(getting) / LOOKUPS,
    }


def show_times(run: Report, kind: str, count: int) -> None:
    """Compare speeds for one sort of keys."""
    results = {
        structure: run.measure(f"{structure}: {count:,} {kind}", measure_times, structure, kind, count)
        for structure in STRUCTURES
    }
    answers = {result["found"] for result in results.values() if result["found"] is not None}
    if len(answers) > 1:
        raise RuntimeError(f"the structures disagree on how many keys have a prefix: {answers}")
    rows = [
        {
            "structure": structure,
            "find": result["find"],
            "insert": result["insert"],
            "walk in order": result["walk"],
            f"scan {SCAN_LENGTH} from a key": result["scan"],
            "keys with a prefix": result["match"],
        }
        for structure, result in results.items()
    ]
    note = f"a prefix has {answers.pop() / PREFIXES:.0f} keys; its time is for all of them" if answers else ""
    run.table(f"{count:,} {kind}: nanoseconds a key, called from Python", rows, note)


def show_memory(run: Report, version: str | None) -> None:
    """Compare weights for every sort of keys."""
    count = SIZES[-1]
    rows: list[Row] = []
    for kind in KEYS:
        for structure in STRUCTURES:
            memory = run.measure(f"{structure}: memory, {kind}", measure_memory, structure, kind, count)
            rows.append(
                {
                    "keys": kind,
                    "structure": structure,
                    "process (RSS)": memory["resident"],
                    "without key objects": memory["resident"] - memory["key objects"],
                    "own count": memory["counted"],
                }
            )
        if version:
            skip_list = run.measure(f"redis-server's skip list, {kind}", measure_redis_skip_list, kind, count)
            rows.append(
                {
                    "keys": kind,
                    "structure": f"skip list of redis-server {version} (ZADD)",
                    "process (RSS)": None,
                    "without key objects": None,
                    "own count": skip_list,
                }
            )
    run.table(
        f"Bytes a key, {count:,} keys",
        rows,
        "own count: heap bytes with the keys; redis-server's: MEMORY USAGE without the hash table of a sorted set",
    )


def show_nodes(run: Report) -> None:
    """Show what a stream gains by having few keys."""
    rows = [run.measure(f"nodes of {size} entries", measure_nodes, size) for size in NODE_SIZES]
    run.table(f"A stream of {STREAM_ENTRIES:,} entries by the size of its nodes", rows)


def main() -> None:
    """Measure everything and say it."""
    version = redis_version()
    steps = len(KEYS) * (len(STRUCTURES) * (len(SIZES) + 1) + bool(version)) + len(NODE_SIZES)
    with report("ordered_index", steps) as run:
        if SkipListSet.name not in STRUCTURES:
            run.say("orderedstructs is not installed, so there is no skip list to time: see docs/ordered-index.md.")
        for count, kind in product(SIZES, KEYS):
            show_times(run, kind, count)
        show_memory(run, version)
        show_nodes(run)


if __name__ == "__main__":
    main()
