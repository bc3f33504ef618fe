"""Files to a stream, each row once: `headrace pipeline load`, in plain PySpark.

python examples/load.py redis://127.0.0.1:6379 readings/ sensor:1 checkpoint/

Run it again: only files that are new are loaded. The checkpoint knows which, and the server which batch was the last.
"""

import sys

from pyspark.sql import SparkSession

from headrace.spark.java import prepare_java

url, files, key, checkpoint = sys.argv[1:]
prepare_java()
spark = SparkSession.builder.getOrCreate()
columns = spark.read.option("header", True).csv(files).schema
rows = spark.readStream.option("header", True).schema(columns).csv(files)
query = (
    rows.writeStream.format("headrace")
    .options(url=url, key=key, checkpointLocation=checkpoint)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
