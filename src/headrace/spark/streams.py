"""The state of a stream as a server reports it, and the part of a stream or of an archive's file that a task reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from headrace.core.stream_id import StreamID

_COPY: Final = "copy-"  # begins the identity of a stream that may be a copy of the one which had its key before


def are_others(former: str | None, identity: str | None) -> bool:
    """Whether identities say that the stream of a key is another one than before; None: the server did not tell."""
    if former is None or identity is None:
        return False
    return identity != former and not identity.startswith(_COPY)


@dataclass(frozen=True)
class StreamState:
    """A stream at one moment."""

    length: int
    first_id: StreamID | None  # of the first entry; None: it holds nothing
    last_id: StreamID  # the greatest that was ever generated
    max_deleted_id: StreamID
    added: int  # entries over all its life
    origin: int = 0  # where in a file it stands
    digests: Mapping[StreamID, str] = field(default_factory=dict, compare=False)  # of the first and the last entry
    identity: str | None = None  # what Headrace tells it from other streams by; None: the server does not tell

    @property
    def removed(self) -> int:
        """How many entries are no longer there."""
        return self.added - self.length

    def may_become(self, later: "StreamState") -> bool:
        """Whether `later` can be this stream at a later moment; False: it was deleted and made anew in between."""
        if are_others(self.identity, later.identity):
            return False
        risen = later.added >= self.added and later.removed >= self.removed and later.last_id >= self.last_id
        if not risen or later.max_deleted_id < self.max_deleted_id:
            return False
        if later.first_id is not None:
            earlier = later.first_id <= self.last_id if self.first_id is None else later.first_id < self.first_id
            if earlier:
                return False
        return all(later.digests.get(id, digest) == digest for id, digest in self.digests.items())


def entry_digest(fields: Sequence[bytes]) -> str:
    """Return a short text that two entries share only if their fields are the same."""
    whole = blake2b(digest_size=8)
    for text in fields:
        whole.update(b"%d:" % len(text))
        whole.update(text)
    return whole.hexdigest()


@dataclass(frozen=True)
class Slice:
    """Part of a stream: the entries with IDs from `first` to `last`, both included."""

    server: int  # which of the urls
    key: bytes
    first: StreamID
    last: StreamID
    entries: int  # about so many; to plan with
    origin: int = 0  # where in a file the stream stands
    planned: StreamState | None = None  # the stream when the slice was planned; None: it cannot change
    before: int | None = None  # how many entries the stream had before `first` then, where known
    life: int = 0  # how often the stream was made anew; of an archive: counted as the archive does


@dataclass(frozen=True)
class ArchivedSlice:
    """Part of a file of an archive: the entries of a stream with IDs from `first` to `last`, both included."""

    path: str  # below the archive
    key: bytes
    first: StreamID
    last: StreamID
    entries: int  # about so many; to plan with
    bounded: bool = False  # no other file has entries of the stream between `first` and `last`


AnySlice = Slice | ArchivedSlice
