"""The table that streams flow into, and the stream that its alarms flow out to, each exactly once."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
url = spark.conf.get("spark.headrace.url")


@dp.table
def readings() -> DataFrame:
    """Keep every entry of the streams."""
    keys = spark.conf.get("spark.headrace.keys")
    source = spark.readStream.format("headrace").options(url=url, keys=keys, startingId="earliest")
    return source.schema("_key string, _timestamp timestamp, temp double").load()


dp.create_sink("alarms", "headrace", {"url": url, "key": "alarms"})


@dp.append_flow(target="alarms")
def hot() -> DataFrame:
    """Tell of every reading that is too hot."""
    return spark.readStream.table("readings").where("temp >= 30").selectExpr("_key AS sensor", "temp")
