"""An archive as `headrace pipeline archive` writes it, without Spark: the same reader, files, log and offsets."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import redis
from pyspark.sql import types as t
from pyspark.sql.streaming.datasource import ReadMaxRows

from headrace.pipelines.trimming import trim_archived
from headrace.spark.offsets import from_json
from headrace.spark.options import read_options
from headrace.spark.stream_reader import StreamStreamReader
from support.spark.frames import url_of

_PAIR = t.StructType().add("name", t.BinaryType()).add("value", t.BinaryType())
_SCHEMA = (
    t.StructType()
    .add("_key", t.BinaryType())
    .add("_id", t.StringType())
    .add("_ms", t.LongType())
    .add("_seq", t.LongType())
    .add("_timestamp", t.TimestampType())
    .add("_fields", t.ArrayType(_PAIR))
)


class SmallArchive:
    """An archive in a directory. Every tenth batch compacts the log, as Spark does."""

    def __init__(self, server: redis.Redis, path: Path, keys: str = "*") -> None:
        self.path = path
        self._url = url_of(server)
        self._options = {"url": self._url, "keys": keys, "startingId": "earliest"}
        self._offset: dict[str, Any] | None = None
        self._batch = -1
        self._log: list[str] = []
        path.mkdir(parents=True, exist_ok=True)

    def run(self, most: int = 10**6, *, trim: bool = False) -> int:
        """Archive what came, in one batch, and return how many entries that was."""
        reader = StreamStreamReader(_SCHEMA, read_options(self._options, streaming=True))
        start = self._offset or reader.initialOffset()
        end = json.loads(json.dumps(reader.latestOffset(start, ReadMaxRows(most))))
        batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
        self._batch += 1
        self._write(self.path / "_checkpoint" / "offsets" / str(self._batch), ["v1", "{}", json.dumps(end)])
        lines = []
        if batches:
            lines = self._write_files(pa.Table.from_batches(batches))
        self._log += lines
        if self._batch % 10 == 9:
            self._write(self.path / "_spark_metadata" / f"{self._batch}.compact", ["v1", *self._log])
        else:
            self._write(self.path / "_spark_metadata" / str(self._batch), ["v1", *lines])
        self._offset = end
        if trim:
            trim_archived(self._url, from_json(end), beyond_groups=True)
        return sum(batch.num_rows for batch in batches)

    def _write_files(self, table: pa.Table) -> list[str]:
        table = table.rename_columns([{"_key": "stream"}.get(name, name[1:]) for name in table.schema.names])
        lines = []
        days = pa.array([datetime.fromtimestamp(ms / 1000, UTC).date().isoformat() for ms in table["ms"].to_pylist()])
        for key in sorted(set(table["stream"].to_pylist())):
            for day in sorted(set(days.to_pylist())):
                mine = table.filter(pc.and_(pc.equal(table["stream"], key), pc.equal(days, day)))
                if mine.num_rows:
                    directory = self.path / f"key={quote(key.decode(), safe='')}" / f"date={day}"
                    directory.mkdir(parents=True, exist_ok=True)
                    file = directory / f"part-{self._batch:05}.snappy.parquet"
                    pq.write_table(mine, file)
                    lines.append(json.dumps({"path": f"file://{quote(str(file))}", "size": file.stat().st_size}))
        return lines

    @staticmethod
    def _write(file: Path, lines: list[str]) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines))
