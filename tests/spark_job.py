"""A program that copies streams to streams and to Parquet for as long as it lives; the tests kill it.

python spark_job.py url directory [once]
"""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.spark.java import prepare_java


def main(url: str, directory: Path, once: bool) -> None:
    """Run both queries; `once`, until everything that is there is copied."""
    prepare_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Three attempts: a task whose Python process dies is run again.
    spark = (
        SparkSession.builder.master("local[2,3]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    source = (
        spark.readStream.format("headrace")
        .options(url=url, keys="in:*", startingId="earliest", maxEntriesPerTrigger=3000, minPartitions=3)
        .schema("_key string, n long")
        .load()
    )
    trigger = {"availableNow": True} if once else {"processingTime": "0 seconds"}
    copied = source.selectExpr("replace(_key, 'in:', 'out:') AS out", "n")
    queries = [
        copied.writeStream.format("headrace")
        .options(url=url, keyColumn="out", checkpointLocation=str(directory / "to-streams"))
        .trigger(**trigger)
        .start(),
        source.writeStream.format("parquet")
        .option("checkpointLocation", str(directory / "to-parquet"))
        .trigger(**trigger)
        .start(str(directory / "lake")),
    ]
    print("running", flush=True)
    for query in queries:
        query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), once="once" in sys.argv[3:])
