"""Streams to Parquet by key and date, every entry once: `headrace pipeline archive`, in plain PySpark.

python examples/archive.py redis://127.0.0.1:6379 'sensor:*' lake/
"""

import sys

from pyspark.sql import SparkSession

from headrace.spark.java import prepare_java

url, keys, lake = sys.argv[1:]
prepare_java()
spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
entries = spark.readStream.format("headrace").options(url=url, keys=keys, startingId="earliest").load()
query = (
    entries.selectExpr("*", "to_date(timestamp) AS date")
    .writeStream.partitionBy("key", "date")
    .option("checkpointLocation", f"{lake}/_checkpoint")
    .trigger(availableNow=True)
    .start(lake, "parquet")
)
query.awaitTermination()
