"""Nodes into Apache Arrow's columns, and columns into nodes.

Compiled, and independent of Arrow itself: buffers in Arrow's layout come out and go in (spark.arrow_columns hands them
to pyarrow). Knows the stored form (core) and nothing above it.
"""
