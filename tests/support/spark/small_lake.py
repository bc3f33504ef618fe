"""An archive written by the parts that `headrace pipeline archive` and `compact` have, without Spark."""

from pathlib import Path

import redis

from headrace.pipelines.archive_tasks import FilesOf, file_schema, source_schema, write_partition
from headrace.pipelines.batches import Batches
from headrace.pipelines.compaction import TARGET_BYTES, merge_group, small_together
from headrace.pipelines.lake import Lake
from headrace.pipelines.shapes import shape_of
from headrace.pipelines.trimming import trim_archived
from headrace.spark.offsets import from_json
from headrace.spark.options import read_options
from headrace.spark.stream_reader import StreamStreamReader
from support.spark.frames import url_of
from support.spark.small_archive import SmallArchive


class SmallLake:
    """An archive in a directory; one that is `former` was begun by an earlier version."""

    def __init__(self, server: redis.Redis, path: Path, layout: str = "by-key", *, former: bool = False) -> None:
        self.path = path
        self.lake = Lake(str(path))
        self._url = url_of(server)
        self._layout = layout
        self._former = SmallArchive(server, path) if former else None
        path.mkdir(parents=True, exist_ok=True)

    def run(self, most: int = 10**6, *, trim: bool = False) -> int:
        """Archive what came, in one batch, and return how many entries that was."""
        if self._former is not None:
            former, self._former = self._former, None
            return former.run(most, trim=trim)
        options = {"url": self._url, "keys": "*", "startingId": "earliest", "maxEntriesPerTrigger": str(most)}
        reader = StreamStreamReader(source_schema(""), read_options(options, streaming=True))
        extent = self.lake.extent()
        shape = shape_of(extent, "*", self._layout, None)
        how = FilesOf(self.lake.path, shape.layout, file_schema(""))
        batch = next(Batches(reader, extent.offset).waiting(), None)
        count = 0
        if batch is not None:
            files = [file for part in batch.partitions for file in write_partition(reader.slice_reader, part, how)]
            count = sum(file.span.rows for file in files if file.span is not None)
            self.lake.append(files, batch.offset, shape)
        if trim:
            marks = from_json(dict(self.lake.extent().offset))
            trim_archived(self._url, marks, beyond_groups=True)
        return count

    def compact(self, keep_s: float = 0) -> None:
        """Merge what can be merged."""
        extent = self.lake.extent()
        how = FilesOf(self.lake.path, extent.shape.layout, file_schema(""))
        groups = small_together(extent, TARGET_BYTES)
        if groups:
            self.lake.exchange([(group, merge_group(how, group, TARGET_BYTES)) for group in groups])
        self.lake.remove_replaced(keep_s)
