"""One run at a time on an archive, and a clean start: for archives on a disk of this machine.

    archive/_lock    locked by the Python process that runs the job
                     its text: the Java process that writes for it, host, pid and the moment it started

The lock of a Python process that is killed is released, but its Java process lives for another moment, and its tasks
may still write files. The next run waits until that process is gone. Only then it is certain which files do not count:
those of batches that will never be committed. `Lake.remove_leftovers` removes them, because readers that do not ask
which files count would read their entries twice.
"""

import fcntl
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from headrace.pipelines.errors import ArchiveInUse, PipelineError
from headrace.pipelines.lake import local_path

_LOCK: Final = "_lock"
_PATIENCE_S: Final = 60.0
_POLL_S: Final = 0.1


@contextmanager
def sole_writer(spark: SparkSession, path: str) -> Iterator[None]:
    """Keep every other run away from an archive."""
    directory = local_path(path)
    if directory is None:
        yield
        return
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / _LOCK).open("a+")
    except OSError as error:
        raise PipelineError(f"the archive {path!r} cannot be written: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ArchiveInUse(f"another run is writing the archive {path!r}; wait for it or stop it") from None
        lock.seek(0)
        mine = _java_process(spark)
        _await_end(lock.read(), mine, path)
        lock.truncate(0)
        lock.write(mine)
        lock.flush()
        yield


def _java_process(spark: SparkSession) -> str:
    """Name the Java process of a session; nothing for one that is somewhere else (Spark Connect)."""
    context = getattr(spark, "_sc", None)
    if context is None:
        return ""
    pid = int(context._jvm.java.lang.ProcessHandle.current().pid())
    return f"{socket.gethostname()} {pid} {_started(pid)}"


def _started(pid: int) -> str:
    """Return when a process started, which tells it from a later one with its number; nothing if it is gone."""
    try:
        state, *rest = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ""
    # A process in state Z has ended, and its parent has not asked for its status yet: it writes no more.
    return "" if state in {"Z", "X"} else rest[18]


def _await_end(before: str, mine: str, path: str) -> None:
    """Wait until the Java process of the run before is gone."""
    if before == mine or before.count(" ") != 2:
        return
    host, pid, started = before.split(" ")
    deadline = time.monotonic() + _PATIENCE_S
    while host == socket.gethostname() and started and _started(int(pid)) == started:
        if time.monotonic() > deadline:
            raise ArchiveInUse(f"the Java process {pid} of an earlier run still holds the archive {path!r}; end it")
        time.sleep(_POLL_S)
