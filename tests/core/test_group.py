"""What a consumer group promises, claim by claim."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headrace.core.group import Group, Verdict
from headrace.core.stream import Policy, Stream
from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID
from headrace.formats.stream_value import dump_stream, restore_stream

FV = (b"f", b"v")
MOST = 2**63 - 1


def stream_to(last: int) -> Stream:
    """Entries 1-0, 2-0 and so on."""
    stream = Stream()
    for ms in range(1, last + 1):
        stream.append(FV, f"{ms}-0")
    return stream


def progress(group: Group) -> tuple[int | None, int | None]:
    return (group.position, group.lag)


def given(entries: Sequence[tuple[StreamID, *tuple[object, ...]]]) -> list[str]:
    return [str(entry[0]) for entry in entries]


def rows(group: Group) -> list[tuple[str, bytes | None, int, int]]:
    return [(str(id), consumer, time_ms, count) for id, consumer, time_ms, count in group.pending_records()]


def order(group: Group) -> list[str]:
    return [str(id) for id, *_ in group.delivery_order()]


# --- position and lag: worked examples ------------------------------------------------------------------------


def test_lag_of_a_group_that_reads_from_the_start() -> None:
    group = stream_to(5).create_group(b"g")
    assert progress(group) == (None, 5)
    group.read_new(b"c", 1, 1)
    assert progress(group) == (1, 4)


def test_lag_is_unknown_across_a_deletion_until_the_last_entry_is_read() -> None:
    stream = stream_to(5)
    stream.delete(["3-0"])
    group = stream.create_group(b"g")
    assert progress(group) == (None, None)
    for _ in range(3):
        group.read_new(b"c", 1, 1)
        assert progress(group) == (None, None)
    group.read_new(b"c", 1, 1)
    assert progress(group) == (5, 0)
    stream.append(FV, "6-0")
    assert progress(group) == (5, 1)
    other = stream.create_group(b"other")
    stream.trim_to_id("3-0")
    assert progress(other) == (None, 3)


def test_lag_is_known_again_when_the_deletions_lie_before_all_entries() -> None:
    stream = stream_to(1)
    group = stream.create_group(b"g")
    group.read_new(b"c", 1)
    stream.append(FV, "2-0")
    stream.append(FV, "3-0")
    stream.delete(["2-0"])
    assert progress(group) == (1, None)
    stream.delete(["1-0"])
    assert progress(group) == (1, 1)
    group.read_new(b"c", 1)
    assert progress(group) == (3, 0)


def test_an_emptied_stream_has_no_lag() -> None:
    stream = stream_to(3)
    group = stream.create_group(b"g")
    stream.trim_to_length(0)
    assert progress(group) == (None, 0)


def test_a_position_is_never_beyond_the_entries_that_were_added() -> None:
    """Regression: a greater one made a payload that nobody could load."""
    stream = stream_to(3)
    group = stream.create_group(b"g", "1-0", 10)
    assert progress(group) == (3, 0)
    group.set_id("1-0", 10)
    assert progress(group) == (3, 0)
    group.read_new(b"c", 1)
    assert progress(group) == (3, 0)
    stream.trim_to_length(1)
    stream.set_id("3-0", 1)
    assert progress(group) == (1, 0)
    restored = restore_stream(dump_stream(stream)).group(b"g")
    assert restored is not None
    assert progress(restored) == (1, 0)


def test_a_position_that_is_not_given_is_unknown() -> None:
    group = stream_to(3).create_group(b"g", "1-0", 1)
    group.set_id("1-0")
    assert group.position is None


def test_a_position_stays_at_the_greatest_count() -> None:
    """Regression: one more than 2^63-1 came out negative."""
    stream = stream_to(3)
    stream.set_id("3-0", MOST)
    group = stream.create_group(b"g", "1-0", MOST)
    group.read_new(b"c", 1)
    assert progress(group) == (MOST, 0)


# --- delivering ------------------------------------------------------------------------------------------------


def test_new_entries_are_delivered_once_across_consumers() -> None:
    group = stream_to(3).create_group(b"g")
    assert given(group.read_new(b"a", 1, 2)) == ["1-0", "2-0"]
    assert given(group.read_new(b"b", 2)) == ["3-0"]
    assert given(group.read_new(b"a", 3)) == []
    assert rows(group) == [("1-0", b"a", 1, 1), ("2-0", b"a", 1, 1), ("3-0", b"b", 2, 1)]


def test_reading_without_acknowledgement_leaves_no_record_and_does_not_count_as_active() -> None:
    group = stream_to(2).create_group(b"g")
    assert given(group.read_new(b"a", 5, noack=True)) == ["1-0", "2-0"]
    [consumer] = group.consumer_list()
    assert (group.pending_count, consumer.seen_time, consumer.active_time) == (0, 5, -1)
    assert str(group.last_delivered_id) == "2-0"


def test_redelivery_after_the_id_was_set_back_resets_the_count_and_the_owner() -> None:
    group = stream_to(1).create_group(b"g")
    group.read_new(b"a", 1)
    group.claim(b"a", ["1-0"], 0, 2)
    assert rows(group) == [("1-0", b"a", 2, 2)]
    group.set_id("0-0")
    assert given(group.read_new(b"b", 3)) == ["1-0"]
    assert rows(group) == [("1-0", b"b", 3, 1)]


def test_redelivery_takes_a_record_out_of_the_released_zone() -> None:
    group = stream_to(2).create_group(b"g")
    group.read_new(b"a", 1)
    group.release_ids(["2-0"], Verdict.FATAL)
    group.set_id("1-0")
    group.read_new(b"a", 3)
    assert (group.released_count, order(group)) == (0, ["1-0", "2-0"])
    assert rows(group)[1] == ("2-0", b"a", 3, 1)


def test_history_gives_the_consumer_its_own_again_and_counts_it() -> None:
    stream = stream_to(3)
    group = stream.create_group(b"g")
    group.read_new(b"a", 1, 2)
    group.read_new(b"b", 1)
    stream.delete(["1-0"])
    assert group.read_history(b"a", MIN_ID, 7) == [(StreamID(1), None), (StreamID(2), [b"f", b"v"])]
    assert rows(group) == [("1-0", b"a", 1, 1), ("2-0", b"a", 7, 2), ("3-0", b"b", 1, 1)]
    assert [(c.seen_time, c.active_time) for c in group.consumer_list()] == [(7, 1), (1, 1)]
    assert group.read_history(b"a", "2-0", 8) == []
    assert group.read_history(b"a", MAX_ID, 8) == []
    assert given(group.read_history(b"a", MIN_ID, 8, 1)) == ["1-0"]


def test_a_group_at_the_greatest_id_has_nothing_new() -> None:
    assert stream_to(2).create_group(b"g", MAX_ID).read_new(b"a", 1) == []


def test_stale_records_come_released_first_then_by_time_with_what_they_were_before() -> None:
    stream = stream_to(4)
    group = stream.create_group(b"g")
    for now in (10, 20, 30, 40):
        group.read_new(b"a", now, 1)
    group.release_ids(["3-0", "2-0"], Verdict.FAIL)
    stream.delete(["1-0"])
    found = group.read_stale(b"b", 5, 45)
    assert [(str(id), idle, deliveries) for id, _, idle, deliveries in found] == [
        ("3-0", 45, 1),
        ("2-0", 45, 1),
        ("4-0", 5, 1),
    ]
    assert rows(group) == [("1-0", b"a", 10, 1), *((f"{ms}-0", b"b", 45, 2) for ms in (2, 3, 4))]


def test_a_record_that_is_claimed_is_not_met_again_where_the_clock_was_set_back() -> None:
    """Regression: where the list ended with a later time, the walk met its own claims again, for ever."""
    group = stream_to(3).create_group(b"g")
    for now in (5, 10, 100):
        group.read_new(b"a", now, 1)
    assert given(group.read_stale(b"b", 0, 50, 1000)) == ["1-0", "2-0"]
    assert order(group) == ["1-0", "2-0", "3-0"]


def test_the_walk_over_the_stale_stops_at_the_first_that_is_too_fresh() -> None:
    group = stream_to(3).create_group(b"g")
    for now in (10, 20, 30):
        group.read_new(b"a", now, 1)
    assert given(group.read_stale(b"b", 10, 30)) == ["1-0", "2-0"]
    assert given(group.read_stale(b"b", 0, 30, 2)) == ["3-0", "1-0"]


# --- claiming --------------------------------------------------------------------------------------------------


def test_a_claim_skips_what_is_too_fresh_but_takes_the_released() -> None:
    group = stream_to(2).create_group(b"g")
    group.read_new(b"a", 10)
    group.release_ids(["2-0"], Verdict.SILENT)
    assert given_ids(group.claim(b"b", ["1-0", "2-0"], 100, 20)) == ["2-0"]
    assert rows(group) == [("1-0", b"a", 10, 1), ("2-0", b"b", 20, 1)]


def given_ids(ids: list[StreamID]) -> list[str]:
    return [str(id) for id in ids]


def test_a_claim_forgets_the_records_of_entries_that_are_gone() -> None:
    stream = stream_to(2)
    group = stream.create_group(b"g")
    group.read_new(b"a", 10)
    stream.delete(["1-0"])
    assert given_ids(group.claim(b"b", ["1-0", "2-0"], 0, 20)) == ["2-0"]
    assert given_ids([id for id, *_ in group.pending_records()]) == ["2-0"]


@pytest.mark.parametrize(
    ("options", "row"),
    [
        ({}, ("1-0", b"b", 20, 2)),
        ({"just_id": True}, ("1-0", b"b", 20, 1)),
        ({"deliveries": 0}, ("1-0", b"b", 20, 0)),
        ({"deliveries": MOST}, ("1-0", b"b", 20, MOST)),
        ({"time_ms": 7}, ("1-0", b"b", 7, 2)),
        ({"time_ms": 21}, ("1-0", b"b", 20, 2)),
        ({"time_ms": -1}, ("1-0", b"b", 20, 2)),
    ],
)
def test_a_forced_claim_makes_a_record(options: dict[str, Any], row: tuple[str, bytes, int, int]) -> None:
    group = stream_to(1).create_group(b"g")
    assert group.claim(b"b", ["1-0"], 0, 20, **options) == []
    assert given_ids(group.claim(b"b", ["1-0", "2-0"], 0, 20, force=True, **options)) == ["1-0"]
    assert rows(group) == [row]


def test_a_consumer_that_claims_nothing_was_seen_but_not_active() -> None:
    group = stream_to(1).create_group(b"g")
    group.claim(b"b", ["1-0"], 0, 20)
    group.auto_claim(b"b", 0, MIN_ID, 21)
    [consumer] = group.consumer_list()
    assert (consumer.seen_time, consumer.active_time) == (21, -1)
    group.claim(b"b", ["1-0"], 0, 22, force=True)
    assert consumer.active_time == 22


def test_automatic_claims_count_the_dead_and_tell_where_to_go_on() -> None:
    stream = stream_to(5)
    group = stream.create_group(b"g")
    group.read_new(b"a", 10)
    stream.delete(["1-0"])
    go_on, claimed, deleted = group.auto_claim(b"b", 0, MIN_ID, 20, 2)
    assert (str(go_on), given_ids(claimed), given_ids(deleted)) == ("3-0", ["2-0"], ["1-0"])
    go_on, claimed, deleted = group.auto_claim(b"b", 0, go_on, 20, 100, True)
    assert (go_on, given_ids(claimed), deleted) == (MIN_ID, ["3-0", "4-0", "5-0"], [])


def test_automatic_claims_look_at_ten_records_for_each_result() -> None:
    group = stream_to(25).create_group(b"g")
    group.read_new(b"a", 10)
    go_on, claimed, _ = group.auto_claim(b"b", 100, MIN_ID, 20, 2)
    assert (str(go_on), claimed) == ("21-0", [])


@pytest.mark.parametrize("start", [1, MOST - 1, MOST])
def test_delivery_counts_stay_at_the_greatest(start: int) -> None:
    group = stream_to(1).create_group(b"g")
    group.claim(b"a", ["1-0"], 0, 1, force=True, deliveries=start)
    group.claim(b"a", ["1-0"], 0, 1)
    group.read_history(b"a", MIN_ID, 1)
    group.read_stale(b"a", 0, 1)
    group.auto_claim(b"a", 0, MIN_ID, 1)
    assert group.pending_records()[0][3] == min(start + 4, MOST)


# --- releasing and acknowledging -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verdict", "deliveries", "expected"),
    [
        (Verdict.SILENT, None, 1),
        (Verdict.FAIL, None, 2),
        (Verdict.FATAL, None, MOST),
        (Verdict.FATAL, 9, 9),
        (Verdict.SILENT, 0, 0),
    ],
)
def test_the_verdict_decides_the_count_of_what_is_released(
    verdict: Verdict, deliveries: int | None, expected: int
) -> None:
    group = stream_to(1).create_group(b"g")
    group.read_new(b"a", 1)
    group.claim(b"a", ["1-0"], 0, 2)
    assert group.release_ids(["1-0", "5-0"], verdict, deliveries) == 1
    assert rows(group) == [("1-0", None, 0, expected)]
    assert [len(consumer) for consumer in group.consumer_list()] == [0]


def test_a_count_does_not_fall_below_zero() -> None:
    group = stream_to(1).create_group(b"g")
    assert group.release_ids(["1-0", "2-0"], Verdict.SILENT, None, True) == 1
    group.release_ids(["1-0"], Verdict.SILENT)
    assert rows(group) == [("1-0", None, 0, 0)]
    assert group.consumer_list() == []


def test_what_is_released_again_goes_to_the_end_of_the_zone() -> None:
    group = stream_to(3).create_group(b"g")
    group.read_new(b"a", 1)
    assert group.release_ids(["2-0", "3-0", "2-0"], Verdict.FAIL) == 3
    assert order(group) == ["3-0", "2-0", "1-0"]
    assert group.released_count == 2


def test_an_owned_record_of_time_0_is_not_in_the_zone() -> None:
    group = stream_to(3).create_group(b"g")
    group.read_new(b"a", 5)
    group.claim(b"a", ["3-0"], 0, 6, time_ms=0)
    group.release_ids(["2-0"], Verdict.FAIL)
    assert order(group) == ["2-0", "3-0", "1-0"]
    assert group.released_count == 1


def test_records_given_the_same_time_stay_in_the_order_in_which_they_were_given_it() -> None:
    group = stream_to(4).create_group(b"g")
    group.read_new(b"a", 5)
    group.claim(b"a", ["2-0"], 0, 5)
    assert order(group) == ["1-0", "3-0", "4-0", "2-0"]
    group.claim(b"a", ["4-0"], 0, 9, time_ms=3)
    group.claim(b"a", ["1-0"], 0, 9, time_ms=3)
    assert order(group) == ["4-0", "1-0", "3-0", "2-0"]


def test_the_released_may_be_acknowledged_and_survive_their_last_owner() -> None:
    group = stream_to(2).create_group(b"g")
    group.read_new(b"a", 1)
    group.release_ids(["1-0"], Verdict.FAIL)
    assert group.delete_consumer(b"a") == 1
    assert group.delete_consumer(b"a") == 0
    assert rows(group) == [("1-0", None, 0, 1)]
    assert group.acknowledge(["1-0", "1-0", "2-0"]) == 1
    assert (group.pending_count, group.released_count) == (0, 0)


def test_acknowledgement_does_not_need_the_entry() -> None:
    stream = stream_to(1)
    group = stream.create_group(b"g")
    group.read_new(b"a", 1)
    stream.delete_with(["1-0"], Policy.KEEPREF)
    assert group.pending_count == 1
    assert group.acknowledge(["1-0"]) == 1


def test_a_number_freed_by_a_consumer_goes_to_the_next_one_without_its_records() -> None:
    group = stream_to(4).create_group(b"g")
    for name in (b"a", b"b"):
        group.read_new(name, 1, 2)
    group.delete_consumer(b"a")
    group.create_consumer(b"c", 2)
    assert [(c.name, given_ids(c.pending_ids())) for c in group.consumer_list()] == [
        (b"b", ["3-0", "4-0"]),
        (b"c", []),
    ]


def test_a_consumer_held_after_its_deletion_owns_nothing() -> None:
    group = stream_to(2).create_group(b"g")
    group.read_new(b"a", 1)
    consumer = group.consumer(b"a")
    assert consumer is not None
    group.delete_consumer(b"a")
    assert (len(consumer), consumer.pending_ids(), group.consumer(b"a")) == (0, [], None)


def test_a_group_held_after_its_destruction_still_answers() -> None:
    stream = stream_to(2)
    group = stream.create_group(b"g")
    assert stream.destroy_group(b"g")
    assert not stream.destroy_group(b"g")
    del stream
    assert given(group.read_new(b"a", 1)) == ["1-0", "2-0"]


# --- refusals --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda group: group.read_new(b"new", 9, -1),
        lambda group: group.read_new(b"new", 2**63),
        lambda group: group.read_new("new", 9),
        lambda group: group.read_stale(b"new", 2**63, 9),
        lambda group: group.claim(b"new", ["1-0"], 2**63, 9),
        lambda group: group.claim(b"new", ["1-0"], 0, 9, deliveries=-1),
        lambda group: group.claim(b"new", [1], 0, 9),
        lambda group: group.auto_claim(b"new", 0, MIN_ID, 9, -1),
        lambda group: group.auto_claim(b"new", 2**63, MIN_ID, 9),
        lambda group: group.release_ids(["1-0"], Verdict.FAIL, -1),
        lambda group: group.set_id("1-0", 2**63),
        lambda group: group.create_consumer(b"new", 2**63),
    ],
)
def test_an_argument_out_of_range_changes_nothing(call: Callable[[Group], object]) -> None:
    """Regression: the consumer was made, or its seen time set, before the other arguments were checked."""
    stream = stream_to(3)
    group = stream.create_group(b"g")
    group.read_new(b"a", 1, 2)
    before = dump_stream(stream, "8.8")
    with pytest.raises((OverflowError, TypeError)):
        call(group)
    assert dump_stream(stream, "8.8") == before
