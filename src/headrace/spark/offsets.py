"""How far a query has read, as Spark keeps it in its checkpoint.

    {"0": {"orders": {"id": "1526919030474-55", "added": 17}}, "1": {…}}
      │        │                      │              └─ entries ever added up to that ID, where known
      │        │                      └─ everything up to this ID has been read
      │        └─ the key; bytes that are no UTF-8 as lone surrogates
      └─ which of the urls: keep their order

A stream that was deleted and made anew may begin with smaller IDs: `"life": n` counts how often that was seen. What
lies between two marks of one life is a range of IDs; from one life to the next it is everything up to the new mark.

    {"0": {…}, "from": {"0": {…}}}

Spark journals where a batch ends, and asks for the beginning of the first one again when that has failed: by then
"latest" is later. So the end of a first batch also says where it began.

Spark compares offsets as texts, so that servers and keys are always in the same order.
"""

from dataclasses import dataclass
from typing import Any, Final

from headrace.core.stream_id import MIN_ID, StreamID
from headrace.spark.streams import StreamState

Place = tuple[int, bytes]
"""A stream: which server, which key."""

_FROM: Final = "from"


@dataclass(frozen=True)
class Mark:
    """A position in a stream: everything up to `id` has been read."""

    id: StreamID
    added: int | None = None
    life: int = 0

    @classmethod
    def before(cls, state: StreamState | None, life: int = 0) -> "Mark":
        """Return the position before everything that a stream has; what was removed is not missed."""
        return cls(MIN_ID, 0 if state is None else state.removed, life)

    @classmethod
    def after(cls, state: StreamState, life: int = 0) -> "Mark":
        """Return the position behind everything that a stream has."""
        return cls(state.last_id, state.added, life)

    def belongs_to(self, state: StreamState) -> bool:
        """Whether the stream is the one that was read, or may be; False: it was made anew since."""
        return self.id <= state.last_id and (self.added is None or self.added <= state.added)


def to_json(marks: dict[Place, Mark]) -> dict[str, Any]:
    """Return marks as Spark keeps them."""
    offset: dict[str, Any] = {}
    for (server, key), mark in sorted(marks.items(), key=lambda item: item[0]):
        entry: dict[str, Any] = {"id": bytes(mark.id).decode()}
        if mark.added is not None:
            entry["added"] = mark.added
        if mark.life:
            entry["life"] = mark.life
        offset.setdefault(str(server), {})[key.decode(errors="surrogateescape")] = entry
    return offset


def from_json(offset: dict[str, Any]) -> dict[Place, Mark]:
    """Return the marks that an offset of Spark's has."""
    return {
        (int(server), key.encode(errors="surrogateescape")): Mark(
            StreamID.parse(entry["id"]), entry.get("added"), entry.get("life", 0)
        )
        for server, keys in offset.items()
        if server != _FROM
        for key, entry in keys.items()
    }


def with_beginning(end: dict[str, Any], start: dict[str, Any]) -> dict[str, Any]:
    """Return the end of a first batch, which says where the batch began."""
    return {**end, _FROM: start}


def beginning_of(end: dict[str, Any]) -> dict[str, Any] | None:
    """Return where the first batch began that ends here; None where the offset does not say."""
    return end.get(_FROM)
