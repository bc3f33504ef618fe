"""Python runs this file where it starts with this directory on its path: Spark's daemons then import the source.

A daemon forks a process for each query that is planned and for each batch that is committed, and each of them would
import the source anew, which takes longer than its work: 62 tests of reading took 74 s, and take 52 s so.
"""

import sys

if "pyspark.daemon" in sys.orig_argv:
    import headrace.spark.source  # noqa: F401
