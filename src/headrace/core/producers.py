"""What producers have already sent: for each producer, the last idempotent IDs and the entries they became.

A producer that repeats itself, because an answer was lost, is given the ID of the entry it made the first time.
The memory is bounded twice: at most `max_size` IDs a producer, and none much older than `duration_s` seconds. Age is
that of the entry (the milliseconds of its ID), and only `expire` looks at it: a look-up finds whatever is there.

Whoever repeats what happened calls `record`, `forget` and `set_limits`, none of which looks at a clock.
"""

from itertools import islice

from headrace.core.stream_id import StreamID

DEFAULT_DURATION_S = 100
DEFAULT_MAX_SIZE = 100


class Producers:
    """The memory of one stream, independent of whether the entries still exist."""

    __slots__ = ("_tables", "duplicates", "duration_s", "max_size", "recorded")

    def __init__(self, duration_s: int = DEFAULT_DURATION_S, max_size: int = DEFAULT_MAX_SIZE) -> None:
        self.duration_s = duration_s
        self.max_size = max_size
        self.recorded = 0
        self.duplicates = 0
        self._tables: dict[bytes, dict[bytes, StreamID]] = {}

    def __len__(self) -> int:
        return len(self._tables)

    @property
    def remembered(self) -> int:
        """How many idempotent IDs all producers have in memory."""
        return sum(map(len, self._tables.values()))

    def find(self, producer: bytes, idempotent_id: bytes) -> StreamID | None:
        """Return the entry that this message became before, or None."""
        table = self._tables.get(producer)
        return table.get(idempotent_id) if table else None

    def record(self, producer: bytes, idempotent_id: bytes, entry: StreamID) -> None:
        """Remember what a message became as the newest, and forget the producer's oldest beyond `max_size`."""
        table = self._tables.setdefault(producer, {})
        table.pop(idempotent_id, None)
        table[idempotent_id] = entry
        self.recorded += 1
        if len(table) > self.max_size:
            del table[next(iter(table))]

    @property
    def next_expiry_ms(self) -> int | None:
        """When `expire` has something to forget, in Unix ms; None where nothing is remembered."""
        oldest = min((next(iter(table.values())).ms for table in self._tables.values() if table), default=None)
        return None if oldest is None else oldest + self.duration_s * 1000

    def expire(self, now_ms: int) -> list[tuple[bytes, int]]:
        """Forget what is older than `duration_s`; list how many of the oldest IDs of which producers that were."""
        oldest = now_ms - self.duration_s * 1000
        expired = []
        for producer, table in self._tables.items():
            count = 0
            for entry in table.values():
                if entry.ms > oldest:
                    break
                count += 1
            if count:
                expired.append((producer, count))
        for producer, count in expired:
            self.forget(producer, count)
        return expired

    def forget(self, producer: bytes, count: int) -> None:
        """Forget the oldest IDs of a producer, and the producer where none is left."""
        table = self._tables.get(producer, {})
        for idempotent_id in list(islice(table, count)):
            del table[idempotent_id]
        if not table:
            self._tables.pop(producer, None)

    def sizes(self) -> list[tuple[bytes, int]]:
        """List how many IDs are remembered of each producer."""
        return [(producer, len(table)) for producer, table in self._tables.items()]

    def set_limits(self, duration_s: int, max_size: int) -> None:
        """Set both bounds, and forget nothing."""
        self.duration_s = duration_s
        self.max_size = max_size

    def configure(self, duration_s: int, max_size: int) -> bool:
        """Set both bounds; where one really changes, everything remembered is forgotten. Tells whether it did."""
        if (duration_s, max_size) == (self.duration_s, self.max_size):
            return False
        self.set_limits(duration_s, max_size)
        self._tables.clear()
        return True

    def tables(self) -> list[tuple[bytes, list[tuple[bytes, StreamID]]]]:
        """List the producers in byte order, each with what it sent, oldest first."""
        return [(producer, list(table.items())) for producer, table in sorted(self._tables.items())]

    def load(self, producer: bytes, sent: list[tuple[bytes, StreamID]]) -> None:
        """Put back one producer of `tables`, without counting it as sent again."""
        self._tables[producer] = dict(sent)

    def copy(self) -> "Producers":
        """Return an independent memory with the same content."""
        twin = Producers(self.duration_s, self.max_size)
        twin.recorded = self.recorded
        twin.duplicates = self.duplicates
        twin._tables = {producer: dict(table) for producer, table in self._tables.items()}
        return twin
