"""A real stream and its model side by side: each step is done to both, and what they answer must be the same.

The steps take plain values, so that anything can drive them: hypothesis, a seeded random walk, or a test by hand.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from headrace.core.entry_log import NodeLimits
from headrace.core.errors import HeadraceError
from headrace.core.group import Group, Verdict
from headrace.core.stream import Policy, Stream
from headrace.core.stream_id import StreamID
from headrace.formats.stream_value import dump_stream, restore_stream
from support.stream_model import GREATEST, ID, ZERO, ModelStream, predecessor, successor

REMEMBERED_IDS = 64


def real_id(id: ID) -> StreamID:
    return StreamID(*id)


def id_text(id: ID) -> str:
    return f"{id[0]}-{id[1]}"


def plain(value: Any) -> Any:
    """What the real stream answers, in the words of the model."""
    if type(value) is StreamID:
        return (value.ms, value.seq)
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple([plain(item) for item in value])
    return int(value) if isinstance(value, IntEnum) else value


@dataclass
class OpenWalk:
    """An iterator held open while the stream changes under it."""

    entries: Iterator[tuple[StreamID, list[bytes]]]
    start: ID
    end: ID
    left: int
    reverse: bool


class Twins:
    """A stream, its model, and what a driver needs to aim: the IDs that were in use lately."""

    def __init__(self, max_bytes: int = 4096, max_entries: int = 100) -> None:
        self.limits = NodeLimits(max_bytes, max_entries)
        self.stream = Stream(self.limits)
        self.model = ModelStream(max_bytes, max_entries)
        self.walks: list[OpenWalk] = []
        self.recent: list[ID] = [(1, 0)]

    # --- aiming ------------------------------------------------------------------------------------------------

    def near(self, number: int) -> ID:
        """An ID that was used lately, or now and then a neighbour of one."""
        id = self.recent[-1 - number // 6 % len(self.recent)]
        if number % 6 == 4:
            return successor(id) or id
        if number % 6 == 5:
            return predecessor(id) or id
        return id

    # --- doing -------------------------------------------------------------------------------------------------

    def both(self, real: Callable[[], Any], model: Callable[[], Any]) -> Any:
        """Do the same to both: they answer the same, or refuse for the same reason."""
        try:
            expected = model()
        except HeadraceError as refusal:
            try:
                answer = real()
            except type(refusal):
                return None
            raise AssertionError(f"answered {answer!r} but should have raised {type(refusal).__name__}") from None
        answer = plain(real())
        assert answer == plain(expected)
        return answer

    def set_limits(self, max_bytes: int, max_entries: int) -> None:
        self.limits.max_bytes = self.model.max_bytes = max_bytes
        self.limits.max_entries = self.model.max_entries = max_entries

    def append(self, fields: tuple[bytes, ...], request: ID | int | None, now: int) -> None:
        if request is None:
            text = "*"
        elif isinstance(request, int):
            text = f"{request}-*"
        else:
            text = id_text(request)
        id = self.both(lambda: self.stream.append(fields, text, now), lambda: self.model.append(fields, request, now))
        if id is not None:
            self.recent.append(id)
            del self.recent[:-REMEMBERED_IDS]

    def set_id(self, last_id: ID, added: int | None, max_deleted: ID | None) -> None:
        self.both(
            lambda: self.stream.set_id(real_id(last_id), added, None if max_deleted is None else real_id(max_deleted)),
            lambda: self.model.set_id(last_id, added, max_deleted),
        )

    def delete(self, ids: list[ID], policy: Policy) -> None:
        self.both(
            lambda: self.stream.delete_with([real_id(id) for id in ids], policy),
            lambda: self.model.delete_with(ids, policy),
        )

    def acknowledge_and_delete(self, group: bytes, ids: list[ID], policy: Policy) -> None:
        self.both(
            lambda: self.stream.acknowledge_and_delete(group, [id_text(id) for id in ids], policy),
            lambda: self.model.acknowledge_and_delete(group, ids, policy),
        )

    def trim_to_length(self, length: int, approximate: bool, limit: int, policy: Policy) -> None:
        self.both(
            lambda: self.stream.trim_to_length(length, approximate, limit, policy),
            lambda: self.model.trim(length, ZERO, approximate, limit, policy),
        )

    def trim_to_id(self, min_id: ID, approximate: bool, limit: int, policy: Policy) -> None:
        self.both(
            lambda: self.stream.trim_to_id(id_text(min_id), approximate, limit, policy),
            lambda: self.model.trim(None, min_id, approximate, limit, policy),
        )

    # --- groups ------------------------------------------------------------------------------------------------

    def group(self, name: bytes) -> Group:
        group = self.stream.group(name)
        assert group is not None
        return group

    def create_group(self, name: bytes, id: ID, position: int | None) -> None:
        def create() -> None:
            self.stream.create_group(name, real_id(id), position)

        self.both(create, lambda: self.model.create_group(name, id, position))

    def destroy_group(self, name: bytes) -> None:
        self.both(lambda: self.stream.destroy_group(name), lambda: self.model.destroy_group(name))

    def group_set_id(self, name: bytes, id: ID, position: int | None) -> None:
        self.both(
            lambda: self.group(name).set_id(real_id(id), position),
            lambda: self.model.groups[name].set_id(id, position),
        )

    def create_consumer(self, name: bytes, consumer: bytes, now: int) -> None:
        self.both(
            lambda: self.group(name).create_consumer(consumer, now),
            lambda: self.model.groups[name].create_consumer(consumer, now),
        )

    def delete_consumer(self, name: bytes, consumer: bytes) -> None:
        self.both(
            lambda: self.group(name).delete_consumer(consumer),
            lambda: self.model.groups[name].delete_consumer(consumer),
        )

    def read_new(self, name: bytes, consumer: bytes, now: int, count: int, noack: bool) -> None:
        self.both(
            lambda: self.group(name).read_new(consumer, now, count, noack),
            lambda: self.model.groups[name].read_new(consumer, now, count, noack),
        )

    def read_history(self, name: bytes, consumer: bytes, after: ID, now: int, count: int) -> None:
        self.both(
            lambda: self.group(name).read_history(consumer, real_id(after), now, count),
            lambda: self.model.groups[name].read_history(consumer, after, now, count),
        )

    def read_stale(self, name: bytes, consumer: bytes, min_idle: int, now: int, count: int) -> None:
        self.both(
            lambda: self.group(name).read_stale(consumer, min_idle, now, count),
            lambda: self.model.groups[name].read_stale(consumer, min_idle, now, count),
        )

    def acknowledge(self, name: bytes, ids: list[ID]) -> None:
        self.both(
            lambda: self.group(name).acknowledge([real_id(id) for id in ids]),
            lambda: self.model.groups[name].acknowledge(ids),
        )

    def claim(
        self,
        name: bytes,
        consumer: bytes,
        ids: list[ID],
        min_idle: int,
        now: int,
        *,
        time: int | None,
        deliveries: int | None,
        force: bool,
        just_id: bool,
    ) -> None:
        self.both(
            lambda: self.group(name).claim(
                consumer,
                [real_id(id) for id in ids],
                min_idle,
                now,
                time_ms=time,
                deliveries=deliveries,
                force=force,
                just_id=just_id,
            ),
            lambda: self.model.groups[name].claim(
                consumer, ids, min_idle, now, time=time, deliveries=deliveries, force=force, just_id=just_id
            ),
        )

    def auto_claim(
        self, name: bytes, consumer: bytes, min_idle: int, start: ID, now: int, *, count: int, just_id: bool
    ) -> None:
        self.both(
            lambda: self.group(name).auto_claim(consumer, min_idle, real_id(start), now, count, just_id),
            lambda: self.model.groups[name].auto_claim(consumer, min_idle, start, now, count=count, just_id=just_id),
        )

    def release(self, name: bytes, ids: list[ID], verdict: Verdict, deliveries: int | None, force: bool) -> None:
        self.both(
            lambda: self.group(name).release_ids([real_id(id) for id in ids], verdict, deliveries, force),
            lambda: self.model.groups[name].release_ids(ids, verdict, deliveries, force),
        )

    # --- whole streams -----------------------------------------------------------------------------------------

    def continue_with_copy(self) -> None:
        """Continue with a copy, while the original is changed in every way: neither may change with the other."""
        original = self.stream
        self.stream = original.copy()
        self.walks.clear()
        self.check_everything()
        for group in original.group_list():
            group.read_new(b"other", 1)
            group.acknowledge([id for id, _, _, _ in group.pending_records()][::2])
        if self.model.last_id != GREATEST:
            original.append((b"only", b"here"))
        original.trim_to_length(len(original) // 2)
        for group in original.group_list():
            original.destroy_group(group.name)

    def continue_with_restored(self, compatibility: str) -> None:
        """Go on with what comes back from a DUMP payload."""
        payload = dump_stream(self.stream, compatibility)
        self.stream = restore_stream(payload, self.limits)
        self.walks.clear()
        for group in self.model.groups.values():
            group.sort_as_loaded()
        self.check_everything()
        if compatibility != "auto":
            assert dump_stream(self.stream, compatibility) == payload

    # --- walks that stay open ----------------------------------------------------------------------------------

    def open_walk(self, start: ID, end: ID, count: int, reverse: bool) -> None:
        entries = self.stream.range(real_id(start), real_id(end), count, reverse)
        self.walks.append(OpenWalk(entries, start, end, count or 2**62, reverse))

    def step_walk(self, number: int) -> None:
        """An open walk gives the entry that now lies next behind the last one it gave, or ends."""
        walk = self.walks[number % len(self.walks)]
        found = self.model.range(walk.start, walk.end, 1, walk.reverse) if walk.left else []
        given = next(walk.entries, None)
        assert plain(given) == (found[0] if found else None)
        if given is None:
            assert next(walk.entries, None) is None
            self.walks.remove(walk)
            return
        walk.left -= 1
        beyond = predecessor(found[0][0]) if walk.reverse else successor(found[0][0])
        if beyond is None:
            walk.left = 0
        elif walk.reverse:
            walk.end = beyond
        else:
            walk.start = beyond

    # --- comparing ---------------------------------------------------------------------------------------------

    def check_counters(self) -> None:
        """What is cheap to compare, after every step."""
        stream, model = self.stream, self.model
        assert len(stream) == model.length
        assert plain((stream.first_id, stream.last_id)) == (model.first_id, model.last_id)
        assert plain(stream.max_deleted_id) == model.max_deleted_id
        assert stream.entries_added == model.entries_added
        assert stream.node_count == len(model.nodes)
        for name, expected in model.groups.items():
            group = self.group(name)
            assert plain(group.last_delivered_id) == expected.last_id
            assert (group.position, group.lag) == (expected.entries_read, expected.lag)
            assert (group.pending_count, group.released_count) == (len(expected.pending), len(expected.zone))

    def check_everything(self) -> None:
        """Every observable thing."""
        self.check_counters()
        stream, model = self.stream, self.model
        assert plain(list(stream.nodes())) == [(node.master, node.listpack()) for node in model.nodes]
        everything = model.range()
        assert plain(list(stream.range())) == everything
        assert plain(list(stream.range(reverse=True))) == everything[::-1]
        for id in self.recent:
            assert stream.get(real_id(id)) == model.get(id)
            assert (id_text(id) in stream) == (id in model.alive)
            assert stream.position_of(real_id(id)) == model.position_of(id)
            assert stream.groups_referring_to(real_id(id)) == model.referring_to(id)
        self._check_ranges()
        assert [group.name for group in stream.group_list()] == sorted(model.groups)
        for name in model.groups:
            self.check_group(name)

    def _check_ranges(self) -> None:
        rng = random.Random(self.model.entries_added)
        for _ in range(4):
            start, end = self.near(rng.randrange(400)), self.near(rng.randrange(400))
            for reverse in (False, True):
                count = rng.choice((0, 1, 3))
                found = self.stream.range(real_id(start), real_id(end), count, reverse)
                assert plain(list(found)) == self.model.range(start, end, count, reverse)
            assert self.stream.count(real_id(start), real_id(end)) == len(self.model.range(start, end))

    def check_group(self, name: bytes) -> None:
        group, expected = self.group(name), self.model.groups[name]
        assert plain(group.pending_records()) == expected.rows()
        assert plain(group.delivery_order()) == expected.delivery_order()
        consumers = [(c.name, c.seen_time, c.active_time, plain(c.pending_ids())) for c in group.consumer_list()]
        assert consumers == [(n, c.seen, c.active, expected.owned_by(n)) for n, c in sorted(expected.consumers.items())]
        assert [len(consumer) for consumer in group.consumer_list()] == [len(owned) for _, _, _, owned in consumers]
        start, end = sorted((self.near(7), self.near(40)))
        for consumer in (None, b"a", b"nobody"):
            found = group.pending_records(real_id(start), real_id(end), 2, consumer)
            assert plain(found) == expected.rows(start, end, 2, consumer)
