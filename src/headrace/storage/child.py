"""Work on the data as it is now, beside the process that changes it: in a forked one, which sees none of their changes.

    parent ──fork──► child: work(report) ─► pipe: keys done … ─► pipe: the outcome ─► exit
       └── poll, ten times a second ◄───────────┘

The system copies only the pages that either side changes meanwhile. The child keeps no descriptor but the pipe and what
it opens itself, so that connections which the parent ends are ended.
"""

import gc
import json
import os
import signal
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import NamedTuple, Protocol

from headrace.storage.errors import StorageError

Report = Callable[[int], None]  # takes how many keys are done
Work = Callable[[Report], None]


class Outcome(NamedTuple):
    """How a job ended: `error` is a sentence, or empty."""

    error: str
    copied_bytes: int  # of memory, because either side changed it
    seconds: float


class Job(Protocol):
    """Work that goes on, or has ended."""

    keys_done: int
    fork_seconds: float  # how long the parent stood still when it began

    def poll(self) -> Outcome | None:
        """Return how it ended, once."""

    def kill(self) -> None:
        """End it now, whatever it has done."""

    @property
    def seconds(self) -> float:
        """How long it has been going on."""


class InlineJob:
    """Work that was done when it was asked for."""

    def __init__(self, work: Work) -> None:
        self.keys_done = 0
        self.fork_seconds = 0.0
        self.seconds = 0.0
        self._outcome = Outcome(_attempt(work, self._report), 0, 0.0)

    def _report(self, keys: int) -> None:
        self.keys_done = keys

    def poll(self) -> Outcome:
        """Return how it ended."""
        return self._outcome

    def kill(self) -> None:
        """Do nothing: it is done."""


class ForkedJob:
    """Work that a child process does; an OSError where the system gives none."""

    def __init__(self, work: Work) -> None:
        self.keys_done = 0
        self._text = b""
        self._said: dict[str, object] = {}  # how it went; the child may still be giving back its memory
        self._began = monotonic()
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            # The child runs on one thread and takes no lock that another thread of the parent may have held.
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                self.pid = os.fork()
            except OSError:
                os.close(reading)
                os.close(writing)
                raise
        if self.pid == 0:
            _be_child(work, writing)
        self.fork_seconds = monotonic() - self._began
        os.close(writing)
        os.set_blocking(reading, False)
        self._pipe = reading

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return monotonic() - self._began

    def poll(self) -> Outcome | None:
        """Return how it ended, once.

        It is not waited for: a child needs 100 ms and more to leave gigabytes behind.
        """
        with suppress(BlockingIOError):
            while data := os.read(self._pipe, 65536):
                self._text += data
        *lines, self._text = self._text.split(b"\n")
        for line in lines:
            said = json.loads(line)
            self.keys_done = said.get("keys", self.keys_done)
            if "error" in said:
                self._said = said
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            pid, status = self.pid, 0  # a program that we are part of waits for its children itself
        if pid == 0:
            return None
        os.close(self._pipe)
        error = str(self._said.get("error", f"the process that wrote it ended by {_end(status)}"))
        return Outcome(error, int(str(self._said.get("copied", 0))), self.seconds)

    def kill(self) -> None:
        """End it now, whatever it has done."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        os.close(self._pipe)


def _be_child(work: Work, pipe: int) -> None:
    """Do the work, say how it went, and end without a trace of the parent's affairs."""
    try:
        gc.disable()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is the parent's to answer
        os.dup2(pipe, 3)
        os.closerange(4, os.sysconf("SC_OPEN_MAX"))
        error = _attempt(work, lambda keys: _say({"keys": keys}))
        _say({"error": error, "copied": _copied_bytes()})
    finally:
        os._exit(0)


def _say(what: dict[str, object]) -> None:
    os.write(3, json.dumps(what).encode() + b"\n")


def _attempt(work: Work, report: Report) -> str:
    """Do the work; return what went wrong."""
    try:
        work(report)
    except OSError as error:
        return error.strerror or str(error)
    except MemoryError:
        return "there is not enough memory"
    except StorageError as error:
        return str(error)
    return ""


def _copied_bytes() -> int:
    """How much memory this process has for itself."""
    try:
        rollup = Path("/proc/self/smaps_rollup").read_text("ascii")
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Private_Dirty:"))


def _end(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
