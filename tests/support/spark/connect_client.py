"""A client of Spark Connect that reads and writes streams without registering anything.

python spark_connect_client.py url directory

in ─┬─ batch ──────► batched
    └─ streaming ──► streamed
"""

import sys

from pyspark.sql import SparkSession

from support.spark.queries import run_to_the_end
from support.spark.sessions import SETTINGS


def main(url: str, directory: str) -> None:
    """Copy a stream twice."""
    builder = SparkSession.builder.remote("local[2]")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    frame = spark.read.format("headrace").options(url=url, keys="in").schema("n int").load()
    frame.write.format("headrace").mode("append").options(url=url, key="batched").save()
    stream = spark.readStream.format("headrace").options(url=url, keys="in", startingId="earliest").schema("n int")
    sink = stream.load().writeStream.format("headrace").options(url=url, key="streamed", checkpointLocation=directory)
    run_to_the_end(lambda: [sink.trigger(availableNow=True).start()])
    print(type(spark).__module__)


if __name__ == "__main__":
    main(*sys.argv[1:])
