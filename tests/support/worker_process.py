"""Workers of a framework in processes of their own, which can be killed, and what they note on the server.

    started   the jobs that a worker has begun
    done      the jobs that are done

A worker that is told to hold never ends a job: it is there to be killed in the middle of one.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import redis

from support.patience import PATIENCE_S

APPS = Path(__file__).parent / "apps"


class WorkerProcess:
    """A program of `apps`, with all processes that it starts."""

    def __init__(self, log: Path, port: int, *arguments: str, name: str = "worker", hold: bool = False) -> None:
        self._log = log
        settings = {"APP_PORT": str(port), "APP_NAME": name, "APP_HOLD": "1" if hold else ""}
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=APPS,
                env={**os.environ, **settings, "PYTHONUNBUFFERED": "1"},
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> "WorkerProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
        if error is not None:
            error.add_note(f"the worker said:\n{self._log.read_text(errors='replace')[-4000:]}")

    def kill(self) -> None:
        """Let it vanish, as in a power failure."""
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(10)


def await_that(condition: Callable[[], bool], what: str, seconds: float = PATIENCE_S) -> None:
    """Return once a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"it never came to be that {what}"
        time.sleep(0.02)


def await_members(client: redis.Redis, key: str, members: set[str]) -> None:
    """Return once a set has at least these members."""
    await_that(lambda: members <= client.smembers(key), f"{key} has {len(members)} members")
