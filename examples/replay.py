"""An archive back to streams, IDs kept: `headrace pipeline replay`, in plain PySpark.

python examples/replay.py lake/ redis://127.0.0.1:6379 again: 2026-11-15T00:00:00Z 2026-11-16T00:00:00Z

IDs only rise, so that the rows are sorted; every stream gets its entries at once, or none.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from headrace.spark.java import prepare_java

lake, url, prefix, start, end = sys.argv[1:]
prepare_java()
spark = SparkSession.builder.getOrCreate()
archive = spark.read.parquet(lake).where(f.col("timestamp") >= start).where(f.col("timestamp") < end)
entries = archive.select(
    f.concat(f.lit(prefix), f.col("key").cast("string")).alias("target"), "id", "fields", "ms", "seq"
)
(
    entries.orderBy("target", "ms", "seq")
    .select("target", "id", "fields")
    .write.format("headrace")
    .mode("append")
    .options(url=url, keyColumn="target", idColumn="id", fieldsColumn="fields")
    .save()
)
