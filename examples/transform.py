"""A query over streams whose result is a stream: `headrace pipeline transform`, in plain PySpark.

python examples/transform.py redis://127.0.0.1:6379 'sensor:*' averages
"""

import sys

from pyspark.sql import SparkSession

from headrace.spark.java import prepare_java

url, keys, target = sys.argv[1:]
prepare_java()
spark = SparkSession.builder.getOrCreate()
readings = spark.read.format("headrace").options(url=url, keys=keys).schema("_key string, temp double").load()
readings.createOrReplaceTempView("readings")
averages = spark.sql("SELECT _key AS sensor, count(*) AS readings, avg(temp) AS temp FROM readings GROUP BY _key")
averages.write.format("headrace").mode("append").options(url=url, key=target).save()
