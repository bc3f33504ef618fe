"""What a server tells about a stream, and which part of one a task reads."""

from dataclasses import dataclass

from headrace.core.stream_id import StreamID


@dataclass(frozen=True)
class StreamState:
    """A stream at one moment."""

    length: int
    first_id: StreamID | None  # of the first entry; None: it holds nothing
    last_id: StreamID  # the greatest that was ever generated
    max_deleted_id: StreamID
    added: int  # entries over all its life
    origin: int = 0  # where in a file it stands

    @property
    def removed(self) -> int:
        """How many entries are no longer there."""
        return self.added - self.length


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
