"""Nodes from outside: each way in which a listpack can be no stream node is refused by name and changes nothing."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.core.entry_log import NodeLimits
from headrace.core.errors import CorruptListpack, CorruptStream, HeadraceError
from headrace.core.listpack import Listpack, with_old_backlens
from headrace.core.memory import fail_after, fail_never
from headrace.core.stream import Stream
from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID
from support.campaign import LONG

TOP = 2**64 - 1
MASTER = StreamID(10, 5)

Element = bytes | int

# Two entries with the master's fields, a tombstone, and one with fields of its own.
COUNT, DELETED, FIELDS, NAME_1, NAME_2, ZERO = range(6)
FLAGS, MS, SEQ, VALUE_1, VALUE_2, TRAILER = range(6, 12)
SECOND = 12
THIRD = 18
OWN = 24
GOOD: list[Element] = [
    *(3, 1, 2, b"name", b"other", 0),
    *(2, 0, 0, b"a", b"b", 5),
    *(3, 0, 1, b"c", b"d", 5),
    *(2, 7, -5, b"e", b"f", 5),
    *(0, 8, 0, 1, b"own", b"g", 6),
]


def pack(elements: list[Element]) -> bytes:
    listpack = Listpack()
    for element in elements:
        listpack.append(element)
    return bytes(listpack)


def changed(**edits: Element) -> bytes:
    """The good node with some elements replaced, named by their position: `at_6=1`."""
    elements = list(GOOD)
    for position, value in edits.items():
        elements[int(position.removeprefix("at_"))] = value
    return pack(elements)


def without(*positions: int) -> bytes:
    return pack([element for position, element in enumerate(GOOD) if position not in positions])


def state_of(stream: Stream) -> tuple[object, ...]:
    return (
        len(stream),
        stream.first_id,
        stream.last_id,
        stream.max_deleted_id,
        stream.entries_added,
        stream.node_count,
        stream.rax_node_count,
        stream.memory_usage,
        list(stream.nodes()),
        list(stream.range()),
        list(stream.range(reverse=True)),
    )


def stream_before() -> Stream:
    """A stream with one node loaded, which a refused second one must leave as it was."""
    stream = Stream()
    stream.load_node(StreamID(1, 0), pack([1, 0, 1, b"f", 0, 2, 0, 0, b"v", 4]))
    return stream


def assert_refused(master: StreamID, listpack: bytes, error: type[HeadraceError] = CorruptListpack) -> None:
    for stream in (Stream(), stream_before()):
        before = state_of(stream)
        with pytest.raises(error) as caught:
            stream.load_node(master, listpack)
        assert type(caught.value) is error
        assert str(master) in str(caught.value)
        assert state_of(stream) == before


# --- what is good ----------------------------------------------------------------------------------------------


def test_a_good_node_is_taken_as_it_is() -> None:
    stream = Stream()
    stream.load_node(MASTER, pack(GOOD))
    assert list(stream.range()) == [
        (StreamID(10, 5), [b"name", b"a", b"other", b"b"]),
        (StreamID(17, 0), [b"name", b"e", b"other", b"f"]),
        (StreamID(18, 5), [b"own", b"g"]),
    ]
    assert list(stream.range(reverse=True)) == list(stream.range())[::-1]
    assert list(stream.nodes()) == [(MASTER, pack(GOOD))]
    assert (len(stream), stream.last_id, stream.node_count) == (3, StreamID(18, 5), 1)
    stream.load_state(3, StreamID(18, 5), StreamID(10, 6), 4)
    assert stream.first_id == StreamID(10, 5)
    assert stream.delete([StreamID(17, 0)]) == 1
    assert stream.append((b"name", b"x", b"other", b"y"), StreamID(99, 0)) == StreamID(99, 0)
    assert [id for id, _ in stream.range()] == [StreamID(10, 5), StreamID(18, 5), StreamID(99, 0)]


def test_counters_that_are_not_in_their_shortest_form_are_rewritten_by_the_first_change() -> None:
    """Redis reads them; so they may come, and the places that rewrite counters must cope."""
    wide_3 = bytes.fromhex("f4 0300000000000000 09")
    wide_1 = bytes.fromhex("f3 01000000 05")
    raw = pack(GOOD)
    listpack = raw[:6] + wide_3 + wide_1 + raw[10:]
    listpack = len(listpack).to_bytes(4, "little") + listpack[4:]
    changes: tuple[Callable[[Stream], object], ...] = (
        lambda s: s.append((b"f", b"v"), "99-0"),
        lambda s: s.delete([MASTER]),
        lambda s: s.trim_to_length(1),
        lambda s: s.trim_to_length(2),
        lambda s: s.trim_to_id("17-0"),
    )
    for change in changes:
        stream = Stream()
        stream.load_node(MASTER, listpack)
        stream.load_state(3, StreamID(18, 5), MIN_ID, 4)
        change(stream)
        again = Stream()
        for master, node in stream.nodes():
            again.load_node(master, node)
        assert list(again.range()) == list(stream.range())
        assert list(again.range(reverse=True)) == list(stream.range(reverse=True))


def test_deltas_wrap_around_as_redis_writes_them() -> None:
    """A later millisecond whose sequence number begins again has a negative delta; a far one wraps."""
    master = StreamID(1, TOP)
    stream = Stream()
    stream.load_node(master, pack([3, 0, 1, b"f", 0, 2, 0, 0, 1, 4, 2, 1, 1, 1, 4, 2, -2, 0, 1, 4]))
    assert [id for id, _ in stream.range()] == [master, StreamID(2, 0), MAX_ID]


def test_the_first_entry_may_come_after_the_master_id() -> None:
    stream = Stream()
    stream.load_node(MASTER, changed(at_8=1, at_14=2))
    assert [str(id) for id, _ in stream.range()][:1] == ["10-6"]


def test_a_node_of_nothing_but_tombstones_is_left_out() -> None:
    """Servers before 8.8 could leave one behind when trimming."""
    stream = stream_before()
    before = state_of(stream)
    stream.load_node(MASTER, pack([0, 2, 1, b"f", 0, 3, 0, 0, b"v", 4, 3, 1, 0, b"v", 4]))
    assert state_of(stream) == before
    stream.load_node(StreamID(99, 0), pack(GOOD))
    assert len(stream) == 4


def test_nodes_of_the_older_backlens_are_taken_and_modernised() -> None:
    node = pack([1, 0, 1, b"f", 0, 2, 0, 0, b"x" * (16383 - 5), 4])
    stream = Stream()
    stream.load_node(StreamID(1, 1), with_old_backlens(node))
    assert list(stream.nodes()) == [(StreamID(1, 1), node)]
    assert with_old_backlens(node) != node


# --- what is no node -------------------------------------------------------------------------------------------

STRUCTURAL_LIES = {
    "nothing at all": pack([]),
    "only a count": pack([1]),
    "no field names": pack([1, 0, 0, 0, 2, 0, 0, 3]),
    "count one too many": changed(at_0=4),
    "count one too few": changed(at_0=2),
    "count zero": changed(at_0=0),
    "count negative": changed(at_0=-3),
    "count huge": changed(at_0=2**63 - 1),
    "count a string": changed(at_0=b"three"),
    "deleted one too many": changed(at_1=2),
    "deleted one too few": changed(at_1=0),
    "deleted negative": changed(at_1=-1),
    "deleted a string": changed(at_1=b"x"),
    "count and deleted changed places": changed(at_0=1, at_1=3),
    "count and deleted right in sum only": changed(at_0=2, at_1=2),
    "num-fields zero": changed(at_2=0),
    "num-fields one too many": changed(at_2=3),
    "num-fields one too few": changed(at_2=1),
    "num-fields negative": changed(at_2=-2),
    "num-fields 2^31": changed(at_2=2**31),
    "num-fields 2^62": changed(at_2=2**62),
    "num-fields 2^63-1": changed(at_2=2**63 - 1),
    "num-fields the least": changed(at_2=-(2**63)),
    "num-fields a string": changed(at_2=b"two"),
    "num-fields beyond the end": changed(at_2=len(GOOD)),
    "master ends in another number": changed(at_5=1),
    "master ends in a string": changed(at_5=b"0x"),
    "master ends in a number that reads as 0 bytes": changed(at_5=b""),
    "only the master entry": pack([1, 0, 1, b"f", 0]),
    "master entry and no entries, count zero": pack([0, 0, 1, b"f", 0]),
    "flags a string": changed(at_6=b"2x"),
    "flags with an unknown bit": changed(at_6=4),
    "flags with an unknown bit besides": changed(at_6=6),
    "flags negative": changed(at_6=-1),
    "flags of two bytes": changed(at_6=130),
    "flags with the tombstone bit, uncounted": changed(at_6=3),
    "flags say own fields": changed(at_6=0),
    "flags of an own-fields entry say the master's": changed(at_24=2),
    "tombstone counted but not marked": changed(at_12=2),
    "ms-delta a string": changed(at_7=b"x"),
    "seq-delta a string": changed(at_8=b"x"),
    "trailing count one too many": changed(at_11=6),
    "trailing count one too few": changed(at_11=4),
    "trailing count zero": changed(at_11=0),
    "trailing count negative": changed(at_11=-5),
    "trailing count a string": changed(at_11=b"x"),
    "last trailing count wrong": changed(at_30=5),
    "own num-fields zero": changed(at_27=0),
    "own num-fields negative": changed(at_27=-1),
    "own num-fields one too many": changed(at_27=2),
    "own num-fields 2^62": changed(at_27=2**62),
    "own num-fields 2^63-1": changed(at_27=2**63 - 1),
    "own num-fields such that twice of it wraps to 2": changed(at_27=-(2**63) + 1),
    "own num-fields a string": changed(at_27=b"x"),
    "IDs equal": changed(at_14=0),
    "IDs decreasing by seq": changed(at_14=3, at_19=0, at_20=2),
    "IDs decreasing by ms": changed(at_19=9),
    "ID decreasing to the first millisecond": changed(at_25=-10),
    "tombstone's ID equal to its neighbour's": changed(at_13=0, at_14=0),
    "first ID one before the master": changed(at_8=-1),
    "first ID a millisecond before the master": changed(at_7=-1),
    "a value missing": without(VALUE_1),
    "the last element missing": without(len(GOOD) - 1),
    "an entry cut in its middle": pack(GOOD[:-3]),
    "an entry cut after its flags": pack(GOOD[: OWN + 1]),
    "an entry cut after its ms-delta": pack(GOOD[: OWN + 2]),
    "an entry cut after its seq-delta": pack(GOOD[: OWN + 3]),
    "an entry cut after its num-fields": pack(GOOD[: OWN + 4]),
    "an element too many": pack([*GOOD, 0]),
    "a string too many": pack([*GOOD, b"x"]),
    "an entry too many": pack([*GOOD, 2, 99, 0, b"x", b"y", 5]),
}


@pytest.mark.parametrize("lie", STRUCTURAL_LIES)
def test_a_listpack_that_is_no_node_is_refused_and_changes_nothing(lie: str) -> None:
    assert_refused(MASTER, STRUCTURAL_LIES[lie])


def test_flags_must_be_the_one_byte_integer_that_is_rewritten_in_place() -> None:
    """The value 2 in a wider form reads the same, but setting a bit in its first byte would change its encoding."""
    raw = pack(GOOD)
    at = len(pack(GOOD[:FLAGS])) - 1
    assert raw[at : at + 2] == b"\x02\x01"
    for wide in ("c002 02", "f10200 03", "f2020000 04", "f302000000 05", "f40200000000000000 09"):
        listpack = raw[:at] + bytes.fromhex(wide) + raw[at + 2 :]
        assert_refused(MASTER, len(listpack).to_bytes(4, "little") + listpack[4:])


def test_bytes_that_are_no_listpack_are_refused_and_change_nothing() -> None:
    raw = pack(GOOD)
    for broken in (b"", raw[:-1], raw + b"\xff", b"\0" + raw[1:], raw[:4] + b"\0\0" + raw[6:], raw[:-1] + b"\xfe"):
        assert_refused(MASTER, broken)


def test_an_entry_0_0_is_refused() -> None:
    assert_refused(MIN_ID, pack([1, 0, 1, b"f", 0, 2, 0, 0, b"v", 4]), CorruptStream)
    assert_refused(MIN_ID, pack([1, 0, 1, b"f", 0, 2, 0, 1, b"v", 4]), CorruptStream)


@pytest.mark.parametrize("master", ["18-5", "18-4", "17-0", "10-6", "10-5", "10-4", "1-0"])
def test_a_node_must_follow_the_last_entry_of_the_one_before(master: str) -> None:
    stream = Stream()
    stream.load_node(MASTER, pack(GOOD))
    before = state_of(stream)
    with pytest.raises(CorruptStream, match=f"{master} does not follow"):
        stream.load_node(StreamID.parse(master), pack([1, 0, 1, b"f", 0, 2, 0, 0, b"v", 4]))
    assert state_of(stream) == before
    stream.load_node(StreamID(18, 6), pack([1, 0, 1, b"f", 0, 2, 0, 0, b"v", 4]))
    assert len(stream) == 4


def test_a_node_must_follow_a_tombstone_too() -> None:
    stream = Stream()
    stream.load_node(StreamID(1, 0), pack([1, 1, 1, b"f", 0, 2, 0, 0, b"v", 4, 3, 4, 0, b"v", 4]))
    with pytest.raises(CorruptStream, match="does not follow"):
        stream.load_node(StreamID(5, 0), pack([1, 0, 1, b"f", 0, 2, 0, 0, b"v", 4]))


@pytest.mark.parametrize("wrong", [None, "text", 5, bytearray(7)])
def test_a_listpack_is_bytes(wrong: Any) -> None:
    stream = stream_before()
    before = state_of(stream)
    with pytest.raises(TypeError):
        stream.load_node(MASTER, wrong)
    with pytest.raises(TypeError):
        stream.load_node(wrong, pack(GOOD))
    assert state_of(stream) == before


def test_a_heap_that_refuses_leaves_the_stream_as_it_was() -> None:
    node = pack(GOOD)
    for allowed in range(12):
        stream = stream_before()
        before = state_of(stream)
        fail_after(allowed)
        try:
            stream.load_node(MASTER, node)
        except MemoryError:
            fail_never()
            assert state_of(stream) == before
        else:
            fail_never()
            assert allowed > 0
            assert len(stream) == 4
            return
    raise AssertionError("12 allocations were not enough for one node")


# --- the counters that end the loading -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "last", "added"),
    [
        (2, "18-5", 9),
        (4, "18-5", 9),
        (0, "18-5", 9),
        (2**64 - 1, "18-5", 9),
        (3, "18-4", 9),
        (3, "0-0", 9),
        (3, "17-99", 9),
        (3, "18-5", 2),
        (3, "18-5", 0),
        (3, "18-5", 2**63),
        (3, "18-5", 2**64 - 1),
    ],
)
def test_counters_that_contradict_the_nodes_are_refused_and_change_nothing(length: int, last: str, added: int) -> None:
    stream = Stream()
    stream.load_node(MASTER, pack(GOOD))
    before = state_of(stream)
    with pytest.raises(CorruptStream):
        stream.load_state(length, StreamID.parse(last), MIN_ID, added)
    assert state_of(stream) == before
    stream.load_state(3, StreamID(18, 5), MIN_ID, 2**63 - 1)


# --- every element, wrong in every way -------------------------------------------------------------------------

WRONG: list[Element] = [0, 1, 2, 3, 4, 5, 6, 7, 127, 128, 4096, -1, -2, 2**31, 2**62, 2**63 - 1, -(2**63), b"", b"x"]


def random_nodes(count: int, seed: int) -> Iterator[tuple[StreamID, bytes]]:
    """Nodes with a few elements replaced, left out, doubled or swapped: many are good, many nearly so."""
    dice = random.Random(seed)
    for _ in range(count):
        elements = list(GOOD)
        for _ in range(dice.choice([1, 1, 1, 2, 3])):
            at = dice.randrange(len(elements))
            match dice.randrange(4):
                case 0 | 1:
                    elements[at] = dice.choice(WRONG)
                case 2:
                    elements.insert(at, dice.choice([*WRONG, elements[at]]))
                case 3:
                    del elements[at]
        yield dice.choice([MASTER, MASTER, MIN_ID, MAX_ID, StreamID(0, 1)]), pack(elements)


def obviously_a_node(master: StreamID, elements: list[Element]) -> list[tuple[int, int, bool]] | None:
    """The entries as (ms, seq, deleted), read from a plain list; None where it breaks any rule."""
    queue = list(elements)

    def integer() -> int:
        value = queue.pop(0)
        if not isinstance(value, int):
            raise TypeError
        return value

    try:
        live, dead, fields = integer(), integer(), integer()
        if fields < 1 or fields > len(queue):
            return None
        del queue[:fields]
        if integer() != 0:
            return None
        entries: list[tuple[int, int, bool]] = []
        while queue:
            began = len(queue)
            flags, ms, seq = integer(), integer(), integer()
            if not 0 <= flags <= 3:
                return None
            if flags & 2:
                body = fields
            else:
                own = integer()
                if own < 1:
                    return None
                body = 2 * own
            if body > len(queue):
                return None
            del queue[:body]
            here = began - len(queue)
            if integer() != here:
                return None
            id = ((master.ms + ms) % 2**64, (master.seq + seq) % 2**64)
            if entries and entries[-1][:2] >= id:
                return None
            if not entries and id < (master.ms, master.seq):
                return None
            entries.append((*id, bool(flags & 1)))
    except (IndexError, TypeError):
        return None
    deleted = sum(entry[2] for entry in entries)
    return entries if entries and (live, dead) == (len(entries) - deleted, deleted) and master != MIN_ID else None


def test_nearly_good_nodes_are_judged_as_by_an_obvious_reader() -> None:
    taken = refused = 0
    for master, node in random_nodes(300_000 if LONG else 20_000, seed=11):
        expected = obviously_a_node(master, list(Listpack.from_bytes(node)))
        stream = Stream(NodeLimits(0, 0))
        try:
            stream.load_node(master, node)
        except (CorruptListpack, CorruptStream):
            refused += 1
            assert expected is None, node.hex()
            assert (len(stream), stream.node_count, stream.last_id) == (0, 0, MIN_ID)
            continue
        taken += 1
        assert expected is not None, node.hex()
        alive = [(ms, seq) for ms, seq, deleted in expected if not deleted]
        assert [(id.ms, id.seq) for id, _ in stream.range()] == alive
        assert [(id.ms, id.seq) for id, _ in stream.range(reverse=True)] == alive[::-1]
        assert stream.node_count == (1 if alive else 0)
        if alive:
            assert (stream.last_id.ms, stream.last_id.seq) == expected[-1][:2]
    assert taken > 500
    assert refused > 5000
