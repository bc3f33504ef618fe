"""A stream of changes: what the output mode `update` gives, appended to streams, every batch once.

Spark 4.3 refuses `update` for sinks that are written in Python, but not for `foreachBatch`:

    counts.writeStream.outputMode("update").foreachBatch(append_changes(url=url, key="counts"))

Each row that a batch has changed is one entry more; the last one of its key is the value now.
"""

from collections.abc import Callable

from pyspark.sql import DataFrame

from headrace.spark.errors import BadOption

_QUERY_ID = "sql.streaming.queryId"  # a property of Spark's job: the query's, which its checkpoint keeps


def append_changes(**options: str | int | bool) -> Callable[[DataFrame, int], None]:
    """Return a function for `foreachBatch` that appends a batch to streams, as the options of the sink say.

    A batch that Spark repeats is a batch that the server has, and is left out. The application that it counts for
    (`txnAppId`) is the query itself, so that a query with a new checkpoint is another one. Name an application where
    one query writes to a stream in two ways, and with Spark Connect, which does not tell which query it is.
    """

    def append(batch: DataFrame, number: int) -> None:
        application = options.get("txnAppId") or _query_of(batch)
        once = {"txnAppId": application, "txnVersion": number}
        batch.write.format("headrace").mode("append").options(**(options | once)).save()

    return append


def _query_of(batch: DataFrame) -> str:
    context = getattr(batch.sparkSession, "_sc", None)  # None with Spark Connect
    query: str | None = None if context is None else context.getLocalProperty(_QUERY_ID)
    if query is None:
        raise BadOption("txnAppId", None, "is missing: Spark does not tell here which query this is, so name it")
    return query
