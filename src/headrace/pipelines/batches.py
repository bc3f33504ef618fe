"""Streams read batch by batch, without a query of Spark's: the archive has positions and files in one commit.

    begin ─► latestOffset ─► partitions ─► tasks ─► commit ─► … until nothing is new, or for ever

The reader is the one of `spark.readStream`, called as Spark calls it. Spark's query would keep the positions in a
checkpoint of its own, spend a fifth of a second on each batch, and move all rows from Python to Java to write them.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.streaming.datasource import ReadLimit

from headrace.pipelines.lives import Fate, fates
from headrace.spark.planning import SlicesPartition
from headrace.spark.stream_reader import StreamStreamReader

_POLL_S: Final = 0.05  # at least, between looks at streams that have nothing new


@dataclass(frozen=True)
class Batch:
    """What lies between two positions."""

    partitions: Sequence[SlicesPartition]
    offset: Mapping[str, Any]
    fates: tuple[Fate, ...]


class Batches:
    """The batches behind a position, one after the other."""

    def __init__(
        self,
        reader: StreamStreamReader,
        offset: Mapping[str, Any],
        limit: ReadLimit | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin behind `offset`; where that is empty, where the options of the reader say."""
        self._reader = reader
        self._offset = dict(offset)
        self._limit = limit or reader.getDefaultReadLimit()
        self._sleep = sleep

    def waiting(self) -> Iterator[Batch]:
        """Give batches up to where the streams are now."""
        self._begin()
        self._reader.prepareForTriggerAvailableNow()
        while (batch := self._next()) is not None:
            yield batch
            self._reader.commit(dict(batch.offset))

    def coming(self, every_s: float) -> Iterator[Batch | None]:
        """Give batches for ever, one each `every_s`; None, where there is nothing for one."""
        self._begin()
        while True:
            began = time.monotonic()
            batch = self._next()
            yield batch
            if batch is not None:
                self._reader.commit(dict(batch.offset))
            rest = every_s - (time.monotonic() - began)
            if rest > 0 or batch is None:
                self._sleep(max(rest, _POLL_S))

    def _begin(self) -> None:
        if not self._offset:
            self._offset = self._reader.initialOffset()

    def _next(self) -> Batch | None:
        """Plan the next batch; None where nothing is new."""
        start = self._offset
        end = self._reader.latestOffset(start, self._limit)
        if end == start:
            return None
        partitions = [part for part in self._reader.partitions(start, end) if isinstance(part, SlicesPartition)]
        end = {name: told for name, told in end.items() if name != "from"}
        if end == start and not partitions:
            return None
        self._offset = end
        return Batch(partitions, end, tuple(fates(json.dumps(start), json.dumps(end))))
