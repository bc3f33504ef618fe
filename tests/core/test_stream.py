"""What a stream promises, claim by claim; that it keeps its promises in any order is for the walk and the machine."""

import random
from functools import partial
from typing import Any

import pytest

from headrace.core.entry_log import NodeLimits
from headrace.core.errors import (
    CorruptListpack,
    CorruptStream,
    EntryTooLarge,
    GroupExists,
    InvalidFields,
    InvalidStreamID,
    InvalidStreamState,
    StreamExhausted,
    StreamIDTooSmall,
)
from headrace.core.group import Verdict
from headrace.core.group_loading import load_consumer, load_pending, load_released
from headrace.core.stream import Fate, Policy, Stream
from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID
from headrace.formats.stream_value import dump_stream
from support.stream_model import GREATEST, MOST
from support.stream_twins import Twins

FV = (b"f", b"v")


def stream_of(*ids: str, limits: NodeLimits | None = None) -> Stream:
    stream = Stream(limits)
    for id in ids:
        stream.append(FV, id)
    return stream


def ids_of(stream: Stream, reverse: bool = False) -> list[str]:
    return [str(id) for id, _ in stream.range(reverse=reverse)]


def thousand_in_nodes_of_a_hundred() -> Stream:
    stream = Stream(NodeLimits(0, 100))
    for _ in range(1000):
        stream.append(FV)
    return stream


# --- appending -------------------------------------------------------------------------------------------------


def test_the_first_node_has_the_bytes_that_redis_writes() -> None:
    [(master, listpack)] = stream_of("1-1").nodes()
    assert master == StreamID(1, 1)
    assert listpack == bytes.fromhex("1d0000000a00 0101 0001 0101 816602 0001 0201 0001 0001 817602 0401 ff")


def test_a_clock_that_goes_back_does_not_take_the_ids_with_it() -> None:
    stream = Stream()
    assert [str(stream.append(FV, now_ms=now)) for now in (10, 10, 7, 11)] == ["10-0", "10-1", "10-2", "11-0"]


def test_a_generated_sequence_that_is_used_up_goes_on_in_the_next_millisecond() -> None:
    assert str(stream_of(f"5-{2**64 - 1}").append(FV, now_ms=5)) == "6-0"


def test_a_sequence_is_generated_for_the_milliseconds_given() -> None:
    stream = Stream()
    assert [str(stream.append(FV, id)) for id in ("0-*", "0-*", "7-*", "7-*")] == ["0-1", "0-2", "7-0", "7-1"]


def test_an_id_without_a_sequence_has_sequence_0() -> None:
    stream = stream_of("5")
    assert "5-0" in stream
    assert b"5" in stream


def test_duplicate_names_and_the_order_of_fields_are_kept() -> None:
    stream = stream_of()
    fields = [b"b", b"1", b"a", b"2", b"b", b"3"]
    assert stream.get(stream.append(fields, "1-1")) == fields


def test_fields_may_be_a_dict() -> None:
    stream = stream_of()
    assert stream.get(stream.append({b"a": b"1", b"b": b"2"}, "1-1")) == [b"a", b"1", b"b", b"2"]


def test_an_entry_may_have_more_fields_than_fit_on_the_stack() -> None:
    fields = [text for i in range(500) for text in (b"name%d" % i, b"%d" % i)]
    stream = stream_of("1-1")
    assert stream.get(stream.append(fields, "2-1")) == fields


def test_a_node_is_full_by_entries_counting_tombstones() -> None:
    stream = stream_of("1-0", "2-0", "3-0", limits=NodeLimits(0, 3))
    stream.delete(["2-0", "3-0"])
    stream.append(FV, "4-0")
    assert stream.node_count == 2


def test_a_node_is_full_when_its_bytes_and_those_of_the_entry_reach_the_limit() -> None:
    # 29 bytes with one entry of "f" and "v" (2.7); the raw bytes of the next are 2.
    assert stream_of("1-1", "1-2", limits=NodeLimits(32, 0)).node_count == 1
    assert stream_of("1-1", "1-2", limits=NodeLimits(31, 0)).node_count == 2


def test_limits_that_change_are_heeded_by_the_next_append() -> None:
    limits = NodeLimits(0, 1)
    stream = stream_of("1-0", "2-0", limits=limits)
    limits.max_entries = 10
    stream.append(FV, "3-0")
    assert stream.node_count == 2


# --- deleting --------------------------------------------------------------------------------------------------


def test_an_emptied_stream_remembers_its_last_id() -> None:
    stream = stream_of("1-0", "2-0")
    assert stream.delete(["1-0", "2-0", "2-0", "9-9"]) == 2
    assert (len(stream), stream.node_count, stream.first_id) == (0, 0, MIN_ID)
    assert (str(stream.last_id), str(stream.max_deleted_id), stream.entries_added) == ("2-0", "2-0", 2)
    with pytest.raises(StreamIDTooSmall):
        stream.append(FV, "2-0")


def test_one_bad_id_refuses_a_whole_deletion() -> None:
    stream = stream_of("1-0", "2-0")
    for delete in (
        stream.delete,
        lambda ids: stream.delete_with(ids, Policy.DELREF),
        lambda ids: stream.acknowledge_and_delete(b"g", ids, Policy.DELREF),
    ):
        with pytest.raises(InvalidStreamID):
            delete(["1-0", "no-id"])
    assert ids_of(stream) == ["1-0", "2-0"]


@pytest.mark.parametrize("id", ["1-0", b"1-0", StreamID(1, 0)], ids=["str", "bytes", "StreamID"])
def test_an_id_may_be_written_in_three_ways_wherever_ids_are_taken(id: StreamID | str | bytes) -> None:
    def fresh() -> Stream:
        stream = stream_of("1-0")
        stream.create_group(b"g").read_new(b"c", 1)
        return stream

    assert fresh().get(id) == [b"f", b"v"]
    assert fresh().delete([id]) == 1
    assert fresh().delete_with([id], Policy.DELREF) == [Fate.DELETED]
    assert fresh().acknowledge_and_delete(b"g", [id], Policy.ACKED) == [Fate.DELETED]
    assert fresh().trim_to_id(id) == 0
    group = fresh().group(b"g")
    assert group is not None
    assert group.claim(b"d", [id], 0, 2) == [StreamID(1, 0)]
    assert group.release_ids([id], Verdict.FAIL) == 1
    assert group.acknowledge([id]) == 1


def test_deletion_with_references_dropped_clears_every_pending_list() -> None:
    stream = stream_of("1-0", "2-0")
    groups = [stream.create_group(name) for name in (b"g", b"h")]
    for group in groups:
        group.read_new(b"c", 1)
    assert stream.delete_with(["1-0", "3-0"], Policy.DELREF) == [Fate.DELETED, Fate.MISSING]
    assert [group.pending_count for group in groups] == [1, 1]


def test_deletion_of_the_acknowledged_spares_what_a_group_has_pending_or_has_not_seen() -> None:
    stream = stream_of("1-0", "2-0", "3-0")
    group = stream.create_group(b"g")
    group.read_new(b"c", 1, 2)
    group.acknowledge(["1-0"])
    fates = stream.delete_with(["1-0", "2-0", "3-0", "9-0"], Policy.ACKED)
    assert fates == [Fate.DELETED, Fate.REFERENCED, Fate.REFERENCED, Fate.REFERENCED]
    assert stream_of("1-0").delete_with(["1-0"], Policy.ACKED) == [Fate.DELETED]


def test_acknowledging_and_deleting_needs_the_id_to_be_pending_in_the_group() -> None:
    stream = stream_of("1-0", "2-0", "3-0")
    group, other = stream.create_group(b"g"), stream.create_group(b"h")
    group.read_new(b"c", 1, 2)
    other.read_new(b"c", 1, 1)
    other.acknowledge(["1-0"])
    stream.delete(["2-0"])
    fates = stream.acknowledge_and_delete(b"g", ["1-0", "2-0", "3-0"], Policy.ACKED)
    assert fates == [Fate.DELETED, Fate.REFERENCED, Fate.MISSING]
    assert stream.acknowledge_and_delete(b"none", ["3-0"], Policy.KEEPREF) == [Fate.MISSING]
    assert ids_of(stream) == ["3-0"]


def test_groups_that_refer_to_an_id_are_named_whether_or_not_it_exists() -> None:
    stream = stream_of("1-0", "2-0")
    stream.create_group(b"behind")
    stream.create_group(b"pending").read_new(b"c", 1)
    stream.create_group(b"done", "2-0")
    assert stream.groups_referring_to("1-0") == [b"behind", b"pending"]
    assert stream.groups_referring_to("7-0") == [b"behind", b"done", b"pending"]


def test_the_last_id_can_go_back_before_tombstones_wherever_they_lie() -> None:
    """Regression: in the same node, tombstones made the stream refuse an ID; in another node they did not."""
    for entries_in_node in (1, 2, 3, 100):
        stream = Stream(NodeLimits(max_entries=entries_in_node))
        for id in ("1-0", "2-0", "3-0", "4-0"):
            stream.append(FV if id != "3-0" else [b"other", b"fields"], id)
        group = stream.create_group(b"g")
        group.read_new(b"c", 1)
        group.acknowledge(["1-0", "3-0", "4-0"])
        assert stream.trim_to_id("9-0", policy=Policy.ACKED) == 3
        stream.set_id("2-0")
        stream.append(FV, "2-1")
        stream.append(FV, "3-5")
        assert ids_of(stream) == ["2-0", "2-1", "3-5"]
        assert stream.get("2-1") == list(FV)
        assert [str(id) for id, _ in stream.range(reverse=True)] == ["3-5", "2-1", "2-0"]
        twin = Stream(NodeLimits())
        for master, node in stream.nodes():
            twin.load_node(master, node)
        twin.load_state(3, stream.last_id, stream.max_deleted_id, stream.entries_added)
        assert ids_of(twin) == ids_of(stream)


@pytest.mark.slow
def test_a_node_with_very_many_elements_can_lose_its_tombstones() -> None:
    stream = Stream(NodeLimits(max_entries=0, max_bytes=0))
    for number in range(1, 22_001):
        stream.append(FV, f"{number}-0")
    stream.delete([f"{number}-0" for number in range(100, 22_001)])
    stream.set_id("22000-0", max_deleted_id="0-1")
    stream.set_id("99-0")
    stream.append(FV, "99-1")
    assert ids_of(stream)[-2:] == ["99-0", "99-1"]
    [(master, node)] = stream.nodes()
    twin = Stream(NodeLimits())
    twin.load_node(master, node)
    assert len(twin) == 100


# --- trimming --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "approximate", "left"), [(666, False, 666), (555, False, 555), (444, True, 500), (400, True, 400)]
)
def test_trimming_to_a_length_takes_whole_nodes_where_it_need_not_be_exact(
    length: int, approximate: bool, left: int
) -> None:
    stream = thousand_in_nodes_of_a_hundred()
    assert stream.trim_to_length(length, approximate) == 1000 - left
    assert len(stream) == left == len(list(stream.range()))
    assert stream.max_deleted_id == MIN_ID


@pytest.mark.parametrize(("limit", "removed"), [(0, 1000), (99, 0), (100, 100), (250, 200), (1000, 1000)])
def test_a_limit_ends_trimming_before_the_node_that_would_exceed_it(limit: int, removed: int) -> None:
    assert thousand_in_nodes_of_a_hundred().trim_to_length(0, True, limit) == removed


def test_trimming_to_an_id_keeps_the_id() -> None:
    stream = stream_of("1-0", "2-0", "3-0")
    assert stream.trim_to_id("2-0") == 1
    assert ids_of(stream) == ["2-0", "3-0"]


def test_approximate_trimming_heeds_the_limit_but_not_the_nodes_where_references_count() -> None:
    for policy in (Policy.DELREF, Policy.ACKED):
        stream = thousand_in_nodes_of_a_hundred()
        assert stream.trim_to_length(444, approximate=True, policy=policy) == 556
        stream = thousand_in_nodes_of_a_hundred()
        assert stream.trim_to_length(444, approximate=True, limit=300, policy=policy) == 300


def test_trim_acked_keeps_entries_a_group_has_not_acknowledged() -> None:
    stream = stream_of("1-0", "2-0", "3-0", "4-0", limits=NodeLimits(0, 2))
    group = stream.create_group(b"g")
    group.read_new(b"c", 1, 3)
    group.acknowledge(["1-0", "3-0"])
    assert stream.trim_to_length(0, policy=Policy.ACKED) == 2
    assert ids_of(stream) == ["2-0", "4-0"]


def test_trim_delref_forgets_what_was_pending() -> None:
    stream = stream_of("1-0", "2-0", "3-0")
    group = stream.create_group(b"g")
    group.read_new(b"c", 1)
    assert stream.trim_to_length(1, policy=Policy.DELREF) == 2
    assert [str(id) for id, _, _, _ in group.pending_records()] == ["3-0"]


def test_a_node_goes_with_its_last_live_entry_even_where_a_tombstone_lies_beyond_the_threshold() -> None:
    stream = stream_of("1-0", "2-0", "3-0")
    stream.delete(["3-0"])
    assert stream.trim_to_id("2-5") == 2
    assert stream.node_count == 0


# --- ranges and walks ------------------------------------------------------------------------------------------


def test_an_open_walk_goes_on_behind_the_last_entry_it_gave() -> None:
    stream = stream_of("1-0", "2-0", "3-0", limits=NodeLimits(0, 2))
    forward, backward = stream.range(), stream.range(reverse=True)
    assert str(next(forward)[0]) == "1-0"
    assert str(next(backward)[0]) == "3-0"
    stream.delete(["1-0", "2-0"])
    stream.append(FV, "4-0")
    assert [str(id) for id, _ in forward] == ["3-0", "4-0"]
    assert [str(id) for id, _ in backward] == []


def test_an_open_walk_ends_when_everything_was_trimmed_and_stays_ended() -> None:
    stream = stream_of(*(f"{i}-0" for i in range(1, 50)), limits=NodeLimits(0, 4))
    walk = stream.range()
    next(walk)
    stream.trim_to_length(0)
    assert list(walk) == []
    stream.append(FV, "99-0")
    assert list(walk) == []


def test_a_walk_outlives_its_stream() -> None:
    stream = stream_of("1-0", "2-0")
    walk = stream.range()
    del stream
    assert [str(id) for id, _ in walk] == ["1-0", "2-0"]


def test_a_range_that_begins_behind_its_end_is_empty() -> None:
    assert list(stream_of("1-0").range(StreamID(2), StreamID(1))) == []


# --- history ---------------------------------------------------------------------------------------------------


def test_setting_the_id_sets_the_counters_that_are_given() -> None:
    stream = stream_of("1-0")
    stream.set_id("5-0", 9, "3-0")
    assert (str(stream.last_id), stream.entries_added, str(stream.max_deleted_id)) == ("5-0", 9, "3-0")
    stream.set_id("6-0", max_deleted_id="0-0")
    assert (str(stream.last_id), stream.entries_added, str(stream.max_deleted_id)) == ("6-0", 9, "3-0")


def test_entries_added_stays_at_the_greatest_count() -> None:
    stream = stream_of()
    stream.set_id("0-0", MOST - 1)
    for _ in range(3):
        stream.append(FV)
    assert stream.entries_added == MOST


def test_a_copy_changes_alone() -> None:
    stream = stream_of("1-0", "2-0")
    stream.create_group(b"g").read_new(b"c", 1, 1)
    stream.producers.record(b"p", b"i", StreamID(1))
    before = dump_stream(stream, "8.8")
    twin = stream.copy()
    assert dump_stream(twin, "8.8") == before
    twin.append(FV, "3-0")
    twin.delete(["1-0"])
    twin.producers.record(b"p", b"j", StreamID(2))
    group = twin.group(b"g")
    assert group is not None
    group.read_new(b"d", 2)
    assert dump_stream(stream, "8.8") == before


# --- refusals: the named exception, and nothing changed --------------------------------------------------------


def refused(stream: Stream, error: type[Exception], *calls: object) -> None:
    before = dump_stream(stream, "8.8")
    for call in calls:
        with pytest.raises(error):
            call()  # type: ignore[operator]
        assert dump_stream(stream, "8.8") == before


@pytest.fixture
def busy() -> Stream:
    """Entries, tombstones, and a group with owned and released records."""
    stream = stream_of("1-0", "2-0", "3-0", "4-0", limits=NodeLimits(0, 2))
    group = stream.create_group(b"g")
    group.read_new(b"c", 1, 3)
    group.release_ids(["1-0"], Verdict.FAIL)
    stream.delete(["3-0"])
    return stream


def test_an_id_that_is_no_id_is_refused(busy: Stream) -> None:
    group = busy.group(b"g")
    assert group is not None
    for bad in ("", "x", "1-", "-1", "-", "+", "$", "*-1", "1-1-1", "1" * 128, b"1-x", "18446744073709551616-0"):
        refused(
            busy,
            InvalidStreamID,
            lambda bad=bad: busy.append(FV, bad),
            lambda bad=bad: busy.get(bad),
            lambda bad=bad: bad in busy,
            lambda bad=bad: busy.position_of(bad),
            lambda bad=bad: busy.delete(["1-0", bad]),
            lambda bad=bad: busy.delete_with(["1-0", bad], Policy.DELREF),
            lambda bad=bad: busy.acknowledge_and_delete(b"g", ["1-0", bad], Policy.KEEPREF),
            lambda bad=bad: busy.trim_to_id(bad),
            lambda bad=bad: busy.set_id(bad),
            lambda bad=bad: busy.set_id("9-0", None, bad),
            lambda bad=bad: busy.create_group(b"new", bad),
            lambda bad=bad: busy.groups_referring_to(bad),
            lambda bad=bad: group.set_id(bad),
            lambda bad=bad: group.acknowledge(["1-0", bad]),
            lambda bad=bad: group.claim(b"new", ["1-0", bad], 0, 9),
            lambda bad=bad: group.auto_claim(b"new", 0, bad, 9),
            lambda bad=bad: group.release_ids(["2-0", bad], Verdict.FAIL),
            lambda bad=bad: group.read_history(b"new", bad, 9),
        )


def test_a_generated_id_cannot_stand_where_an_entry_is_named(busy: Stream) -> None:
    refused(busy, InvalidStreamID, lambda: busy.get("*"), lambda: busy.delete(["5-*"]))


def test_an_id_that_does_not_rise_is_refused(busy: Stream) -> None:
    for low in ("0-0", "0", "4-0", "3-9", "3-*", StreamID(4, 0), MIN_ID):
        refused(busy, StreamIDTooSmall, lambda low=low: busy.append(FV, low))
    busy.append(FV, f"9-{2**64 - 1}")
    refused(busy, StreamIDTooSmall, lambda: busy.append(FV, "9-*"))


def test_nothing_follows_the_greatest_id(busy: Stream) -> None:
    busy.append(FV, MAX_ID)
    for id in ("*", "5-0", f"{2**64 - 1}-*", MAX_ID, StreamID(5)):
        refused(busy, StreamExhausted, lambda id=id: busy.append(FV, id, 9))
    assert busy.get(MAX_ID) == [b"f", b"v"]
    assert ids_of(busy, reverse=True)[0] == str(MAX_ID)


def test_fields_that_are_not_pairs_are_refused(busy: Stream) -> None:
    nothing: tuple[Any, ...] = ((), [], {}, (b"f",))
    refused(busy, InvalidFields, *(partial(busy.append, fields) for fields in nothing))


def test_fields_that_are_not_bytes_are_refused(busy: Stream) -> None:
    many = [b"f", b"v"] * 40
    bad = ("fv", ("f", b"v"), (b"f", 1), [b"f", None], {"f": b"v"}, bytearray(b"fv"), [*many, b"f", "v"])
    refused(busy, TypeError, *(lambda fields=fields: busy.append(fields) for fields in bad))


def test_an_id_of_another_type_is_refused(busy: Stream) -> None:
    other: Any
    for other in (5, (1, 0), None):
        refused(
            busy, TypeError, *(partial(busy.append, FV, other), partial(busy.get, other), partial(busy.delete, [other]))
        )


def test_an_entry_beyond_2_to_the_30_bytes_is_refused(busy: Stream) -> None:
    half = bytes(600 * 2**20)
    refused(busy, EntryTooLarge, lambda: busy.append((half, half)))
    many = [half[:1]] * 2 + [bytes(2**20)] * 1024
    refused(busy, EntryTooLarge, lambda: busy.append(many))


def test_a_second_group_of_the_same_name_is_refused(busy: Stream) -> None:
    refused(busy, GroupExists, lambda: busy.create_group(b"g", "9-0", 3))


def test_a_group_position_below_zero_is_refused(busy: Stream) -> None:
    group = busy.group(b"g")
    assert group is not None
    refused(busy, ValueError, lambda: busy.create_group(b"new", "0-0", -2), lambda: group.set_id("1-0", -2))


def test_a_state_that_contradicts_the_entries_is_refused(busy: Stream) -> None:
    refused(
        busy,
        InvalidStreamState,
        lambda: busy.set_id("3-9"),
        lambda: busy.set_id("9-0", 2),
        lambda: busy.set_id("9-0", -1),
        lambda: busy.set_id("9-0", 2**63),
        lambda: busy.set_id("9-0", None, "9-1"),
    )
    busy.delete(["4-0"])
    refused(busy, InvalidStreamState, lambda: busy.set_id("3-9"))


def test_bytes_that_are_no_node_are_refused(busy: Stream) -> None:
    [(_, good)] = stream_of("1-1").nodes()
    empty = bytes.fromhex("07000000 0000 ff")
    dead = good[:6] + b"\x00\x01\x01\x01" + good[10:18] + b"\x03" + good[19:]
    for bad in (b"", good[:-1], good + b"\xff", empty, dead, good[:6] + b"\x02" + good[7:]):
        refused(busy, CorruptListpack, lambda bad=bad: busy.load_node(StreamID(9, 9), bad))
    refused(busy, CorruptStream, lambda: busy.load_node(StreamID(1, 1), good))


def test_a_state_that_contradicts_the_nodes_is_refused(busy: Stream) -> None:
    refused(
        busy,
        CorruptStream,
        lambda: busy.load_state(4, StreamID(9), MIN_ID, 9),
        lambda: busy.load_state(3, StreamID(3, 9), MIN_ID, 9),
        lambda: busy.load_state(3, StreamID(9), MIN_ID, 2),
        lambda: busy.load_state(3, StreamID(9), MIN_ID, 2**63),
    )


def test_pending_lists_that_contradict_themselves_are_refused() -> None:
    group = stream_of("1-0").create_group(b"g")
    load_pending(group, [(StreamID(1), 5, 1), (StreamID(2), 5, 1)])
    with pytest.raises(CorruptStream, match="two pending records"):
        load_pending(group, [(StreamID(1), 5, 1)])
    with pytest.raises(CorruptStream, match="not pending"):
        load_consumer(group, b"a", 1, 1, [StreamID(7)])
    load_consumer(group, b"b", 1, 1, [StreamID(1)])
    with pytest.raises(CorruptStream, match="two consumers"):
        load_consumer(group, b"b", 1, 1, [])
    with pytest.raises(CorruptStream, match="owned by two"):
        load_consumer(group, b"c", 1, 1, [StreamID(1)])
    for released in ([StreamID(1)], [StreamID(7)], [], [StreamID(2), StreamID(2)]):
        with pytest.raises(CorruptStream):
            load_released(group, released)
    load_released(group, [StreamID(2)])
    assert [(str(id), owner) for id, owner, _, _ in group.delivery_order()] == [("2-0", None), ("1-0", b"b")]


# --- nodes with wide counters ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_counters_of_a_node_may_grow_wide_while_entries_die_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    twins = Twins(0, 0)
    for _ in range(4200):
        twins.append((b"f", b"v" * rng.randrange(3)), None, 0)
    assert twins.stream.node_count == 1
    ids = [(0, seq) for seq in range(1, 4201)]
    rng.shuffle(ids)
    for start in range(0, 4200, 700):
        twins.delete(ids[start : start + 700 - (start == 3500)], Policy.KEEPREF)
        twins.append((b"f", b"v"), None, 0)
        twins.check_everything()
    twins.trim_to_length(1, False, 0, Policy.KEEPREF)
    twins.check_everything()


def test_ids_at_both_ends_of_a_node_may_lie_any_distance_apart() -> None:
    twins = Twins(0, 0)
    for id in ((0, 2**64 - 1), (1, 0), (2**63, 5), (2**63, 2**63 + 7), (2**64 - 1, 0), GREATEST):
        twins.append((b"f", b"v"), id, 0)
    twins.check_everything()
    twins.continue_with_restored("8.8")
