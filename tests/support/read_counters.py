"""How far a group has read, as a count: the rules of 7.0 and those of today, written from docs/behaviour.md.

The count that XINFO calls `entries-read`, and the `lag` that follows from it, were corrected three times after 7.0.15
(7.4.2, 7.4.4 / 8.0 and 8.2.2), so that a live 7.0.15 and Headrace rightly differ. Each is held to its own rules here;
a value that neither set of rules gives is a failure, whoever says it.
"""

from dataclasses import dataclass

from headrace.core.stream import Stream
from headrace.core.stream_id import MIN_ID, StreamID


@dataclass
class Counted:
    """What both rules look at."""

    length: int
    first: StreamID
    last: StreamID
    max_deleted: StreamID
    added: int

    @classmethod
    def of(cls, stream: Stream) -> "Counted":
        return cls(len(stream), stream.first_id, stream.last_id, stream.max_deleted_id, stream.entries_added)

    def has_tombstone_from(self, entry_id: StreamID) -> bool:
        return self.length > 0 and self.max_deleted != MIN_ID and entry_id <= self.max_deleted


class RulesOf70:
    """Redis 7.0.15, which looks for tombstones behind the ID it delivers, and only among the entries that are left."""

    @staticmethod
    def has_tombstone_from(state: Counted, entry_id: StreamID) -> bool:
        return state.max_deleted >= state.first and state.has_tombstone_from(entry_id)

    @staticmethod
    def estimate(state: Counted, entry_id: StreamID) -> int | None:
        if state.added == 0:
            return 0
        if state.length == 0 and entry_id <= state.last:
            return state.added
        if entry_id == state.last:
            return state.added
        if entry_id > state.last:
            return None
        if state.max_deleted == MIN_ID or state.max_deleted < state.first:
            if entry_id < state.first:
                return state.added - state.length
            if entry_id == state.first:
                return state.added - state.length + 1
        return None

    @classmethod
    def deliver(cls, state: Counted, read: int | None, _: StreamID, entry_id: StreamID) -> int | None:
        if read is not None and not cls.has_tombstone_from(state, entry_id):
            return read + 1
        return cls.estimate(state, entry_id) if state.added else read

    @classmethod
    def lag(cls, state: Counted, read: int | None, last: StreamID) -> int | None:
        if state.added == 0:
            return 0
        if read is not None and not cls.has_tombstone_from(state, last):
            return state.added - read
        estimate = cls.estimate(state, last)
        return None if estimate is None else state.added - estimate


class RulesOfToday:
    """docs/behaviour.md 5.4 and 5.5, with the count never above entries-added (8.2.2, and XSETID as of July 2026)."""

    @staticmethod
    def estimate(state: Counted, entry_id: StreamID) -> int | None:
        if state.added and state.length and entry_id != MIN_ID and entry_id < state.max_deleted:
            return None
        return RulesOf70.estimate(state, entry_id)

    @classmethod
    def deliver(cls, state: Counted, read: int | None, before: StreamID, entry_id: StreamID) -> int | None:
        if read is not None and before >= state.first and not state.has_tombstone_from(before):
            return min(read + 1, state.added)
        return cls.estimate(state, entry_id) if state.added else read

    @classmethod
    def lag(cls, state: Counted, read: int | None, last: StreamID) -> int | None:
        if state.added == 0 or state.length == 0:
            return 0
        if last < state.first and state.max_deleted < state.first:
            return state.length
        if read is not None and not state.has_tombstone_from(last):
            return state.added - read
        estimate = cls.estimate(state, last)
        return None if estimate is None else state.added - estimate


class ReadCounters:
    """The `entries-read` of every group of one server, by one set of rules."""

    def __init__(self, rules: type[RulesOf70] | type[RulesOfToday]) -> None:
        self.rules = rules
        self.read: dict[bytes, int | None] = {}

    def deliver(self, state: Counted, group: bytes, before: StreamID, ids: list[StreamID]) -> None:
        for entry_id in ids:
            self.read[group] = self.rules.deliver(state, self.read[group], before, entry_id)
            before = entry_id

    def lag(self, state: Counted, group: bytes, last: StreamID) -> int | None:
        return self.rules.lag(state, self.read[group], last)

    def above(self, added: int) -> list[bytes]:
        """Name the groups that claim to have read more than was ever added."""
        return [group for group, read in self.read.items() if read is not None and read > added]
