"""The reader of a task: reads its slices one after the other, from servers, files or an archive."""

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headrace.spark.connecting import Connections, Readable
from headrace.spark.dead_letters import LetterBox
from headrace.spark.losses import LossWatch
from headrace.spark.options import ReadOptions
from headrace.spark.planning import SlicesPartition
from headrace.spark.projection import Projection
from headrace.spark.streams import AnySlice, ArchivedSlice, Slice

if TYPE_CHECKING:
    from headrace.spark.history import History


def open_history(options: ReadOptions) -> "History | None":
    """Return the archive that the options name, if any."""
    if options.archive is None:
        return None
    # What reads Parquet takes longer to import than everything else here, in each process of Spark.
    from headrace.spark.history import History  # noqa: PLC0415

    return History(options, options.archive)


class SliceReader:
    """Reads the slices of a partition. Pickled to the tasks."""

    def __init__(
        self, readable: Readable, projection: Projection, options: ReadOptions, history: "History | None"
    ) -> None:
        self._readable = readable
        self._projection = projection
        self._options = options
        self._history = history
        key = options.dead_letter_key
        self._letter_box = None if key is None else LetterBox(key, options.group, projection.described())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Give the entries of a task's slices."""
        assert isinstance(partition, SlicesPartition)  # noqa: S101  (Spark gives back what `partitions` made)
        for part, batch in self.read_apart(partition):
            self._send_letters(part)
            yield batch
        self._readable.close()

    def read_apart(self, partition: SlicesPartition) -> Iterator[tuple[AnySlice, pa.RecordBatch]]:
        """Give the entries of a task's slices, with the slice that they are of."""
        for path, parts in groupby(partition.slices, lambda part: getattr(part, "path", None)):
            if path is None:
                for part in parts:
                    assert isinstance(part, Slice)  # noqa: S101  (the others have paths)
                    for batch in self._read_slice(part):
                        yield part, batch
            else:
                assert self._history is not None  # noqa: S101  (who plans such slices has an archive)
                of_file = [part for part in parts if isinstance(part, ArchivedSlice)]
                yield from self._history.read(of_file, self._projection)

    def _read_slice(self, part: Slice) -> Iterator[pa.RecordBatch]:
        transport = self._readable.transport(part.server)
        if self._history is not None:
            return self._history.read_live(part, transport, self._projection)
        exact = not self._options.leaves_out_malformed
        watch = LossWatch(part, fail=self._options.fail_on_data_loss, exact=exact)
        return transport.read(part, self._projection, watch)

    def _send_letters(self, part: AnySlice) -> None:
        """Send what could not be parsed, before Spark gets the rows beside it."""
        letters = [] if self._letter_box is None else self._projection.take_letters()
        if self._letter_box is not None and letters:
            assert isinstance(self._readable, Connections)  # noqa: S101  (the option is refused for a path)
            place = 0 if isinstance(part, ArchivedSlice) else part.server
            self._letter_box.send(self._readable.server(place), part.key, letters)
