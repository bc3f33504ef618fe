"""How a task hands entries to a server, and how the driver makes them count.

Delivery.part(…)        one task: append(rows) …, finish() ─► Written
Delivery.commit(…)      the driver, when every task has finished
Delivery.abort(…)       the driver, when one has not

XAddDelivery            every server: entries count at once. A task that runs again writes again (at least once),
unless the server remembers what a producer sent (IDMP, Redis 8.6), or the rows have IDs
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Protocol

from pyspark.sql.datasource import WriterCommitMessage

from headrace.core.stream_id import StreamID
from headrace.spark.errors import CommandRefused
from headrace.spark.rows import EntryRows
from headrace.spark.servers import Command, Server

_AT_ONCE: Final = 1000  # commands in one round trip
IDMP_SINCE: Final = (8, 6)
"""The version of Redis that remembers what its producers sent."""

_IDMP_WINDOW: Final = 10_000  # idempotent IDs that a server remembers of one producer, at most
_IDMP_SECONDS: Final = 86_400  # for how long, at most
_PASSING_GROUP: Final = "headrace-spark"


@dataclass(frozen=True)
class BatchOf:
    """Which batch of which query entries belong to; a batch write is the batch 0 of a query of its own."""

    query: str
    batch: int
    repeatable: bool
    """Whether it may be written again, and counts once: a batch of a streaming query, or of `txnAppId`."""


@dataclass
class Written(WriterCommitMessage):
    """The report of one task to the driver."""

    partition: int
    query: str
    batch: int
    parts: dict[bytes, int] = field(default_factory=dict)
    """By stream: the number under which its entries are staged."""


@dataclass(frozen=True)
class Trimming:
    """The limit that a stream is trimmed to, about."""

    maxlen: int | None
    minid: StreamID | None

    def words(self) -> tuple[str | bytes | int, ...]:
        """Return it as XADD and HEADRACE COMMIT take it."""
        if self.maxlen is not None:
            return ("MAXLEN", "~", self.maxlen)
        return () if self.minid is None else ("MINID", "~", bytes(self.minid))


class Part(Protocol):
    """The entries of one task."""

    def append(self, rows: EntryRows) -> None:
        """Hand over rows."""

    def finish(self) -> Written:
        """Say that these were all."""


class Delivery(Protocol):
    """One way to write."""

    def knows_repeats(self) -> bool:
        """Whether a repeatable batch that is written again counts once."""

    def part(self, of: BatchOf, partition: int) -> Part:
        """Begin the part of a task."""

    def commit(self, messages: list[Written], of: BatchOf) -> None:
        """Make the parts count, in the order of their partitions."""

    def abort(self, messages: list[Written], of: BatchOf) -> None:
        """Make the parts not count."""


class XAddDelivery:
    """XADD, many in one round trip."""

    def __init__(self, server: Server, trimming: Trimming) -> None:
        self._server = server
        self._trimming = trimming

    def knows_repeats(self) -> bool:
        """Whether the server remembers what its producers sent."""
        return self._server.version() >= IDMP_SINCE

    def part(self, of: BatchOf, partition: int) -> Part:
        """Begin the part of a task."""
        remembers = of.repeatable and self.knows_repeats()
        return _XAddPart(self._server, self._trimming, of, partition, remembers=remembers)

    def commit(self, messages: list[Written], of: BatchOf) -> None:
        """Do nothing: the entries are there."""

    def abort(self, messages: list[Written], of: BatchOf) -> None:
        """Do nothing: the entries are there, and were promised at least once."""


class _XAddPart:
    def __init__(self, server: Server, trimming: Trimming, of: BatchOf, partition: int, *, remembers: bool) -> None:
        self._server = server
        self._trimming = trimming
        self._of = of
        self._written = Written(partition, of.query, of.batch)
        self._remembers = remembers
        self._counts: dict[bytes, int] = {}

    def append(self, rows: EntryRows) -> None:
        entries = rows.entries()
        while chunk := list(islice(entries, _AT_ONCE)):
            if rows.ids is not None:
                self._append_with_ids(rows.key, chunk)
            else:
                if self._remembers and rows.key not in self._written.parts:
                    remember_longer(self._server, rows.key)
                self._server.write_all(rows.key, self._commands(rows.key, chunk))
            self._written.parts[rows.key] = 0

    def finish(self) -> Written:
        return self._written

    def _commands(self, key: bytes, chunk: list[tuple[bytes | None, list[bytes]]]) -> Iterator[Command]:
        for place, (_, fields) in enumerate(chunk):
            count = self._counts.get(key, 0)
            self._counts[key] = count + 1
            once: Command = ()
            if self._remembers:
                producer = f"{self._of.query}/{self._written.partition}/{count // _IDMP_WINDOW}"
                once = ("IDMP", producer, f"{self._of.batch}-{count}")
            trimming = self._trimming.words() if place == len(chunk) - 1 else ()
            yield ("XADD", key, *once, *trimming, "*", *fields)

    def _append_with_ids(self, key: bytes, chunk: list[tuple[bytes | None, list[bytes]]]) -> None:
        """Add entries with IDs; one that the stream has already is left out, because a task may run again."""
        commands: list[Command] = [("XADD", key, id or b"*", *fields) for id, fields in chunk]
        replies = self._server.try_all(key, commands)
        for (id, fields), reply in zip(chunk, replies, strict=True):
            if isinstance(reply, Exception) and not self._has(key, id, fields):
                stream, wrong = (text.decode(errors="backslashreplace") for text in (key, id or b""))
                raise CommandRefused(
                    f"option 'idColumn': the ID {wrong!r} cannot follow what stream {stream!r} has: {reply}; bring "
                    "the rows into one partition and sort them by their IDs (repartition(1).sortWithinPartitions(…))"
                )
        if self._trimming.words():
            self._server.write("XTRIM", key, *self._trimming.words(), key=key)

    def _has(self, key: bytes, id: bytes | None, fields: list[bytes]) -> bool:
        if not self._of.repeatable or id is None:
            return False
        found: list[Any] = self._server.ask("XRANGE", key, id, id, key=key)
        return bool(found) and found[0][1] == fields


def remember_longer(server: Server, key: bytes) -> None:
    """Make a stream remember producers as long, and as many of their messages, as it can.

    This happens before the first entry, because a changed setting makes the stream forget all producers. XCFGSET needs
    a stream; a group that is created and destroyed makes one.
    """
    setting: Command = ("XCFGSET", key, "IDMP-DURATION", _IDMP_SECONDS, "IDMP-MAXSIZE", _IDMP_WINDOW)
    try:
        server.write(*setting, key=key)
    except CommandRefused as refused:
        if "no such key" not in str(refused):
            raise
        begun: Command = ("XGROUP", "CREATE", key, _PASSING_GROUP, "0", "MKSTREAM")
        server.try_all(key, [begun, ("XGROUP", "DESTROY", key, _PASSING_GROUP)])
        server.write(*setting, key=key)
