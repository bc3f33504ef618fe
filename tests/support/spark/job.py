"""A program that copies streams to streams and to Parquet for as long as it lives; the tests kill it.

python spark_job.py url directory master

in:0 ─┬─► out:0
in:1 ─┼─► out:1
      ├─► directory/lake, as Parquet
      └─► again:0, again:1, by foreachBatch with txnAppId, in a campaign
"""

import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.pipelines.errors import with_causes
from support.campaign import LONG
from support.spark.queries import may_be_started_again
from support.spark.sessions import start_spark

BATCH_BY_BATCH = LONG  # a third query, which make test has no time for


def start_copies(spark: SparkSession, url: str, directory: Path, *, once: bool) -> list[StreamingQuery]:
    """Start the queries; `once`, until everything that is there is copied."""
    patient = {"retryTimeout": 120}  # longer than a server may be away
    source = (
        spark.readStream.format("headrace")
        .options(url=url, keys="in:*", startingId="earliest", maxEntriesPerTrigger=3000, minPartitions=3, **patient)
        .schema("_key string, _id string, n long")
        .load()
    )
    trigger = {"availableNow": True} if once else {"processingTime": "0 seconds"}
    copied = source.selectExpr("replace(_key, 'in:', 'out:') AS out", "n")
    queries = [
        copied.writeStream.format("headrace")
        .options(url=url, keyColumn="out", checkpointLocation=str(directory / "to-streams"), **patient)
        .trigger(**trigger)
        .start(),
        source.writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "to-parquet"))
        .trigger(**trigger)
        .start(str(directory / "lake")),
    ]
    if BATCH_BY_BATCH:

        def append(batch: DataFrame, number: int) -> None:
            again = batch.selectExpr("replace(_key, 'in:', 'again:') AS again", "n").write.format("headrace")
            once: dict[str, str | int] = {"txnAppId": "again", "txnVersion": number}
            again.mode("append").options(url=url, keyColumn="again", **once, **patient).save()

        checkpoint = str(directory / "batch-by-batch")
        written = source.writeStream.foreachBatch(append).option("checkpointLocation", checkpoint)
        queries.append(written.trigger(**trigger).start())
    return queries


def main(url: str, directory: Path, master: str) -> None:
    """Copy until a query fails for a reason that starting it again does not mend."""
    # A task whose process was killed is run again, and executors are started again however many were killed.
    endless = {"spark.task.maxFailures": "20", "spark.deploy.maxExecutorRetries": "-1"}
    spark = start_spark(directory, master, **endless)
    while True:
        queries = start_copies(spark, url, directory, once=False)
        try:
            spark.streams.awaitAnyTermination()
        except StreamingQueryException as failed:
            told = with_causes(failed)
            print(told, flush=True)
            if not may_be_started_again(told):
                raise
        for query in queries:
            query.stop()
        spark.streams.resetTerminated()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
