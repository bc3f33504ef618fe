"""A trim that drops very many nodes at once does what dropping them one by one does."""

from collections.abc import Sequence

import pytest

from headrace.core.entry_log import NodeLimits
from headrace.core.memory import fail_after, fail_never
from headrace.core.stream import Fate, Policy, Stream

ENTRIES = 5000


def numbered(entries: int = ENTRIES) -> Stream:
    """A stream with two entries a node."""
    stream = Stream(NodeLimits(4096, 2))
    for n in range(1, entries + 1):
        stream.append((b"f", b"%d" % n), b"%d-0" % n)
    return stream


def pending_in(stream: Stream) -> Sequence[object]:
    group = stream.group(b"g")
    assert group is not None
    return group.delivery_order()


def ids(stream: Stream) -> list[int]:
    return [id.ms for id, _ in stream.range()]


@pytest.mark.parametrize("approximate", [False, True])
@pytest.mark.parametrize("kept", [0, 1, 2, 3, 100, 101, 2000, 2499, 2500, 2501, 4000])
def test_by_length(kept: int, approximate: bool) -> None:
    stream = numbered()
    removed = stream.trim_to_length(kept, approximate=approximate)
    left = kept + (kept % 2 if approximate else 0)
    assert removed == ENTRIES - left
    assert len(stream) == left
    assert ids(stream) == list(range(ENTRIES - left + 1, ENTRIES + 1))
    assert stream.last_id.ms == ENTRIES
    stream.append((b"f", b"v"), b"9000-0")
    assert ids(stream)[-1] == 9000
    assert stream.first_id.ms == ids(stream)[0]


@pytest.mark.parametrize("least", [2, 3, 2500, 4001, 4000, 5000, 5001, 9000])
def test_by_id(least: int) -> None:
    stream = numbered()
    assert stream.trim_to_id(b"%d-0" % least) == min(least - 1, ENTRIES)
    assert ids(stream) == list(range(least, ENTRIES + 1))


def test_a_limit_counts_entries_of_whole_nodes() -> None:
    stream = numbered()
    assert stream.trim_to_length(0, approximate=True, limit=3001) == 3000
    assert ids(stream) == list(range(3001, ENTRIES + 1))


def test_memory_is_counted_as_where_entries_went_one_by_one() -> None:
    trimmed, small = numbered(), numbered()
    trimmed.trim_to_length(10)
    for _ in range(ENTRIES - 10):
        small.delete([small.first_id])
    assert trimmed.node_count == small.node_count == 5
    assert abs(trimmed.memory_usage - small.memory_usage) < 256  # the heap may round a block up


def test_who_walks_meanwhile_goes_on_behind_its_place() -> None:
    stream = numbered()
    walk = iter(stream.range())
    assert next(walk)[0].ms == 1
    stream.trim_to_length(4)
    assert [id.ms for id, _ in walk] in ([4997, 4998, 4999, 5000], list(range(2, ENTRIES + 1)))


def test_without_memory_nothing_happens() -> None:
    stream = numbered()
    for allocations in range(200):
        before = (len(stream), stream.node_count, stream.memory_usage)
        fail_after(allocations)
        try:
            stream.trim_to_length(1000)
        except MemoryError:
            fail_never()
            assert (len(stream), stream.node_count, stream.memory_usage) == before
            continue
        finally:
            fail_never()
        break
    assert ids(stream)[-1] == ENTRIES


@pytest.mark.parametrize("policy", [Policy.DELREF, Policy.ACKED])
@pytest.mark.parametrize("pending", [[], [1], [2], [2399], [2400], [4801], [1, 2399, 4999]])
@pytest.mark.parametrize("delivered", [2399, 2400, 4799, ENTRIES - 1])
def test_a_policy_does_what_it_does_to_entries_one_by_one(delivered: int, pending: list[int], policy: Policy) -> None:
    stream = numbered()
    stream.delete([b"2400-0"])
    group = stream.create_group(b"g")
    group.read_new(b"c", 1, delivered)
    group.acknowledge([b"%d-0" % n for n in range(1, ENTRIES + 1) if n not in pending])
    twin = stream.copy()
    went = twin.delete_with([b"%d-0" % n for n in range(1, 4801)], policy).count(Fate.DELETED)
    assert stream.trim_to_id(b"4801-0", policy=policy) == went
    assert ids(stream) == ids(twin)
    assert pending_in(stream) == pending_in(twin)
