"""What producers have already sent: for each producer, the last idempotent IDs and the entries they became.

A producer that repeats itself, because an answer was lost, is given the ID of the entry it made the first time.
The memory is bounded twice: at most `max_size` IDs a producer, and none much older than `duration_s` seconds. Age is
that of the entry (the milliseconds of its ID), and only `expire` looks at it: a look-up finds whatever is there.
"""

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
        """Remember what a message became, and forget the producer's oldest beyond `max_size`."""
        table = self._tables.setdefault(producer, {})
        table[idempotent_id] = entry
        self.recorded += 1
        if len(table) > self.max_size:
            del table[next(iter(table))]

    def expire(self, now_ms: int) -> None:
        """Forget what is older than `duration_s`, and producers with nothing left."""
        oldest = now_ms - self.duration_s * 1000
        for producer, table in list(self._tables.items()):
            for idempotent_id, entry in list(table.items()):
                if entry.ms > oldest:
                    break
                del table[idempotent_id]
            if not table:
                del self._tables[producer]

    def configure(self, duration_s: int, max_size: int) -> bool:
        """Set both bounds; where one really changes, everything remembered is forgotten. Tells whether it did."""
        if (duration_s, max_size) == (self.duration_s, self.max_size):
            return False
        self.duration_s = duration_s
        self.max_size = max_size
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
