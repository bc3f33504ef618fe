"""One run at a time on an archive, and a clean start: for archives on a disk of this machine.

    archive/_lock    locked by the Python process that runs the job
                     its text: the Java process that writes for it, host, pid and the moment it started

The lock of a Python process that is killed is released, but its Java process lives for another moment, and may still
commit its batch. The next run waits until that process is gone. Only then it is certain which files do not count: those
of batches that will never be committed. They are removed, because readers that do not ask Spark which files count would
read their entries twice.
"""

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession

from headrace.pipelines.errors import ArchiveInUse, PipelineError

_LOCK: Final = "_lock"
_METADATA: Final = "_spark_metadata"
_PATIENCE_S: Final = 60.0
_POLL_S: Final = 0.1


@contextmanager
def sole_writer(spark: SparkSession, path: str) -> Iterator[None]:
    """Keep every other run away from an archive, and leave in it only files that count."""
    directory = _local(path)
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
        _remove_leftovers(directory)
        yield


def settle_on_disk(path: str) -> None:
    """Wait until everything that was written to an archive on this machine is on the disk; Spark does not wait."""
    if _local(path) is not None:
        os.sync()


def _local(path: str) -> Path | None:
    """Return a path of this machine's; None for one of another store."""
    parts = urlsplit(path)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if parts.scheme else Path(path)


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


def _remove_leftovers(directory: Path) -> None:
    """Remove the files of batches that were never committed."""
    counted: set[str] = set()
    for log in (directory / _METADATA).glob("[0-9]*"):
        for line in log.read_text().splitlines():
            if line.startswith("{"):
                counted.add(Path(unquote(json.loads(line)["path"])).name)
    for file in directory.glob("key=*/date=*/*.parquet"):
        if file.name not in counted:
            file.unlink()
            file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
