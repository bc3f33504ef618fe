"""What writers have staged: packed entries that no reader sees until one commit links all of them.

    (database, key, query, batch) ─► partition ─► payloads, in the order they came

It is memory, and no data: it does not survive the process, and what nobody commits expires. Whoever staged it does so
again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.core.errors import HeadraceError
from headrace.core.packed import Packed


class OffsetBeyondPart(HeadraceError, ValueError):
    """A part was to be continued at an entry that it does not have, or in the middle of a payload."""


@dataclass
class StagedPart:
    """The payloads of one partition."""

    payloads: list[Packed] = field(default_factory=list)

    @property
    def entries(self) -> int:
        """How many entries they hold."""
        return sum(payload.entries for payload in self.payloads)

    def cut(self, entries: int) -> int:
        """Forget what lies behind so many entries: how many bytes. Refuses where no payload ends there."""
        kept = 0
        for index, payload in enumerate(self.payloads):
            if kept == entries:
                freed = sum(len(each.payload) for each in self.payloads[index:])
                del self.payloads[index:]
                return freed
            kept += payload.entries
        if kept != entries:
            raise OffsetBeyondPart(f"the part holds {self.entries} entries, and no payload of it ends at {entries}")
        return 0


BatchName = tuple[int, bytes, bytes, int]


@dataclass
class StagedBatch:
    """The parts of one batch, and when the last of them came, in ms of the steady clock."""

    parts: dict[int, StagedPart] = field(default_factory=dict)
    touched_ms: int = 0

    @property
    def size(self) -> int:
        """How many bytes of payload they hold."""
        return sum(len(payload.payload) for part in self.parts.values() for payload in part.payloads)


class Staging:
    """See the module. `bytes` is what all payloads together take; `on_added` is told when something came."""

    def __init__(self, on_added: Callable[[int], None]) -> None:
        self.batches: dict[BatchName, StagedBatch] = {}
        self._on_added = on_added
        self.bytes = 0

    def add(self, name: BatchName, partition: int, payload: Packed, offset: int | None, steady_ms: int) -> StagedPart:
        """Append a payload to a part; with an offset, in place of whatever lies behind so many entries."""
        batch = self.batches.get(name) or StagedBatch()
        part = batch.parts.get(partition) or StagedPart()
        if offset is not None:
            self.bytes -= part.cut(offset)
        part.payloads.append(payload)
        self.bytes += len(payload.payload)
        batch.parts[partition] = part
        batch.touched_ms = steady_ms
        self.batches[name] = batch
        self._on_added(steady_ms)
        return part

    def drop(self, name: BatchName) -> int:
        """Forget a batch: how many parts it had."""
        batch = self.batches.pop(name, None)
        if batch is None:
            return 0
        self.bytes -= batch.size
        return len(batch.parts)

    def drop_until(self, name: BatchName) -> None:
        """Forget a batch and all before it of the same query."""
        for other in [each for each in self.batches if each[:3] == name[:3] and each[3] <= name[3]]:
            self.drop(other)

    @property
    def oldest_ms(self) -> int | None:
        """When the batch was touched that nothing was added to for the longest time."""
        return min((batch.touched_ms for batch in self.batches.values()), default=None)

    def expire(self, before_ms: int) -> None:
        """Forget the batches that nothing was added to since a time."""
        for name in [name for name, batch in self.batches.items() if batch.touched_ms < before_ms]:
            self.drop(name)
