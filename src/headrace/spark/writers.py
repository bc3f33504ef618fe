"""Writing streams: `df.write.format("headrace")` and `df.writeStream.format("headrace")`.

    driver    plans: every option and column is checked
    tasks     write(batches) ─► Written                    each hands its rows to the server
    driver    commit or abort                              with what the tasks said

Spark gives a stream's `write` no batch number; it is among the properties of the task.
"""

from collections.abc import Iterator
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from headrace.spark.connecting import Connections
from headrace.spark.delivery import BatchOf, Trimming, Written
from headrace.spark.errors import BadOption
from headrace.spark.options import WriteOptions
from headrace.spark.rows import RowDivider


class _Writing:
    """The common part of both writers. Pickled to the tasks."""

    def __init__(self, schema: t.StructType, options: WriteOptions) -> None:
        if len(options.server.urls) > 1:
            raise BadOption("url", ",".join(options.server.urls), "name one server to write to")
        self._divider = RowDivider(schema, options)
        self._connections = Connections(options.server)
        self._trimming = Trimming(options.maxlen, options.minid)
        self._has_ids = options.id_column is not None

    def meet(self, *, repeatable: bool) -> None:
        """Find out whether the server answers, and can take a batch once that is written again, where that is asked."""
        delivery = self._connections.delivery(self._trimming)
        if repeatable and not self._has_ids and not delivery.knows_repeats():
            raise BadOption(
                "txnAppId",
                None,
                "needs a Headrace server, Redis 8.6 or later, or rows with an idColumn: no other server knows again "
                "what it was sent before",
            )

    def write_part(self, batches: Iterator[pa.RecordBatch], of: BatchOf, partition: int) -> Written:
        part = self._connections.delivery(self._trimming).part(of, partition)
        for batch in batches:
            for rows in self._divider.divide(batch):
                if len(rows):
                    part.append(rows)
        written = part.finish()
        self._connections.close()
        return written

    def commit(self, messages: list[WriterCommitMessage | None], of: BatchOf) -> None:
        self._connections.be_patient()  # Spark may commit in a process of its own; the tasks have met the server
        self._connections.delivery(self._trimming).commit(_in_order(messages), of)

    def abort(self, messages: list[WriterCommitMessage | None], of: BatchOf) -> None:
        self._connections.be_patient()
        self._connections.delivery(self._trimming).abort(_in_order(messages), of)


class StreamsBatchWriter(DataSourceArrowWriter):
    """Append the rows of a frame."""

    def __init__(self, schema: t.StructType, options: WriteOptions) -> None:
        self._writing = _Writing(schema, options)
        self._writing.meet(repeatable=options.txn is not None)
        if options.txn is None:
            self._of = BatchOf(f"write-{uuid4()}", 0, repeatable=False)
        else:
            self._of = BatchOf(f"txn-{options.txn[0]}", options.txn[1], repeatable=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        context = TaskContext.get()
        return self._writing.write_part(iterator, self._of, context.partitionId() if context else 0)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make everything count."""
        self._writing.commit(messages, self._of)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make nothing count, where that is possible."""
        self._writing.abort(messages, self._of)


class StreamsStreamWriter(DataSourceStreamArrowWriter):
    """Append the rows of micro-batches."""

    def __init__(self, schema: t.StructType, options: WriteOptions) -> None:
        self._writing = _Writing(schema, options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task of a micro-batch."""
        context = TaskContext.get()
        assert context is not None  # noqa: S101  (Spark runs this in a task)
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        assert query is not None  # noqa: S101
        assert batch is not None  # noqa: S101
        return self._writing.write_part(iterator, BatchOf(query, int(batch), repeatable=True), context.partitionId())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  (Spark's name)
        """Make a micro-batch count."""
        self._finish(messages, batchId, commit=True)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make a micro-batch not count, where that is possible."""
        self._finish(messages, batchId, commit=False)

    def _finish(self, messages: list[WriterCommitMessage | None], batch: int, *, commit: bool) -> None:
        query = next((message.query for message in messages if isinstance(message, Written)), None)
        if query is not None:
            of = BatchOf(query, batch, repeatable=True)
            (self._writing.commit if commit else self._writing.abort)(messages, of)


def _in_order(messages: list[WriterCommitMessage | None]) -> list[Written]:
    written = [message for message in messages if isinstance(message, Written)]
    return sorted(written, key=lambda message: message.partition)
