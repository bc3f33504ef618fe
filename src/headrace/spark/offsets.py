"""How far a query has read, as Spark keeps it in its checkpoint.

    {"0": {"orders": {"id": "1526919030474-55", "added": 17}}, "1": {…}}
      │        │                      │              └─ entries ever added up to that ID, where known
      │        │                      └─ everything up to this ID has been read
      │        └─ the key; bytes that are no UTF-8 as lone surrogates
      └─ which of the urls: keep their order

A stream that was deleted and made anew may begin with smaller IDs: `"life": n` counts how often that was seen. What
lies between two marks of one life is a range of IDs; from one life to the next it is everything up to the new mark.
By what else a mark has, `identity` tells whether a stream is still the one that was read:

    "identity": "5b0c…"                             what the server tells the stream from others by, where it does
    "total": 20, "removed": 3                       entries ever added and removed, when the mark was made
    "entries": {"1-0": "9f3a…", "5-1": "07bc…"}     digests of the first entry and the one at the mark; null: none
    "gone": true                                    the key was not there any more: whatever comes is another stream
    "lost": 4                                       entries that were gone before they were read, in all lives

    {"0": {…}, "from": {"0": {…}}}

Spark journals where a batch ends. When the first batch has failed, Spark asks again where it begins, and by then
"latest" is another position. The end of a first batch therefore also says where it began.

Spark compares offsets as texts, so that servers and keys are always in the same order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from headrace.core.stream_id import MIN_ID, StreamID
from headrace.spark.streams import StreamState

StreamKey = tuple[int, bytes]
"""A stream: which server, which key."""

_FROM: Final = "from"


@dataclass(frozen=True)
class Mark:
    """A position in a stream: everything up to `id` has been read."""

    id: StreamID
    added: int | None = None
    life: int = 0
    lost: int = 0
    gone: bool = False
    total: int | None = None
    removed: int = 0
    entries: Mapping[StreamID, str | None] | None = None  # None: nothing is known, as in offsets of earlier versions
    identity: str | None = None  # None: the server did not tell, or nobody had asked, as in those

    @classmethod
    def before(cls, state: StreamState, life: int = 0, lost: int = 0) -> "Mark":
        """Return the position before everything that a stream has; what was removed is not missed."""
        return cls(MIN_ID, state.removed, life, lost).planned_with(state)

    @classmethod
    def after(cls, state: StreamState, life: int = 0, lost: int = 0) -> "Mark":
        """Return the position behind everything that a stream has."""
        mark = cls(state.last_id, state.added, life, lost)
        return mark.planned_with(state, state.digests.get(state.last_id))

    @property
    def unread(self) -> int:
        """How many entries behind the mark the stream was known to have when the mark was made."""
        return 0 if self.added is None or self.total is None else self.total - self.added

    @property
    def seen(self) -> bool:
        """Whether there was a stream; False: the options name a position, and nobody has looked yet."""
        return self.added is not None or self.total is not None

    def planned_with(self, state: StreamState, *at: str | None) -> "Mark":
        """Return the mark with what identifies the stream; `at` is the digest of the entry there, where known."""
        entries: dict[StreamID, str | None] = {}
        if state.first_id is not None and state.first_id in state.digests:
            entries[state.first_id] = state.digests[state.first_id]
        if at:
            entries[self.id] = at[0]
        known = state.identity or self.identity
        return replace(self, total=state.added, removed=state.removed, entries=entries, identity=known)


def to_json(marks: dict[StreamKey, Mark]) -> dict[str, Any]:
    """Return marks as Spark keeps them."""
    offset: dict[str, Any] = {}
    for (server, key), mark in sorted(marks.items(), key=lambda item: item[0]):
        offset.setdefault(str(server), {})[key.decode(errors="surrogateescape")] = _entry(mark)
    return offset


def from_json(offset: dict[str, Any]) -> dict[StreamKey, Mark]:
    """Return the marks that an offset of Spark's has."""
    return {
        (int(server), key.encode(errors="surrogateescape")): _mark(entry)
        for server, keys in offset.items()
        if server != _FROM
        for key, entry in keys.items()
    }


def _entry(mark: Mark) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": bytes(mark.id).decode()}
    if mark.added is not None:
        entry["added"] = mark.added
    counted = {"life": mark.life, "lost": mark.lost, "gone": mark.gone}
    entry |= {name: value for name, value in counted.items() if value}
    if mark.entries is not None:
        entry |= {"total": mark.total, "removed": mark.removed}
        entry["entries"] = {bytes(id).decode(): digest for id, digest in sorted(mark.entries.items())}
    if mark.identity is not None:
        entry["identity"] = mark.identity
    return entry


def _mark(entry: dict[str, Any]) -> Mark:
    entries = entry.get("entries")
    return Mark(
        id=StreamID.parse(entry["id"]),
        added=entry.get("added"),
        life=entry.get("life", 0),
        lost=entry.get("lost", 0),
        gone=entry.get("gone", False),
        total=entry.get("total"),
        removed=entry.get("removed", 0),
        entries=None if entries is None else {StreamID.parse(id): digest for id, digest in entries.items()},
        identity=entry.get("identity"),
    )


def with_beginning(end: dict[str, Any], start: dict[str, Any]) -> dict[str, Any]:
    """Return the end of a first batch, which says where the batch began."""
    return {**end, _FROM: start}


def beginning_of(end: dict[str, Any]) -> dict[str, Any] | None:
    """Return where the first batch began that ends here; None where the offset does not say."""
    return end.get(_FROM)
