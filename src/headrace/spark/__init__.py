"""Streams as Spark's tables: the PySpark data source, and what turns nodes into Arrow batches and back."""
