"""Whether a stream is still the one that was read, or was deleted and made anew under its key.

Headrace tells that: a stream has an identity. Other servers do not. But the last ID and the count of entries ever added
only grow in the life of a stream, and entries never change. A mark therefore keeps what was seen when it was made. A
stream that contradicts its mark is another one:

    identity                         is another one than it was, where both are known, and not one of a copy
    last ID, entries ever added      are smaller than they were
    nothing up to the mark is left   and fewer entries were removed than had been added up to there
    something up to the mark is left
      the first entry                has a smaller ID than the first one had, or the same and other fields
      the entry at the mark          has other fields, or is not there although nothing was removed since

The other way around, a stream without an identity that contradicts nothing may still be another one: the same entries
again, or so much removed from it that the old stream could look like that. A stream with the same identity that
contradicts its mark was set back to an older state. docs/spark.md says what that means.
"""

from collections.abc import Sequence
from typing import Protocol

from headrace.core.stream_id import StreamID
from headrace.spark.offsets import Mark
from headrace.spark.streams import StreamState, are_others


class EntryLookup(Protocol):
    """An object that returns digests of the fields of entries."""

    def entry_digests(self, wanted: Sequence[tuple[bytes, StreamID]]) -> list[str | None]:
        """Return the digest of each entry; None where there is none."""


def same_streams(lookup: EntryLookup, asked: Sequence[tuple[bytes, Mark, StreamState | None]]) -> list[bool]:
    """Say of each stream whether it is the one that was read up to its mark; False also where there is none."""
    wanted = [
        (key, mark.id)
        for key, mark, state in asked
        if state is not None and mark.id not in state.digests and _has_entries_up_to(mark, state)
    ]
    found = dict(zip(wanted, lookup.entry_digests(wanted), strict=True)) if wanted else {}
    return [
        state is not None and is_same(mark, state, state.digests.get(mark.id) or found.get((key, mark.id)))
        for key, mark, state in asked
    ]


def is_same(mark: Mark, state: StreamState, found: str | None) -> bool:
    """Whether a stream can be the one of a mark; `found` is the digest of the entry that is now at the mark."""
    if mark.gone or are_others(mark.identity, state.identity):
        return False
    if not mark.seen:
        return True
    if state.last_id < mark.id or state.added < max(mark.added or 0, mark.total or 0):
        return False
    if mark.entries is None:
        return True
    if state.first_id is None or state.first_id > mark.id:
        return mark.added is None or state.removed >= mark.added
    earliest = min((id for id, digest in mark.entries.items() if digest is not None), default=None)
    if earliest is None or state.first_id < earliest:
        return False
    if state.first_id == earliest and state.digests.get(earliest) != mark.entries[earliest]:
        return False
    if mark.id not in mark.entries or found == mark.entries[mark.id]:
        return True
    return found is None and state.removed > mark.removed


def _has_entries_up_to(mark: Mark, state: StreamState) -> bool:
    """Whether to compare the entry at a mark: the mark knows its digest, and the stream may still have it."""
    known = mark.entries is not None and mark.id in mark.entries
    return known and state.first_id is not None and state.first_id <= mark.id <= state.last_id
