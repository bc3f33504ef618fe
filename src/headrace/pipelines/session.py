"""A SparkSession: finds a Java, sets the workers' Python, and keeps Spark's own messages off the terminal."""

import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from headrace.pipelines.errors import NoSpark, PipelineError
from headrace.spark.java import prepare_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Python does not wait for a worker that imports what the last one did.
    "spark.python.worker.reuse": "true",
}
_ON_THIS_MACHINE: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
}


@contextmanager
def spark_session(master: str = "local[*]", *, verbose: bool = False) -> Iterator["SparkSession"]:
    """Give a session, and stop it in the end; a session that exists already is given as it is, and not stopped.

    `verbose` lets Spark's log and Java's remarks through.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise NoSpark("this needs Spark and there is none: pip install 'headrace[spark]'")
    from pyspark.sql import SparkSession  # noqa: PLC0415  (may be missing, see above)

    found = SparkSession.getActiveSession()
    if found is not None:
        yield found
        return
    prepare_java()
    builder = SparkSession.builder.master(master).appName("headrace")
    settings = _SETTINGS | (_ON_THIS_MACHINE if master.startswith("local") else {})
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = _start(builder, master, verbose=verbose)
    try:
        yield session
    finally:
        session.stop()


def _start(builder: "SparkSession.Builder", master: str, *, verbose: bool) -> "SparkSession":
    if verbose:
        return builder.getOrCreate()
    # Java keeps the standard error that it is started with, so that everything it writes goes to this file.
    with tempfile.TemporaryFile() as said, _standard_error_to(said.fileno()):
        try:
            session = builder.getOrCreate()
        except Exception as error:  # (PySpark raises what it likes here, and all of it means the same)
            said.seek(0)
            lines = [line for line in said.read().decode(errors="replace").splitlines() if line.strip()]
            why = str(error).splitlines()[0] if str(error) else (lines or ["it does not say why"])[-1]
            raise PipelineError(f"Spark does not start on {master!r}: {why} (--verbose shows its log)") from error
    session.sparkContext.setLogLevel("OFF")
    return session


@contextmanager
def _standard_error_to(descriptor: int) -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
