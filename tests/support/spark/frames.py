"""What the Spark tests ask of frames and errors."""

from typing import TYPE_CHECKING, Any

import redis

from headrace.spark.batch_reader import StreamBatchReader
from headrace.spark.options import read_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def url_of(client: redis.Redis) -> str:
    """Return the url of a client's server."""
    return f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}"


def sentence(error: BaseException) -> str:
    """Return the last line of ours in an error of Spark's."""
    lines = [line for line in str(error).splitlines() if line.startswith("headrace.spark.errors.")]
    assert lines, f"no sentence of ours in: {error}"
    return lines[-1].partition(": ")[2]


def rows_of(schema: "StructType", options: dict[str, str]) -> list[dict[str, Any]]:
    """Read with the source as Spark does, without a Spark."""
    reader = StreamBatchReader(schema, read_options(options, streaming=False))
    batches = (batch for partition in reader.partitions() for batch in reader.read(partition))
    return [row for batch in batches for row in batch.to_pylist()]


def rows(frame: "DataFrame") -> list[tuple[Any, ...]]:
    """Collect a frame as plain tuples."""
    return [tuple(row) for row in frame.collect()]
