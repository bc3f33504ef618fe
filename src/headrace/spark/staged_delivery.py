"""Exactly once: tasks stage packed entries on the server, and one commit makes all of them count.

    tasks     HEADRACE STAGE key query batch part payload OFFSET n   seen by nobody; can be repeated
    driver    HEADRACE COMMIT key query batch n PARTS part part …    in the order of partitions; a repeat is ignored
              HEADRACE ABORT key query batch                         forgotten; what nobody commits expires

Each attempt of a task stages under a number of its own, and the commit names the attempts that Spark took. A task that
ran twice, or one of a driver that died, is therefore never mixed with another. The server remembers the last batch of a
query in the effect that appends it, so that a batch which Spark repeats after a crash changes nothing.
"""

from secrets import randbits
from typing import Final

import pyarrow as pa

from headrace.spark.arrow_columns import EntryEncoder
from headrace.spark.delivery import BatchOf, Part, Trimming, Written
from headrace.spark.rows import EntryRows
from headrace.spark.servers import Command, Server

_PART_BITS: Final = 62
_MOST_BYTES: Final = 8 << 20  # of a payload, about


class StagedDelivery:
    """Staging, where the server has it."""

    def __init__(self, server: Server, trimming: Trimming) -> None:
        self._server = server
        self._trimming = trimming

    def knows_repeats(self) -> bool:
        """Return True: the server remembers the last batch of each query."""
        return True

    def part(self, of: BatchOf, partition: int) -> Part:
        """Begin the part of a task."""
        return _StagedPart(self._server, of, partition)

    def commit(self, messages: list[Written], of: BatchOf) -> None:
        """Append what the tasks staged, stream by stream."""
        for key in _keys(messages):
            parts = [message.parts[key] for message in messages if key in message.parts]
            command: Command = ("HEADRACE", "COMMIT", key, of.query, of.batch, len(parts), "PARTS", *parts)
            self._server.ask(*command, *self._trimming.words(), key=key)
        if not of.repeatable:
            for key in _keys(messages):
                self._server.ask("HEADRACE", "FORGET", key, of.query, key=key)

    def abort(self, messages: list[Written], of: BatchOf) -> None:
        """Forget what the tasks staged."""
        for key in _keys(messages):
            self._server.ask("HEADRACE", "ABORT", key, of.query, of.batch, key=key)


class _StagedPart:
    def __init__(self, server: Server, of: BatchOf, partition: int) -> None:
        self._server = server
        self._of = of
        self._number = randbits(_PART_BITS)
        self._staged: dict[bytes, int] = {}
        self._written = Written(partition, of.query, of.batch)

    def append(self, rows: EntryRows) -> None:
        batch, ids = rows.columns, None
        if rows.ids is not None:
            ids = _unused(batch.schema.names)
            batch = pa.RecordBatch.from_arrays([*batch.columns, rows.ids], names=[*batch.schema.names, ids])
        encoder = EntryEncoder(batch.schema, fields_column="fields" if rows.lists else None, id_column=ids)
        for chunk in _chunks(batch):
            offset = self._staged.get(rows.key, 0)
            place = (rows.key, self._of.query, self._of.batch, self._number)
            command = ("HEADRACE", "STAGE", *place, encoder.encode(chunk), "OFFSET", offset)
            self._staged[rows.key] = self._server.ask(*command, key=rows.key)
        self._written.parts[rows.key] = self._number

    def finish(self) -> Written:
        return self._written


def _keys(messages: list[Written]) -> list[bytes]:
    return list(dict.fromkeys(key for message in messages for key in message.parts))


def _chunks(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Cut a batch into parts that are not too large for one command."""
    pieces = max(1, min(batch.num_rows, -(-batch.nbytes // _MOST_BYTES)))
    share = -(-batch.num_rows // pieces)
    return [batch.slice(start, share) for start in range(0, batch.num_rows, share)]


def _unused(names: list[str]) -> str:
    name = "id"
    while name in names:
        name += "_"
    return name
