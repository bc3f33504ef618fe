"""One pipeline that tests run in several places, to compare its answers.

    spark-submit [--master …] spark_pipeline.py url[,url…] directory

    readings:* ─┬─ batch ──────► averages by sensor and hour
                └─ streaming ──► stream "alarms" on the first server, and Parquet

The answer is written to directory/answer.json. Nothing is registered: Spark finds the source by itself.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from support.spark.queries import run_to_the_end

SCHEMA = "_key string, _id string, _timestamp timestamp, sensor string, value decimal(8,2)"


def run(spark: SparkSession, urls: str, directory: Path) -> dict[str, list[list[str]]]:
    """Run the pipeline to its end, and return what came out."""
    first = urls.split(",", maxsplit=1)[0]
    options = {"url": urls, "keys": "readings:*", "minPartitions": "4"}
    batch = spark.read.format("headrace").options(**options).schema(SCHEMA).load()
    averages = batch.groupBy("sensor", batch._timestamp.substr(1, 13).alias("hour")).agg({"value": "avg"})
    stream = (
        spark.readStream.format("headrace")
        .options(startingId="earliest", maxEntriesPerTrigger=2000, **options)
        .schema(SCHEMA)
        .load()
    )
    alarms = stream.where("value >= 90").selectExpr("'alarms' AS out", "sensor", "value", "_id AS reading")
    to_stream = alarms.writeStream.format("headrace").options(url=first, keyColumn="out").trigger(availableNow=True)
    to_lake = stream.writeStream.format("parquet").trigger(availableNow=True)
    run_to_the_end(
        lambda: [
            to_stream.start(checkpointLocation=str(directory / "to-stream")),
            to_lake.start(str(directory / "lake"), checkpointLocation=str(directory / "to-parquet")),
        ]
    )
    written = spark.read.format("headrace").options(url=first, keys="alarms").schema("sensor string, reading string")
    return {
        "averages": _sorted(averages),
        "alarms": _sorted(written.load()),
        "lake": _sorted(spark.read.schema(SCHEMA).parquet(str(directory / "lake")).selectExpr("_key", "_id", "value")),
    }


def _sorted(frame: DataFrame) -> list[list[str]]:
    return sorted([str(value) for value in row] for row in frame.collect())


if __name__ == "__main__":
    session = SparkSession.builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    found = run(session, sys.argv[1], Path(sys.argv[2]))
    (Path(sys.argv[2]) / "answer.json").write_text(json.dumps(found))
    session.stop()
