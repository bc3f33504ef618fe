"""The processes of the demo: each has a session of its own, and none outlives it.

The terminal sends Ctrl-C to the processes in the foreground. Children in sessions of their own do not get it, and the
demo ends them in its own order. Spark starts a JVM, and the JVM starts a Python daemon in a process group of its own.
They all share the session, so that the demo kills a session.

A child that has a pipe as its standard input reads the end of it when the demo dies, however it dies.
`python -m headrace.demo.children --SETTING VALUE …` is `headrace serve` as such a child.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

_WAIT_S: Final = 10


def start_child(module: str, *arguments: object, log: Path, **environment: str) -> subprocess.Popen[str]:
    """Run a module of ours; the demo reads its standard output, and its standard error goes to a file."""
    with log.open("ab") as complaints:
        return subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            start_new_session=True,
            env={**os.environ, **environment},
        )


def end_session(child: subprocess.Popen[str]) -> None:
    """Kill a child and everything that it has started."""
    for _ in range(3):  # a process that is forked meanwhile is found in the next round
        members = _members(child.pid)
        for member in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        if not members:
            break
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_WAIT_S)
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def _members(session: int) -> list[int]:
    """Return the processes of a session that have not ended."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, *numbers = (entry / "stat").read_text().rpartition(") ")[2].split()
            if int(numbers[2]) == session and state not in "ZX":
                found.append(int(entry.name))
    return found


def end_with_parent(asked: Callable[[], None] = lambda: None) -> None:
    """In a child: exit at once when the demo has ended; until then, call a function for every byte that it sends."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 1):  # not through a buffer: its lock would be held when the process ends
            asked()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    from headrace.server.starting import serve

    end_with_parent()
    serve(sys.argv[1:])
