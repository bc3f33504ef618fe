"""The ordered structures that can be compared from Python, and the keys to compare them with.

One class a structure, all with the same verbs. Each verb holds the whole loop, written as the package's own
users would write it, so that no adapter stands between the clock and the structure. A verb that a package has no
call for returns None: that says something about the package, not about the structure behind it.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from BTrees.OOBTree import OOBTree
from pysorteddict import SortedDict as RedBlackDict
from sortedcontainers import SortedDict

from headrace.core.rax_map import RaxMap

try:
    from orderedstructs import SkipList
except ImportError:  # compiled from source by hand: see docs/ordered-index.md
    SkipList = None

# One object for every key, so that what is weighed is the index and not what it leads to.
VALUE = 1

Keys = list[bytes]


# --- keys ------------------------------------------------------------------------------------------------------


def rising_ids(count: int) -> Iterator[bytes]:
    """Give the keys of a stream's nodes: 16 bytes, big-endian, 100 ms apart."""
    for i in range(count):
        yield (1_700_000_000_000 + 100 * i).to_bytes(8) + bytes(8)


def random_ids(count: int) -> Iterator[bytes]:
    """Give 16 bytes that have nothing in common."""
    source = random.Random(4)
    for _ in range(count):
        yield source.randbytes(16)


def named_keys(count: int) -> Iterator[bytes]:
    """Give names of 26 to 37 bytes in random order, about ten of which share all but the end."""
    source = random.Random(5)
    devices = count // 2000
    for _ in range(count):
        tail = source.randbytes(6).hex()[: source.randint(3, 12)]
        yield b"tenant:%03d:device:%05d:%b" % (source.randrange(200), source.randrange(devices), tail.encode())


KEYS: dict[str, Callable[[int], Iterator[bytes]]] = {
    "stream IDs, rising": rising_ids,
    "random 16 bytes": random_ids,
    "names with shared prefixes": named_keys,
}


def prefix_end(prefix: bytes) -> bytes:
    """Return the first key behind every key with that prefix, whose last byte is not 0xFF."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


# --- structures ------------------------------------------------------------------------------------------------


class OrderedMap:
    """The verbs on a mapping whose pairs come in order, as most of the structures are."""

    name: str
    keeps_key_objects: bool
    map: Any

    def insert(self, keys: Iterator[bytes] | Keys) -> None:
        """Set every key."""
        index = self.map
        for key in keys:
            index[key] = VALUE

    def size(self) -> int:
        """Count the keys."""
        return len(self.map)

    def find(self, keys: Keys) -> None:
        """Look every key up."""
        index = self.map
        for key in keys:
            index[key]

    def walk(self) -> None:
        """Go through all pairs in order."""
        for _ in self.map.items():
            pass

    def scan(self, starts: Keys, length: int) -> bool | None:  # noqa: ARG002
        """Do nothing: there is no such call."""
        return None

    def match(self, prefixes: Keys) -> int | None:  # noqa: ARG002
        """Do nothing: there is no such call."""
        return None

    def allocated(self) -> int | None:
        """Know nothing of it."""
        return None


class Rax(OrderedMap):
    """Headrace's own, through its Python mapping."""

    name = "rax (RaxMap)"
    keeps_key_objects = False

    def __init__(self) -> None:
        self.map = RaxMap()

    def scan(self, starts: Keys, length: int) -> bool | None:
        """Take from each start the next pairs."""
        walker = self.map.iterator()
        step = walker.next
        for start in starts:
            walker.seek(">=", start)
            for _ in range(length):
                step()
        return True

    def match(self, prefixes: Keys) -> int | None:
        """Count the keys with each prefix."""
        walker = self.map.iterator()
        step = walker.next
        found = 0
        for prefix in prefixes:
            walker.seek(">=", prefix)
            while (pair := step()) is not None and pair[0].startswith(prefix):
                found += 1
        return found

    def allocated(self) -> int | None:
        """Tell the bytes by the structure's own count, where it has one."""
        return int(self.map.allocated)


class BPlusTree(OrderedMap):
    """OOBTree of the BTrees package: C, leaves linked in order."""

    name = "B+ tree (BTrees)"
    keeps_key_objects = True

    def __init__(self) -> None:
        self.map = OOBTree()

    def scan(self, starts: Keys, length: int) -> bool | None:
        """Take from each start the next pairs."""
        for start in starts:
            for _ in islice(self.map.iteritems(start), length):
                pass
        return True

    def match(self, prefixes: Keys) -> int | None:
        """Count the keys with each prefix: an ordinary range."""
        found = 0
        for prefix in prefixes:
            for _ in self.map.iteritems(prefix, prefix_end(prefix), False, True):
                found += 1
        return found


class ListOfLists(OrderedMap):
    """SortedDict of sortedcontainers: pure Python, a dict beside a list of short sorted lists."""

    name = "list of lists (sortedcontainers)"
    keeps_key_objects = True

    def __init__(self) -> None:
        self.map = SortedDict()

    def scan(self, starts: Keys, length: int) -> bool | None:
        """Take from each start the next pairs."""
        index = self.map
        for start in starts:
            for key in islice(index.irange(start), length):
                index[key]
        return True

    def match(self, prefixes: Keys) -> int | None:
        """Count the keys with each prefix: an ordinary range."""
        found = 0
        for prefix in prefixes:
            for _ in self.map.irange(prefix, prefix_end(prefix), (True, False)):
                found += 1
        return found


class RedBlackTree(OrderedMap):
    """SortedDict of pysorteddict: C++, a std::map, which is a red-black tree. It has no range that starts at a key."""

    name = "red-black tree (pysorteddict)"
    keeps_key_objects = True

    def __init__(self) -> None:
        self.map = RedBlackDict()


class SkipListSet(OrderedMap):
    """SkipList of orderedstructs: C++, keys without values, links that also count. It finds only keys that it has."""

    name = "skip list (orderedstructs)"
    keeps_key_objects = False

    def __init__(self) -> None:
        self.map = SkipList(bytes)

    def insert(self, keys: Iterator[bytes] | Keys) -> None:
        """Set every key."""
        insert = self.map.insert
        for key in keys:
            insert(key)

    def size(self) -> int:
        """Count the keys."""
        return int(self.map.size())

    def find(self, keys: Keys) -> None:
        """Look every key up."""
        has = self.map.has
        for key in keys:
            has(key)

    def walk(self) -> None:
        """Go through all keys in order."""
        for _ in self.map.at_seq(0, self.map.size()):
            pass

    def scan(self, starts: Keys, length: int) -> bool | None:
        """Take from each start the next keys, fewer at the end."""
        index = self.map
        size = index.size()
        for start in starts:
            place = index.index(start)
            for _ in index.at_seq(place, min(length, size - place)):
                pass
        return True


class SortedLater(OrderedMap):
    """A dict, sorted when order is needed: the floor for whoever changes nothing between two walks."""

    name = "dict, sorted once (no index)"
    keeps_key_objects = True

    def __init__(self) -> None:
        self.map = {}
        self.order: Keys = []

    def walk(self) -> None:
        """Sort, and go through all pairs."""
        self.order = sorted(self.map)
        index = self.map
        for key in self.order:
            index[key]

    def scan(self, starts: Keys, length: int) -> bool | None:
        """Take from each start the next pairs; the walk before has sorted them."""
        index, order = self.map, self.order
        for start in starts:
            place = bisect_left(order, start)
            for key in order[place : place + length]:
                index[key]
        return True

    def match(self, prefixes: Keys) -> int | None:
        """Count the keys with each prefix: an ordinary range."""
        order = self.order
        found = 0
        for prefix in prefixes:
            for _ in order[bisect_left(order, prefix) : bisect_left(order, prefix_end(prefix))]:
                found += 1
        return found


STRUCTURES: dict[str, type[OrderedMap]] = {
    structure.name: structure
    for structure in (Rax, BPlusTree, RedBlackTree, SkipListSet, ListOfLists, SortedLater)
    if structure is not SkipListSet or SkipList is not None
}
