"""Streams against their archive: which entries has only one of them? `headrace pipeline audit`, in plain PySpark.

python examples/audit.py redis://127.0.0.1:6379 'sensor:*' lake/
"""

import sys

from pyspark.sql import SparkSession

from headrace.spark.java import prepare_java

url, keys, lake = sys.argv[1:]
prepare_java()
spark = SparkSession.builder.getOrCreate()
stream = spark.read.format("headrace").options(url=url, keys=keys, columns="key,id").load()
archive = spark.read.parquet(lake).selectExpr("cast(key AS string) AS key", "id")
missing = stream.exceptAll(archive).selectExpr("'missing in the archive' AS what", "*")
extra = archive.exceptAll(stream).selectExpr("'extra in the archive' AS what", "*")
missing.unionAll(extra).orderBy("key", "id").show(1000, truncate=False)
