"""What the Spark tests ask of frames and errors."""

from typing import TYPE_CHECKING, Any

import redis

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def url_of(client: redis.Redis) -> str:
    """Return the url of a client's server."""
    return f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}"


def sentence(error: BaseException) -> str:
    """Return the last line of ours in an error of Spark's."""
    lines = [line for line in str(error).splitlines() if line.startswith("headrace.spark.errors.")]
    assert lines, f"no sentence of ours in: {error}"
    return lines[-1].partition(": ")[2]


def rows(frame: "DataFrame") -> list[tuple[Any, ...]]:
    """Collect a frame as plain tuples."""
    return [tuple(row) for row in frame.collect()]
