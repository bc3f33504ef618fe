"""What writers have staged: packed entries that no reader sees until one commit links all of them.

    (database, key, query, batch) ─► partition ─► payloads, in the order they came

It is memory, and no data: it does not survive the process, and parts that nobody commits expire. The writer then stages
them again.
"""

from dataclasses import dataclass, field

from headrace.core.errors import HeadraceError
from headrace.core.packed import Packed
from headrace.engine.chores import Chores
from headrace.engine.clocks import Clocks
from headrace.engine.configuration.config import Config


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
    """See the module. `bytes` is what all payloads together take."""

    def __init__(self, chores: Chores, clocks: Clocks, config: Config) -> None:
        self.batches: dict[BatchName, StagedBatch] = {}
        self.bytes = 0
        self._clocks = clocks
        self._config = config
        self._expiry = chores.register(self._expire, in_unix_time=False)
        config.watch("headrace-stage-ttl", lambda _: self._expect(self._oldest_ms))

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
        self._expect(steady_ms)
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
    def _oldest_ms(self) -> int | None:
        """When the batch was touched that nothing was added to for the longest time."""
        return min((batch.touched_ms for batch in self.batches.values()), default=None)

    def _expire(self) -> int | None:
        """Forget the batches that nothing was added to for too long; return when the next is."""
        before_ms = self._clocks.steady_now_ms - 1000 * self._config["headrace-stage-ttl"]
        for name in [name for name, batch in self.batches.items() if batch.touched_ms < before_ms]:
            self.drop(name)
        return self._kept_until(self._oldest_ms)

    def _expect(self, touched_ms: int | None) -> None:
        """Have forgotten in time what was staged then, where there is something."""
        until_ms = self._kept_until(touched_ms)
        if until_ms is not None:
            self._expiry.expect(until_ms)

    def _kept_until(self, touched_ms: int | None) -> int | None:
        """Return when something is forgotten that was staged at a time."""
        return None if touched_ms is None else touched_ms + 1000 * int(self._config["headrace-stage-ttl"]) + 1
