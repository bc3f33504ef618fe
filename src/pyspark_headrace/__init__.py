"""What makes Spark find `format("headrace")` by itself: it imports every top-level module called `pyspark_…`."""

from headrace.spark.source import HeadraceDataSource as DefaultSource

__all__ = ["DefaultSource"]
