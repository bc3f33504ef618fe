"""The readers, called as Spark calls them, without Spark."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import redis
from pyspark.sql import types as t
from pyspark.sql.streaming.datasource import ReadLimit

from headrace.spark.batch_reader import StreamBatchReader
from headrace.spark.options import read_options
from headrace.spark.planning import SlicesPartition
from headrace.spark.stream_reader import StreamStreamReader
from headrace.spark.streams import ArchivedSlice
from support.spark.frames import url_of

SCHEMA = t.StructType().add("_key", t.StringType()).add("_id", t.StringType())


class Query:
    """What Spark does with a reader, without Spark. `checkpoint` survives a crash."""

    def __init__(self, server: redis.Redis, **options: str) -> None:
        starting = {} if "startingTimestamp" in options else {"startingId": "earliest"}
        self.options = {"url": url_of(server), "keys": "s"} | starting | options
        self.checkpoint: list[dict[str, Any]] = []
        self.begin()

    def begin(self) -> None:
        """Start, or start again after a crash."""
        self.reader = StreamStreamReader(SCHEMA, read_options(self.options, streaming=True))
        self.reader._looked_around = float("-inf")  # a new process looks around at once; so do tests, at every batch

    def batch(self, limit: ReadLimit | None = None) -> list[tuple[str, str]]:
        """Run one micro-batch to its end, and return its rows."""
        start = self.checkpoint[-1] if self.checkpoint else self.reader.initialOffset()
        self.reader._looked_around = float("-inf")
        end = json.loads(json.dumps(self.reader.latestOffset(start, limit or self.reader.getDefaultReadLimit())))
        if self.checkpoint:
            self.reader.commit(self.checkpoint[-1])
        rows = list(self.rows(start, end))
        self.checkpoint.append(end)
        return rows

    def rows(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[str, str]]:
        for partition in self.reader.partitions(start, end):
            for batch in self.reader.read(partition):
                yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def add(server: redis.Redis, *ids: str, key: str = "s") -> list[tuple[str, str]]:
    """Add entries, and return the rows that a query reads of them."""
    return [(key, server.xadd(key, {"a": 1}, id=id).decode()) for id in ids]


class Table:
    """A table of an archive and a server, read without Spark."""

    def __init__(self, server: redis.Redis, path: Path, **options: str) -> None:
        given = {"url": url_of(server), "keys": "*", "archive": str(path)} | options
        self._reader = StreamBatchReader(SCHEMA, read_options(given, streaming=False))
        self.partitions = [part for part in self._reader.partitions() if isinstance(part, SlicesPartition)]

    def rows(self) -> list[tuple[str, str]]:
        return [
            row
            for partition in self.partitions
            for batch in self._reader.read(partition)
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        ]

    def archived(self) -> list[ArchivedSlice]:
        return [part for each in self.partitions for part in each.slices if isinstance(part, ArchivedSlice)]
