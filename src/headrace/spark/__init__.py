"""Streams as Spark's tables: the PySpark data source, and what turns nodes into Arrow batches and back.

Spark runs the source and its tasks in Python processes of its own. It starts the `python3` of the PATH for them, which
has no headrace unless the virtual environment is active. Importing this package therefore makes Spark use the Python
that imports it, unless PYSPARK_PYTHON is set. A Spark that runs already keeps the Python that it has.
"""

import os
import sys

if sys.executable:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
