"""What is in streams, as tables: rates over time and fields. `headrace pipeline report` makes a page of it.

python examples/report.py redis://127.0.0.1:6379 'sensor:*'
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from headrace.spark.java import prepare_java

url, keys = sys.argv[1:]
prepare_java()
spark = SparkSession.builder.getOrCreate()
entries = spark.read.format("headrace").options(url=url, keys=keys).load()
entries.groupBy(f.window("timestamp", "1 minute").start.alias("minute"), "key").count().orderBy("minute", "key").show()
fields = entries.select(f.explode("fields").alias("field", "value")).groupBy("field")
fields.agg(f.count("*").alias("entries"), f.approx_count_distinct("value").alias("distinct")).orderBy("field").show()
