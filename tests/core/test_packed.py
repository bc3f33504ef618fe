"""Nodes on their way out of a stream and into one: what comes in is what appending would have made, or nothing."""

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.entry_log import NodeLimits
from headrace.core.errors import CorruptListpack, CorruptStream, HeadraceError, StreamExhausted, StreamIDTooSmall
from headrace.core.memory import fail_after, fail_never
from headrace.core.packed import Packed, first_id_for, link_parts, split_range, take_nodes
from headrace.core.stream import Stream
from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID
from support.campaign import LONG, SEED
from support.packed_rows import Row, numbered, packed

TEXTS = st.one_of(st.binary(max_size=80), st.integers(-(2**64), 2**64).map(lambda n: b"%d" % n), st.just(b"x" * 5000))
NAMES = st.sampled_from([b"a", b"b", b"7", b"", b"\xff\x00"])
ROWS = st.lists(st.lists(st.tuples(NAMES, TEXTS), min_size=1, max_size=4), min_size=1, max_size=60)
LIMITS = st.tuples(st.sampled_from([0, 100, 4096]), st.sampled_from([0, 1, 3, 100, 200]))


def flat(row: Row) -> list[bytes]:
    return [text for pair in row for text in pair]


def state(stream: Stream) -> tuple[Any, ...]:
    return (
        *(len(stream), stream.first_id, stream.last_id, stream.max_deleted_id, stream.entries_added),
        [(bytes(master), listpack) for master, listpack in stream.nodes()],
    )


def small_stream(count: int, per_node: int = 3) -> Stream:
    stream = Stream(NodeLimits(4096, per_node))
    for place in range(1, count + 1):
        stream.append({b"f": b"%d" % place}, f"{place}-0")
    return stream


# --- in ----------------------------------------------------------------------------------------------------------


@given(ROWS, LIMITS)
def test_linked_nodes_are_byte_for_byte_those_of_appending(rows: list[Row], limits: tuple[int, int]) -> None:
    appended, linked = Stream(NodeLimits(*limits)), Stream(NodeLimits(*limits))
    for place, row in enumerate(rows):
        appended.append(flat(row), StreamID(1000, 5 + place))
    first, last = link_parts(linked, [Packed(packed(rows, None, *limits))], StreamID(1000, 5))
    assert (first, last) == (StreamID(1000, 5), appended.last_id)
    assert state(linked) == state(appended)
    assert linked.copy().memory_usage > 0


@given(ROWS, LIMITS, st.data())
def test_entries_may_bring_ids_that_rise(rows: list[Row], limits: tuple[int, int], data: st.DataObject) -> None:
    part = st.integers(1, 2**64 - 1)
    ids = sorted(data.draw(st.lists(st.tuples(part, part), min_size=len(rows), max_size=len(rows), unique=True)))
    appended, linked = Stream(NodeLimits(*limits)), Stream(NodeLimits(*limits))
    for id, row in zip(ids, rows, strict=True):
        appended.append(flat(row), StreamID(*id))
    link_parts(linked, [Packed(packed(rows, [b"%d-%d" % id for id in ids], *limits))], None)
    assert state(linked) == state(appended)


def test_what_follows_goes_into_the_last_node_that_was_linked() -> None:
    stream = small_stream(4)
    link_parts(stream, [Packed(numbered(2)), Packed(b""), Packed(numbered(1))], StreamID(9, 0))
    stream.append({b"n": b"3"}, "10-0")
    assert [(str(id), fields[1]) for id, fields in stream.range()][3:] == [
        *(("4-0", b"4"), ("9-0", b"0"), ("9-1", b"1"), ("9-2", b"0"), ("10-0", b"3"))
    ]
    assert (stream.node_count, stream.entries_added, stream.delete(["9-1", "9-2"])) == (4, 8, 2)


def test_the_first_id_leaves_room_for_all() -> None:
    stream = Stream()
    assert first_id_for(stream, 5, 7) == StreamID(7, 0)
    stream.append({b"f": b"v"}, StreamID(9, 2**64 - 4))
    assert first_id_for(stream, 3, 7) == StreamID(9, 2**64 - 3)
    assert first_id_for(stream, 4, 7) == StreamID(10, 0)
    stream.append({b"f": b"v"}, StreamID(2**64 - 1, 2**64 - 3))
    assert first_id_for(stream, 2, 7) == StreamID(2**64 - 1, 2**64 - 2)
    with pytest.raises(StreamExhausted):
        first_id_for(stream, 3, 7)


ONE: Row = [(b"f", b"v")]


@pytest.mark.parametrize(
    ("payloads", "first", "error"),
    [
        ([numbered(1)], StreamID(4, 0), StreamIDTooSmall),
        ([numbered(3)], StreamID(5, 2**64 - 2), StreamExhausted),
        ([packed([ONE], [b"4-0"])], None, StreamIDTooSmall),
        ([packed([ONE], [b"5-0"]), packed([ONE], [b"5-0"])], None, StreamIDTooSmall),
        ([packed([ONE], [b"5-0"]), numbered(1)], StreamID(9, 0), CorruptStream),
    ],
)
def test_what_does_not_follow_changes_nothing(payloads: list[bytes], first: Any, error: type[Exception]) -> None:
    stream = small_stream(4)
    before = state(stream)
    with pytest.raises(error):
        link_parts(stream, [Packed(payload) for payload in payloads], first)
    assert state(stream) == before


def test_memory_that_is_refused_changes_nothing() -> None:
    parts = [Packed(numbered(250)), Packed(numbered(250))]
    for allowed in range(100):
        stream = small_stream(4)
        before = state(stream)
        fail_after(allowed)
        try:
            link_parts(stream, parts, StreamID(9, 0))
            break
        except MemoryError:
            fail_never()
            assert state(stream) == before
            assert stream.append({b"f": b"v"}, "5-0") == StreamID(5, 0)
        finally:
            fail_never()
    assert allowed > 6
    assert len(stream) == 504


@pytest.mark.parametrize(
    "payload",
    [
        *(b"H", b"HN\x01", b"XX\x01\x00", b"HN\x02\x00", b"HN\x01\x02", numbered(3)[:-1], numbered(3) + b"\0"),
        b"HN\x01\x01" + numbered(3)[4:],
        b"HN\x01\x00" + packed([ONE], [b"5-0"])[4:],
        b"HN\x01\x01" + 2 * packed([ONE], [b"5-0"])[4:],
    ],
)
def test_bytes_that_are_no_payload_are_refused(payload: bytes) -> None:
    with pytest.raises((CorruptListpack, CorruptStream)):
        Packed(payload)


def test_a_node_with_a_tombstone_is_refused() -> None:
    stream = small_stream(3)
    stream.delete(["2-0"])
    ((master, listpack),) = stream.nodes()
    with pytest.raises(CorruptListpack, match="deleted"):
        Packed(b"HN\x01\x01" + master.key + listpack)


def test_damaged_payloads_are_refused_or_are_streams() -> None:
    chance = random.Random(SEED)
    rows = [[(b"name", b"%d" % n), (b"n" * (n % 90), b"x" * (n * 7 % 300))] for n in range(1, 40)]
    good = [packed(rows, None, 4096, 9), packed(rows, [b"%d-%d" % (n, n) for n in range(1, 40)], 4096, 9)]
    refused = accepted = 0
    for _ in range(200_000 if LONG else 6_000):
        payload = bytearray(chance.choice(good))
        for _ in range(chance.choice((1, 1, 2, 5))):
            at = chance.randrange(len(payload))
            kind = chance.random()
            if kind < 0.6:
                payload[at] ^= 1 << chance.randrange(8)
            elif kind < 0.8:
                payload[at] = chance.choice((0, 1, 127, 128, 0xF0, 0xF4, 0xFF))
            else:
                del payload[at : at + chance.randrange(1, 20)]
        try:
            part = Packed(bytes(payload))
            stream = Stream()
            if part.entries:
                link_parts(stream, [part], StreamID(1, 0))
        except HeadraceError:
            refused += 1
        else:
            accepted += 1
            assert sum(1 for _ in stream.range()) == len(stream) == part.entries
            assert sum(1 for _ in stream.range(reverse=True)) == part.entries
    assert refused > 1000
    assert accepted > 10


# --- out ---------------------------------------------------------------------------------------------------------


@given(
    st.integers(0, 80),
    st.integers(1, 7),
    st.sets(st.integers(1, 80)),
    st.tuples(st.integers(0, 90), st.integers(0, 90)),
    st.integers(1, 12),
)
def test_splits_cover_the_range_without_gap_or_overlap(
    count: int, per_node: int, deleted: set[int], limits: tuple[int, int], parts: int
) -> None:
    stream = small_stream(count, per_node)
    stream.delete([StreamID(ms, 0) for ms in deleted if ms <= count])
    low, high = StreamID(limits[0], 0), StreamID(limits[1], 5)
    found = split_range(stream, low, high, parts)
    expected = [id for id, _ in stream.range(low, high)]
    assert len(found) <= parts
    if not found:
        assert not expected
        return
    assert (found[0][0], found[-1][1]) == (low, high)
    for left, right in pairwise(found):
        assert left[1].successor() == right[0]
    masters = {master for master, _ in stream.nodes()}
    assert all(first in masters for first, *_ in found[1:])
    for first, last, entries, size in found:
        assert entries >= sum(first <= id <= last for id in expected)
        assert size > 0


def test_parts_are_even_however_many_nodes_there_are() -> None:
    stream = Stream(NodeLimits(4096, 1))
    link_parts(stream, [Packed(packed([ONE] * 5000, None, 4096, 1))], StreamID(1, 0))
    for parts in (1, 2, 3, 10, 64):
        found = split_range(stream, MIN_ID, MAX_ID, parts)
        counts = [entries for _, _, entries, _ in found]
        assert (len(found), sum(counts)) == (parts, 5000)
        assert max(counts) - min(counts) <= 5000 / parts / 4


@settings(max_examples=50)
@given(st.integers(0, 60), st.integers(1, 7), st.integers(0, 70), st.integers(0, 70), st.integers(1, 400))
def test_nodes_are_taken_a_few_at_a_time_until_the_end(
    count: int, per_node: int, start: int, end: int, most: int
) -> None:
    stream = small_stream(count, per_node)
    low, high = StreamID(start, 0), StreamID(end, 5)
    taken: list[tuple[bytes, bytes]] = []
    at: StreamID | None = low
    while at is not None:
        at, nodes = take_nodes(stream, at, high, most)
        assert len(nodes) == 1 or sum(len(listpack) for _, listpack in nodes) <= most
        taken += nodes
    expected = [id for id, _ in stream.range(low, high)]
    whole = [(master.key, listpack) for master, listpack in stream.nodes()]
    assert [node for node in whole if node in taken] == taken
    copy = Stream()
    for master, listpack in taken:
        copy.load_node(StreamID.from_key(master), listpack)
    assert [id for id, _ in copy.range(low, high)] == expected
