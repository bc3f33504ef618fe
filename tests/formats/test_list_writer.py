"""Lists are written without a reference to any element, in their order, whatever a deque has been through."""

import random
from collections import deque

import pytest

from headrace.formats.list_value import LIST_QUICKLIST_2, read_list
from headrace.formats.list_writer import write_list
from headrace.formats.rdb_primitives import RdbReader, RdbWriter


def read_back(held: deque[bytes], *, compress: bool) -> deque[bytes]:
    writer = RdbWriter(compress=compress)
    write_list(writer, held)
    reader = RdbReader(writer.getvalue())
    found = read_list(reader, LIST_QUICKLIST_2)
    assert reader.remaining == 0
    return found


def element(chance: random.Random) -> bytes:
    size = chance.choice((0, 1, 3, 20, 200, 4000, 8180, 8181, 8182, 8191, 8192, 8193, 20_000))
    return chance.choice((b"%d" % chance.randrange(-(10**6), 10**12), chance.randbytes(size), b"x" * size))


@pytest.mark.parametrize("compress", [False, True])
def test_what_was_written_reads_back_in_its_order(compress: bool) -> None:
    chance = random.Random(8)
    for _ in range(300):
        held: deque[bytes] = deque()
        for _ in range(chance.randrange(1, 200)):
            # So that it begins and ends anywhere in its blocks, and some of those are gone.
            change = chance.choice((held.append, held.appendleft))
            change(element(chance) if chance.random() < 0.2 else b"%d" % chance.randrange(1000))
            if len(held) > 1 and chance.random() < 0.3:
                chance.choice((held.pop, held.popleft))()
        held.rotate(chance.randrange(-5, 5))
        assert read_back(held, compress=compress) == held


def test_a_long_list_has_many_nodes() -> None:
    held = deque(b"element-%d" % number for number in range(20_000))
    held.extendleft(b"%d" % number for number in range(20_000))
    assert read_back(held, compress=False) == held


def test_large_elements_stand_alone_also_at_the_ends() -> None:
    large = b"y" * 8193
    for held in (deque([large]), deque([large, large]), deque([b"a", large, b"b"]), deque([large, b"a", b"b", large])):
        assert read_back(held, compress=False) == held
