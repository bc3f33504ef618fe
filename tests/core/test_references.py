"""Which of many groups refer to an entry: an index of all groups says what each of them says when it is asked."""

import random

import pytest

from headrace.core.group import Group, Verdict
from headrace.core.memory import fail_after, fail_never
from headrace.core.stream import Fate, Policy, Stream
from headrace.core.stream_id import StreamID

ENTRIES = 600
FEW = 16  # groups that have no index


def entry(seq: int) -> StreamID:
    return StreamID(0, seq)


def stream_with(groups: int, rng: random.Random) -> Stream:
    """Make a stream whose groups have read some of it."""
    stream = Stream()
    for _ in range(ENTRIES):
        stream.append((b"f", b"v"), b"*")
    for number in range(groups):
        stream.create_group(b"g%d" % number).read_new(b"c", 1, rng.randrange(1, ENTRIES // 2))
    return stream


def expected_fate(stream: Stream, id: StreamID, policy: Policy) -> Fate:
    if policy == Policy.ACKED and stream.groups_referring_to(id):
        return Fate.REFERENCED
    return Fate.DELETED if id in stream else Fate.MISSING


def change(stream: Stream, group: Group, rng: random.Random) -> None:
    """Do to a group what clients do."""
    some = [entry(seq) for seq in rng.sample(range(1, ENTRIES + 1), 40)]
    match rng.randrange(7):
        case 0:
            group.read_new(b"d", 2, rng.randrange(1, 100))
        case 1:
            group.acknowledge([id for id, *_ in group.pending_records(count=rng.randrange(1, 200))])
        case 2:
            group.acknowledge(some)
        case 3:
            group.claim(b"e", some, 0, 3, force=True)
        case 4:
            group.release_ids(some, Verdict.FAIL, force=True)
        case 5:
            group.delete_consumer(rng.choice((b"c", b"d", b"e")))
        case _:
            group.set_id(entry(rng.randrange(0, ENTRIES)) if rng.random() < 0.2 else stream.last_id)


@pytest.mark.parametrize("groups", [FEW, FEW + 1, 60])
def test_an_index_of_all_groups_says_what_each_of_them_says(groups: int) -> None:
    rng = random.Random(groups)
    stream = stream_with(groups, rng)
    fates = set()
    for step in range(400):
        group = rng.choice(stream.group_list())
        change(stream, group, rng)
        policy = rng.choice((Policy.ACKED, Policy.ACKED, Policy.DELREF))
        if step % 4 == 0:
            ids = [entry(rng.randrange(1, ENTRIES + 20)) for _ in range(3)]
            expected = [expected_fate(stream, id, policy) for id in ids]
            assert stream.delete_with(ids, policy)[0] == expected[0]
            fates.add(expected[0])
            if policy == Policy.DELREF:
                pending = {id for each in stream.group_list() for id, *_ in each.pending_records()}
                assert not pending & set(ids)
        elif step % 50 == 7:
            first = next(iter(stream.range(count=1)))[0]
            bound = entry(first.seq + rng.randrange(60))
            ids = [id for id, _ in stream.range(end=bound)]
            acked = policy == Policy.ACKED
            kept = [id for id in ids if id == bound or (acked and stream.groups_referring_to(id))]
            stream.trim_to_id(bound, policy=policy)
            assert [id for id, _ in stream.range(end=bound)] == kept
        if step % 40 == 21:
            stream.destroy_group(group.name)
            stream.create_group(b"n%d" % step, stream.last_id)
        if step == 200:
            for each in stream.group_list()[FEW:]:  # few enough for no index; later there are more again
                stream.destroy_group(each.name)
        if step == 230:
            for number in range(groups - FEW):
                stream.create_group(b"m%d" % number, stream.last_id).claim(b"c", [entry(number + 1)], 0, 1, force=True)
    assert Fate.DELETED in fates


def test_an_index_that_nobody_asks_is_given_up_and_made_again() -> None:
    stream = stream_with(FEW + 4, random.Random(1))
    groups = stream.group_list()
    for group in groups:
        group.set_id(stream.last_id)
        group.acknowledge([id for id, *_ in group.pending_records()])
    assert stream.delete_with([entry(ENTRIES)], Policy.ACKED) == [Fate.DELETED]
    with_index = stream.memory_usage
    run = [entry(seq) for seq in range(1, ENTRIES)]
    for _ in range(70):  # times 600 are more changes than an index follows that nobody asks
        groups[0].claim(b"c", run, 0, 1, force=True)
        groups[0].acknowledge(run)
        groups[1].claim(b"c", run[:10], 0, 1, force=True)
    assert stream.memory_usage < with_index + 3000
    assert stream.delete_with([entry(5), entry(ENTRIES - 1)], Policy.ACKED) == [Fate.REFERENCED, Fate.DELETED]
    assert stream.delete_with([entry(5)], Policy.DELREF) == [Fate.DELETED]
    assert entry(5) not in [id for id, *_ in groups[1].pending_records()]


def test_an_index_that_the_heap_refuses_is_not_believed() -> None:
    """Whatever allocation is refused, while groups are taken over or later, no reference is overlooked."""
    for allowed in range(0, 400, 3):
        rng = random.Random(allowed)
        stream = stream_with(FEW + 8, rng)
        for group in stream.group_list():
            group.acknowledge([entry(seq) for seq in range(20, ENTRIES)])
            group.set_id(stream.last_id)
        if allowed % 2:
            stream.delete_with([entry(ENTRIES)], Policy.ACKED)
        fail_after(allowed)
        try:
            stream.delete_with([entry(seq) for seq in range(100, 105)], Policy.ACKED)
            rng.choice(stream.group_list()).claim(b"c", [entry(seq) for seq in range(200, 240)], 0, 1, force=True)
        except MemoryError:
            pass
        finally:
            fail_never()
        for id in (entry(seq) for seq in (5, 150, *range(198, 242))):
            expected = expected_fate(stream, id, Policy.ACKED)
            assert stream.delete_with([id], Policy.ACKED) == [expected], f"{allowed} allocations: {id}"
