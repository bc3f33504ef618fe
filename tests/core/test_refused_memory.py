"""Where the heap refuses, an operation raises MemoryError, has changed nothing, and works when it is tried again.

Each operation is done with its first allocation refused, then with its second, and so on until it succeeds.
"""

from collections.abc import Callable
from functools import partial

import pytest

from headrace.core.entry_log import NodeLimits
from headrace.core.group import Group, Verdict
from headrace.core.memory import fail_after, fail_never
from headrace.core.stream import Policy, Stream
from headrace.formats.stream_value import dump_stream, restore_stream

FV = (b"f", b"v")
LONG_NAME = b"n" * 100


def observed(stream: Stream) -> tuple[object, ...]:
    groups = stream.group_list()
    return (
        dump_stream(stream, "8.8"),
        len(stream),
        stream.first_id,
        list(stream.range()),
        [(group.pending_records(), group.delivery_order(), group.lag) for group in groups],
        [[(c.name, c.pending_ids()) for c in group.consumer_list()] for group in groups],
    )


def refusals_survived(make: Callable[[], Stream], operate: Callable[[Stream], object]) -> int:
    """How many allocations the operation needs, each of which was refused once."""
    succeeded = make()
    operate(succeeded)
    after = observed(succeeded)
    for allowed in range(1000):
        stream = make()
        before = observed(stream)
        fail_after(allowed)
        try:
            operate(stream)
        except MemoryError:
            pass
        else:
            fail_never()
            assert observed(stream) == after
            return allowed
        finally:
            fail_never()
        assert observed(stream) == before, f"changed although allocation {allowed + 1} was refused"
        operate(stream)
        assert observed(stream) == after
    raise AssertionError("still refused")


def group_of(stream: Stream) -> Group:
    group = stream.group(b"g")
    assert group is not None
    return group


def stream_with(entries: int, limits: NodeLimits | None = None, read: int = 0) -> Stream:
    """So many entries 1-0, 2-0 …, of which a group has read some at times 1, 2 …"""
    stream = Stream(limits)
    for ms in range(1, entries + 1):
        stream.append(FV, f"{ms}-0")
    group = stream.create_group(b"g")
    group.create_consumer(b"a", 1)
    group.create_consumer(b"b", 500)
    for now in range(1, read + 1):
        group.read_new(b"a", now, 1)
    return stream


OPERATIONS: dict[str, tuple[Callable[[], Stream], Callable[[Stream], object]]] = {
    "append the first entry": (Stream, lambda s: s.append(FV, "9999-0")),
    "append in a new node": (lambda: stream_with(6, NodeLimits(0, 2)), lambda s: s.append(FV, "9999-0")),
    "append to a tail that must grow": (lambda: stream_with(1), lambda s: s.append((b"f", bytes(2000)), "9999-0")),
    "append to a tail whose counter grows": (
        lambda: stream_with(127, NodeLimits(0, 0)),
        lambda s: s.append((b"f", bytes(9000)), "9999-0"),
    ),
    "append many fields": (lambda: stream_with(1), lambda s: s.append(FV * 100, "9999-0")),
    "create a group": (lambda: stream_with(1), lambda s: s.create_group(LONG_NAME)),
    "set the ID and the counters": (
        lambda: with_long_group(stream_with(3, read=3)),
        lambda s: s.set_id("9999-0", 50, "2-0"),
    ),
    "delete with regard to groups": (
        lambda: with_long_group(stream_with(3, read=3)),
        lambda s: s.delete_with(["2-0"], Policy.DELREF),
    ),
    "create a consumer": (lambda: stream_with(1), lambda s: group_of(s).create_consumer(LONG_NAME, 5)),
    "read the first entry": (lambda: stream_with(1), lambda s: group_of(s).read_new(b"b", 500, 1)),
    "read an entry into full blocks and chunks": (
        lambda: stream_with(257, read=256),
        lambda s: group_of(s).read_new(b"a", 256, 1),
    ),
    "claim from another": (lambda: stream_with(3, read=3), lambda s: group_of(s).claim(b"b", ["2-0"], 0, 500)),
    "claim a released one": (
        lambda: released(stream_with(3, read=3), "2-0"),
        lambda s: group_of(s).claim(b"b", ["2-0"], 0, 500, deliveries=2**40),
    ),
    "claim by force": (
        lambda: stream_with(3),
        lambda s: group_of(s).claim(b"b", ["2-0"], 0, 500, force=True, deliveries=2**40),
    ),
    "claim by force before all others": (
        lambda: claimed(stream_with(300), *range(45, 300)),
        lambda s: group_of(s).claim(b"b", ["3-0"], 0, 500, force=True),
    ),
    "claim by force in the middle of a full chunk": (
        lambda: claimed(stream_with(600), *range(1, 600, 2)),
        lambda s: group_of(s).claim(b"b", ["100-0"], 0, 500, force=True),
    ),
    "claim automatically": (
        lambda: stream_with(3, read=3),
        lambda s: group_of(s).auto_claim(b"b", 0, "2-0", 500, 1),
    ),
    "claim the stale": (lambda: stream_with(3, read=3), lambda s: group_of(s).read_stale(b"b", 0, 500, 1)),
    "release": (lambda: stream_with(3, read=3), lambda s: group_of(s).release_ids(["2-0"], Verdict.FATAL)),
    "release by force": (
        lambda: stream_with(3),
        lambda s: group_of(s).release_ids(["2-0"], Verdict.FAIL, 2**40, True),
    ),
    "delete": (lambda: stream_with(300), lambda s: s.delete(["1-0"])),
    "delete the last of a node": (lambda: stream_with(3, NodeLimits(0, 1)), lambda s: s.delete(["2-0"])),
    "trim whole nodes": (lambda: stream_with(300, NodeLimits(0, 10)), lambda s: s.trim_to_length(5)),
    "trim with references": (
        lambda: stream_with(300, NodeLimits(0, 300), read=300),
        lambda s: s.trim_to_length(5, policy=Policy.DELREF),
    ),
    "copy": (lambda: released(stream_with(600, read=300), "7-0"), lambda s: s.copy()),
    "dump and restore": (
        lambda: released(stream_with(600, read=300), "7-0"),
        lambda s: restore_stream(dump_stream(s)),
    ),
}

# Those that need no memory, or only where a block happens to be full.
MAY_NEED_NONE = {
    "release",
    "delete",
    "delete the last of a node",
    "delete with regard to groups",
    "set the ID and the counters",
    "trim whole nodes",
    "trim with references",
}


def released(stream: Stream, *ids: str) -> Stream:
    group_of(stream).release_ids(list(ids), Verdict.FAIL)
    return stream


def with_long_group(stream: Stream) -> Stream:
    """Listing groups needs memory where a name is long."""
    stream.create_group(LONG_NAME).read_new(b"a", 1)
    return stream


def claimed(stream: Stream, *numbers: int) -> Stream:
    group_of(stream).claim(b"a", [f"{ms}-0" for ms in numbers], 0, 500, force=True)
    return stream


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_refused_allocation_changes_nothing(name: str) -> None:
    needed = refusals_survived(*OPERATIONS[name])
    assert needed > 0 or name in MAY_NEED_NONE


def on_the_group(operate: Callable[[Group], object]) -> Callable[[Stream], object]:
    return lambda stream: operate(group_of(stream))


def test_a_refused_allocation_leaves_no_new_consumer_behind() -> None:
    operations: list[Callable[[Group], object]] = [
        lambda group: group.read_new(b"new", 500, 1),
        lambda group: group.claim(b"new", ["1-0"], 0, 500),
        lambda group: group.auto_claim(b"new", 0, "1-0", 500, 1),
        lambda group: group.read_stale(b"new", 0, 500, 1),
    ]
    for operate in operations:
        needed = refusals_survived(lambda: stream_with(3, read=2), on_the_group(operate))
        assert needed > 0


def test_a_refused_allocation_leaves_no_trace_of_the_attempt() -> None:
    operations: list[Callable[[Group], object]] = [
        lambda group: group.read_new(b"b", 700, 1),
        lambda group: group.claim(b"b", ["1-0"], 0, 700),
        lambda group: group.auto_claim(b"b", 0, "1-0", 700, 1),
        lambda group: group.read_stale(b"b", 0, 700, 1),
    ]
    for operate in operations:
        needed = refusals_survived(lambda: stream_with(3, read=2), on_the_group(operate))
        assert needed > 0


def with_dead(dead: int, value: bytes) -> Stream:
    """A sealed node of 300 entries, the first with a value of its own and some of them dead, and a tail behind it."""
    stream = Stream(NodeLimits(0, 300))
    for ms in range(1, 302):
        stream.append((b"f", value if ms == 1 else b"v"), f"{ms}-0")
    stream.delete([f"{ms}-0" for ms in range(1, dead + 1)])
    return stream


@pytest.mark.parametrize(
    "operate",
    [
        lambda stream: stream.delete(["128-0"]),
        lambda stream: stream.trim_to_id("140-0"),
        lambda stream: stream.trim_to_length(5, policy=Policy.ACKED),
    ],
    ids=["delete", "trim to ID", "trim to length"],
)
def test_a_counter_of_the_dead_that_cannot_grow_wide_stays_as_it_was(operate: Callable[[Stream], object]) -> None:
    # The heap rounds blocks up, so that only some of these nodes lack the byte.
    needed = [refusals_survived(partial(with_dead, 127, bytes(size)), operate) for size in range(16)]
    assert any(needed)


def test_trimming_that_is_refused_in_a_later_node_has_trimmed_the_earlier_ones() -> None:
    refused = 0
    for size in range(16):
        # The first node goes whole; the counter of the second may have to grow wide.
        stream = stream_with(300, NodeLimits(0, 300))
        stream.append((b"f", bytes(size)), "301-0")
        for ms in range(302, 701):
            stream.append(FV, f"{ms}-0")
        fail_after(0)
        try:
            stream.trim_to_id("500-0")
        except MemoryError:
            refused += 1
            assert (len(stream), str(stream.first_id), stream.node_count) == (400, "301-0", 2)
        finally:
            fail_never()
        stream.trim_to_id("500-0")
        assert (len(stream), str(stream.first_id)) == (201, "500-0")
    assert refused


def test_a_batch_that_is_refused_has_handled_the_ids_before() -> None:
    for allowed in range(100):
        stream = stream_with(300)
        group = group_of(stream)
        fail_after(allowed)
        try:
            group.read_new(b"a", 9)
            return
        except MemoryError:
            fail_never()
            handled = group.pending_count
            assert [id.ms for id, *_ in group.pending_records()] == list(range(1, handled + 1))
            assert (group.last_delivered_id.ms, group.lag) == (handled, 300 - handled)
        finally:
            fail_never()
        assert len(group.read_new(b"a", 9)) == 300 - handled
