"""Streams as Spark's tables: the PySpark data source, and what turns nodes into Arrow batches and back.

Spark runs the source and its tasks in Python processes of its own, and starts the `python3` of the PATH for them: one
that has no headrace where nobody activated the virtual environment. Importing this package chooses the Python that
imports it, unless PYSPARK_PYTHON is set. A Spark that runs already keeps what it has.
"""

import os
import sys

if sys.executable:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
