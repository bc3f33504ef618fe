"""Python functions as tasks of Spark, with texts as their results.

run_tasks(spark, work, 3) ─► [work(0), work(1), work(2)]     each in a task, on whatever executor is free
"""

import uuid
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession

# Spark gives the process of a Python task 10 s to start, which is not enough on a busy machine, and has no setting
# for it; and tasks do not survive the end of their process.
_PASSING: Final = ("Python worker failed to connect back", "Python worker exited unexpectedly")
_ATTEMPTS: Final = 5


def run_tasks(spark: SparkSession, work: Callable[[int], str], count: int) -> list[str]:
    """Run a function for each number below `count`, and return what it says, in the order of the numbers."""

    def run(batches):  # type: ignore[no-untyped-def]  # (Spark refuses a function whose hints it does not know)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                told = pa.array([work(number)], pa.string())
                yield pa.RecordBatch.from_arrays([pa.array([number], pa.int64()), told], ["id", "told"])

    if not count:
        return []
    tag = f"headrace-{uuid.uuid4()}"
    spark.addTag(tag)
    try:
        rows = _collect(spark.range(0, count, 1, count).mapInArrow(run, "id long, told string"))
    except BaseException:
        spark.interruptTag(tag)
        raise
    finally:
        spark.removeTag(tag)
    return [row["told"] for row in sorted(rows, key=lambda row: row["id"])]


def _collect(frame: Any) -> list[Any]:
    for attempt in range(_ATTEMPTS):
        try:
            rows: list[Any] = frame.collect()
        except Exception as error:
            if attempt + 1 == _ATTEMPTS or not any(words in str(error) for words in _PASSING):
                raise
        else:
            return rows
    raise AssertionError
