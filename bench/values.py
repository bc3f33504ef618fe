"""`python -m bench.values`: what values that are no streams weigh, and what a snapshot of them copies.

    bytes a key     the growth of resident memory; the keys themselves, of 10 bytes, are in it
    copied          rdb_last_cow_size: the memory that the child wrote to, and so no longer shares with the server

No client writes while a snapshot is written, so that its child alone causes the copies: in Python, looking at an object
changes the count of its references. Small values have five elements, large ones a hundred thousand.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from rich.console import Console
from rich.table import Table

from headrace.measuring.targets import Target, packed, private_headrace, private_redis, redis_command

ELEMENTS_OF_LARGE = 100_000
ELEMENTS_OF_SMALL = 5

Words = tuple[bytes, ...]


def _string(key: bytes, numbers: range) -> Words:
    return b"SET", key, b"value-%09d" % numbers.start


def _hash(key: bytes, numbers: range) -> Words:
    return b"HSET", key, *(word for n in numbers for word in (b"field-%d" % n, b"value-%d" % n))


def _list(key: bytes, numbers: range) -> Words:
    return b"RPUSH", key, *(b"element-%d" % n for n in numbers)


def _set(key: bytes, numbers: range) -> Words:
    return b"SADD", key, *(b"member-%d" % n for n in numbers)


def _sorted_set(key: bytes, numbers: range) -> Words:
    return b"ZADD", key, *(word for n in numbers for word in (b"%d.5" % n, b"member-%d" % n))


KINDS: dict[str, Callable[[bytes, range], Words]] = {
    "strings": _string,
    "hashes": _hash,
    "lists": _list,
    "sets": _set,
    "sorted sets": _sorted_set,
}


def requests(kind: str, keys: int, elements: int) -> Iterator[bytes]:
    """Fill so many keys, with so many elements each."""
    at_once = min(elements, 1000)
    for number in range(keys):
        for start in range(0, elements, at_once):
            yield packed(*KINDS[kind](b"key:%06d" % number, range(start, start + at_once)))


def copied_by_snapshot(target: Target) -> float:
    """Write a snapshot while nobody else works, and return the MB that its child copied."""
    target.client.bgsave()
    while target.client.info("persistence")["rdb_bgsave_in_progress"]:
        time.sleep(0.05)
    return float(target.client.info("persistence")["rdb_last_cow_size"]) / 1e6


def measure(kind: str, keys: int, elements: int, redis: bool) -> list[str]:
    """Fill a fresh server and return its figures as they are shown."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        settings = ("--save", "", "--appendonly", "no", "--dir", directory)
        target = stack.enter_context((private_redis if redis else private_headrace)(settings))
        before = target.resident()
        target.feed(requests(kind, keys, elements))
        held = target.resident() - before
        return [f"{held / keys:,.0f}", f"{held / 1e6:,.0f}", f"{copied_by_snapshot(target):,.1f}"]


def main() -> int:
    """Measure every kind, as many small values and as a few large ones."""
    parser = argparse.ArgumentParser(prog="python -m bench.values")
    parser.add_argument("--keys", type=int, default=100_000, help="how many small values; a million takes minutes")
    options = parser.parse_args()
    servers = [False] if redis_command() is None else [False, True]
    table = Table("values", "keys", "server", "bytes a key", "held, MB", "copied, MB")
    large = options.keys * ELEMENTS_OF_SMALL // ELEMENTS_OF_LARGE
    for kind in KINDS:
        small = 1 if kind == "strings" else ELEMENTS_OF_SMALL
        for keys, elements in ((options.keys, small), (0 if kind == "strings" else large, ELEMENTS_OF_LARGE)):
            for redis in servers if keys else ():
                name = "redis-server" if redis else "Headrace"
                table.add_row(kind, f"{keys:,}", name, *measure(kind, keys, elements, redis))
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
