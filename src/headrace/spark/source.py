"""`format("headrace")`: the class that Spark loads first, and that makes readers and writers."""

from pyspark.sql import types as t
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from headrace.spark.batch_reader import FilteringBatchReader, StreamBatchReader
from headrace.spark.errors import BadOption
from headrace.spark.options import read_options, write_options
from headrace.spark.projection import default_schema
from headrace.spark.stream_reader import StreamStreamReader
from headrace.spark.writers import StreamsBatchWriter, StreamsStreamWriter


class HeadraceDataSource(DataSource):
    """Streams of Headrace, Redis or Valkey as tables."""

    @classmethod
    def name(cls) -> str:
        """Return what stands in `format(…)`."""
        return "headrace"

    def schema(self) -> t.StructType:
        """Return the schema of a read that was given none."""
        return default_schema(read_options(self.options, streaming=False))

    def reader(self, schema: t.StructType) -> DataSourceReader:
        """Read once."""
        options = read_options(self.options, streaming=False)
        return (FilteringBatchReader if options.push_filters else StreamBatchReader)(schema, options)

    def streamReader(self, schema: t.StructType) -> DataSourceStreamReader:  # noqa: N802  (Spark's name)
        """Read what comes."""
        return StreamStreamReader(schema, read_options(self.options, streaming=True))

    def writer(self, schema: t.StructType, overwrite: bool) -> DataSourceWriter:
        """Append once."""
        _refuse_overwriting(overwrite=overwrite)
        return StreamsBatchWriter(schema, write_options(self.options))

    def streamWriter(self, schema: t.StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """Append what comes."""
        if overwrite:  # what Spark makes of the output mode "complete"
            raise BadOption(
                "outputMode",
                "complete",
                "every batch would replace the stream, and a stream is only appended to: use append with a watermark, "
                "or write each batch in foreachBatch",
            )
        return StreamsStreamWriter(schema, write_options(self.options, streaming=True))


def _refuse_overwriting(*, overwrite: bool) -> None:
    if overwrite:
        raise BadOption("mode", "overwrite", "a stream is only appended to: use append, and delete the key before")
