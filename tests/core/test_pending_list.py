"""Pending lists of thousands: blocks that fill and empty, chunks that split and merge, and the order of delivery."""

import random

import pytest

from headrace.core.group import Verdict
from headrace.core.stream_id import StreamID
from headrace.formats.stream_value import dump_stream, restore_stream
from support.stream_model import ZERO
from support.stream_twins import Twins

ENTRIES = 3000
CONSUMERS = [b"a", b"b", b"c"]
HEAP_ROUNDING = 64  # a block that shrinks in place may keep a little more than a new one of its size


def twins_with_entries(entries: int = ENTRIES) -> Twins:
    """Entries 0-1, 0-2 … and a group that has read nothing."""
    twins = Twins()
    for _ in range(entries):
        twins.append((b"f", b"v"), None, 0)
    twins.create_group(b"g", ZERO, None)
    return twins


def shuffled(rng: random.Random, entries: int = ENTRIES) -> list[tuple[int, int]]:
    ids = [(0, seq) for seq in range(1, entries + 1)]
    rng.shuffle(ids)
    return ids


@pytest.mark.parametrize("arrangement", ["rising", "falling", "shuffled", "inwards"])
def test_records_are_found_by_id_however_they_came(arrangement: str) -> None:
    twins = twins_with_entries()
    ids = [(0, seq) for seq in range(1, ENTRIES + 1)]
    if arrangement == "falling":
        ids.reverse()
    elif arrangement == "shuffled":
        random.Random(1).shuffle(ids)
    elif arrangement == "inwards":
        ids = [ids[i // 2 if i % 2 else -1 - i // 2] for i in range(ENTRIES)]
    for now, start in enumerate(range(0, ENTRIES, 100)):
        twins.claim(
            b"g",
            CONSUMERS[now % 3],
            ids[start : start + 100],
            0,
            now,
            time=None,
            deliveries=None,
            force=True,
            just_id=False,
        )
    twins.check_everything()
    twins.acknowledge(b"g", ids[::3])
    twins.check_everything()
    twins.acknowledge(b"g", ids[1:])
    twins.check_everything()
    assert twins.group(b"g").pending_count == 0


@pytest.mark.parametrize("chunks", [1, 2])
def test_a_full_chunk_takes_one_more_at_any_place(chunks: int) -> None:
    """A chunk holds 256; what follows it, if anything, stays where it is."""
    stream = twins_with_entries(256 * 2 * chunks + 1).stream
    even = [StreamID(0, 2 * i) for i in range(1, 256 * chunks + 1)]
    for odd in range(1, 256 * 2 + 2, 2):
        group = stream.create_group(b"%d" % odd)
        group.claim(b"a", even, 0, 1, force=True)
        group.claim(b"a", [StreamID(0, odd)], 0, 1, force=True)
        ids = sorted([*even, StreamID(0, odd)])
        assert [id for id, *_ in group.pending_records()] == ids
        [consumer] = group.consumer_list()
        assert consumer.pending_ids() == ids
        stream.destroy_group(group.name)


@pytest.mark.slow
@pytest.mark.parametrize("most_deliveries", [3, 2**32])
@pytest.mark.parametrize("seed", range(3))
def test_a_large_list_keeps_all_its_orders_through_random_changes(seed: int, most_deliveries: int) -> None:
    rng = random.Random(seed)
    twins = twins_with_entries()
    now = 0
    for step in range(60):
        now = max(0, now + rng.choice((0, 1, 10, -3)))
        some = shuffled(rng)[: rng.choice((10, 300, 900))]
        start = rng.randrange(1, ENTRIES)
        run = [(0, seq) for seq in range(start, start + rng.choice((20, 600)))]
        ids = rng.choice((some, run))
        consumer = rng.choice(CONSUMERS)
        time = rng.choice((None, now, now // 2))
        action = rng.randrange(8)
        if action <= 2:
            deliveries = rng.choice((None, most_deliveries))
            twins.claim(b"g", consumer, ids, 0, now, time=time, deliveries=deliveries, force=True, just_id=False)
        elif action == 3:
            twins.release(b"g", ids[:100], Verdict.FAIL, None, False)
        elif action == 4:
            twins.acknowledge(b"g", ids)
        elif action == 5:
            twins.read_stale(b"g", consumer, rng.choice((0, 5)), now, rng.choice((0, 200)))
        elif action == 6:
            twins.auto_claim(b"g", consumer, 1, rng.choice(ids), now, count=100, just_id=False)
        elif rng.random() < 0.3:
            twins.delete_consumer(b"g", consumer)
        else:
            twins.read_new(b"g", consumer, now, 300, False)
        if step % 10 == 0:
            twins.check_everything()
    twins.check_everything()
    twins.continue_with_copy()
    twins.acknowledge(b"g", shuffled(rng)[:2000])
    twins.check_everything()


@pytest.mark.parametrize("a_time", [1, 7, 400])
def test_records_keep_the_order_of_times_that_are_given_in_any_order(a_time: int) -> None:
    """Searches for a place in the chain begin at marks, which go along with the records that they stand at."""
    rng = random.Random(a_time)
    twins = twins_with_entries()
    group, turn, end = twins.group(b"g"), 0, ENTRIES // a_time + 1
    given: dict[StreamID, tuple[int, int]] = {}  # ID: its time, and when it was given it
    released: list[StreamID] = []

    def give(ids: list[StreamID], time: int) -> None:
        nonlocal turn
        for id in ids:
            given[id] = (time, turn)
            turn += 1
        released[:] = [id for id in released if id not in given]

    def some(count: int) -> list[StreamID]:
        return [StreamID(0, seq) for seq in rng.sample(range(1, ENTRIES + 1), count)]

    for now in range(end):
        give([id for id, _ in group.read_new(CONSUMERS[now % 3], now, a_time)], now)
    for _ in range(60):
        for ids in (some(40), some(1)):
            time = rng.randrange(end)
            give(group.claim(b"a", ids, 0, end, time_ms=time, force=True, just_id=True), time)
        left = some(2)
        group.release_ids(left, Verdict.FAIL, force=True)
        start = rng.randrange(1, ENTRIES)
        done = [*some(60), *(StreamID(0, seq) for seq in range(start, start + 60))]
        group.acknowledge(done)
        released[:] = [id for id in [*(id for id in released if id not in left), *left] if id not in done]
        for id in [*left, *done]:
            given.pop(id, None)
        assert [id for id, *_ in group.delivery_order()] == [*released, *sorted(given, key=given.__getitem__)]
    group.acknowledge(list(given))
    assert [id for id, *_ in group.delivery_order()] == released


def test_an_emptied_list_gives_its_memory_back() -> None:
    twins = twins_with_entries()
    group = twins.group(b"g")
    group.create_consumer(b"a", 1)
    empty = group.memory_usage
    for _ in range(3):
        group.set_id("0-0")
        group.read_new(b"a", 1)
        full = group.memory_usage
        assert full - empty < 56 * ENTRIES
        ids = [id for id, *_ in group.pending_records()]
        random.Random(2).shuffle(ids)
        group.acknowledge(ids)
        assert group.memory_usage <= empty + HEAP_ROUNDING


@pytest.mark.parametrize("every", [2, 50])
def test_a_few_that_nobody_acknowledges_do_not_keep_the_memory_of_all(every: int) -> None:
    rng = random.Random(every)
    twins = twins_with_entries()
    for now, consumer in enumerate(CONSUMERS):
        twins.read_new(b"g", consumer, now, ENTRIES // 3, False)
    stuck = [(0, seq) for seq in range(every, ENTRIES + 1, every)]
    twins.release(b"g", rng.sample(stuck, 20), Verdict.FAIL, None, False)
    done = [id for id in shuffled(rng) if id[1] % every]
    for start in range(0, len(done), 400):
        twins.acknowledge(b"g", done[start : start + 400])
        twins.release(b"g", rng.sample(stuck, 3), Verdict.FAIL, None, False)
        twins.claim(b"g", b"a", rng.sample(stuck, 3), 0, 9, time=1, deliveries=None, force=False, just_id=False)
        twins.check_everything()
    few = twins_with_entries(len(stuck))
    for now, consumer in enumerate(CONSUMERS):
        few.read_new(b"g", consumer, now, len(stuck) // 3, False)
    spare = 200 * 40  # two blocks may be free, and chunks have room
    assert twins.group(b"g").memory_usage < 1.8 * few.group(b"g").memory_usage + spare


def test_consumers_that_go_give_their_memory_back() -> None:
    twins = twins_with_entries()
    twins.read_new(b"g", b"a", 1, 0, False)
    twins.claim(
        b"g", b"b", shuffled(random.Random(3))[:1000], 0, 2, time=None, deliveries=None, force=False, just_id=False
    )
    for consumer in CONSUMERS:
        twins.delete_consumer(b"g", consumer)
    fresh = twins.stream.create_group(b"fresh")
    assert twins.group(b"g").memory_usage <= fresh.memory_usage + HEAP_ROUNDING


@pytest.mark.parametrize("deliveries", [0, 1, 2**32 - 3, 2**32 - 2, 2**32 - 1, 2**32, 2**63 - 2, 2**63 - 1])
def test_every_delivery_count_is_kept(deliveries: int) -> None:
    twins = twins_with_entries(3)
    twins.claim(b"g", b"a", [(0, 1), (0, 2)], 0, 1, time=None, deliveries=deliveries, force=True, just_id=False)
    twins.check_everything()
    twins.claim(b"g", b"b", [(0, 1)], 0, 2, time=None, deliveries=None, force=False, just_id=False)
    twins.release(b"g", [(0, 2)], Verdict.SILENT, None, False)
    twins.check_everything()
    twins.continue_with_restored("8.8")
    twins.continue_with_copy()
    twins.acknowledge(b"g", [(0, 1), (0, 2)])
    twins.claim(b"g", b"a", [(0, 1), (0, 2), (0, 3)], 0, 3, time=None, deliveries=None, force=True, just_id=True)
    twins.check_everything()


def test_a_loaded_list_is_in_the_order_of_times_then_ids_behind_the_released() -> None:
    twins = twins_with_entries(6)
    for seq, time in ((5, 30), (2, 30), (6, 10), (1, 0), (3, 0), (4, 20)):
        twins.claim(b"g", b"a", [(0, seq)], 0, 40, time=time, deliveries=None, force=True, just_id=False)
    twins.release(b"g", [(0, 4), (0, 3)], Verdict.FAIL, None, False)
    loaded = restore_stream(dump_stream(twins.stream)).group(b"g")
    assert loaded is not None
    assert [id.seq for id, *_ in loaded.delivery_order()] == [4, 3, 1, 6, 2, 5]
    assert [id.seq for id, *_ in twins.group(b"g").delivery_order()] == [4, 3, 1, 6, 5, 2]


def test_the_pending_of_an_unknown_consumer_are_none() -> None:
    group = twins_with_entries(3).group(b"g")
    group.read_new(b"a", 1)
    assert group.pending_records(consumer=b"nobody") == []
    assert group.pending_records(StreamID(0, 2), StreamID(0, 2), 5, b"a") == [(StreamID(0, 2), b"a", 1, 1)]
