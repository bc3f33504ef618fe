"""Being started and watched by others: in the background, or by systemd or upstart.

    daemonize yes         the process that was started waits until the server listens, then exits with status 0; where
                          the server cannot start, it exits with the server's status
    supervised systemd    the socket NOTIFY_SOCKET gets READY=1 once the data is loaded, more time while it is being
                          loaded, and STOPPING=1 at the end; where the unit has a WatchdogSec=, it gets WATCHDOG=1
                          twice in that time, from the event loop, so that a server which hangs is started again
    supervised upstart    the process stops itself when it is ready (SIGSTOP), which upstart waits for
    supervised auto       whichever of these two the environment shows, if any

A supervised process stays in the foreground, whatever `daemonize` says.
"""

import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

_STATUS_S: Final = 1.0  # how long at least between two messages while data is loaded
_MORE_TIME_US: Final = 30_000_000


class Supervisor:
    """The supervisor that waits for this process; `kind` is "systemd", "upstart" or "no"."""

    def __init__(self, asked_for: str) -> None:
        """Take from the environment what children must not inherit."""
        self._address = os.environ.pop("NOTIFY_SOCKET", "") if asked_for in ("systemd", "auto") else ""
        job = os.environ.pop("UPSTART_JOB", "") if asked_for in ("upstart", "auto") else ""
        self.kind = "systemd" if self._address else "upstart" if job else "no"
        self.missing = "" if asked_for in ("no", "auto", self.kind) else asked_for
        self._told = 0.0
        self._watchdog_s = self._watchdog_interval() if self._address else 0.0
        self._fed = 0.0

    def _watchdog_interval(self) -> float:
        """Take from the environment how often the watchdog wants to hear of this process; 0: never."""
        pid, limit_us = os.environ.pop("WATCHDOG_PID", ""), os.environ.pop("WATCHDOG_USEC", "")
        if not limit_us.isdecimal() or pid not in ("", str(os.getpid())):
            return 0.0
        return int(limit_us) / 2_000_000

    def tick(self) -> None:
        """Say that the event loop turns, as often as the watchdog wants it."""
        now = monotonic()
        if self._watchdog_s and now - self._fed >= self._watchdog_s:
            self._fed = now
            self._send("WATCHDOG=1")

    def loading(self, done: int, total: int) -> None:
        """Say how far loading is, and ask for more time than a start usually has."""
        now = monotonic()
        if self._address and now - self._told >= _STATUS_S:
            self._told = now
            share = 100 * done // total if total else 0
            self._send(f"STATUS=Loading data: {share}%\nEXTEND_TIMEOUT_USEC={_MORE_TIME_US}")

    def ready(self) -> None:
        """Say that clients are served."""
        self._send("STATUS=Ready to accept connections\nREADY=1")
        if self.kind == "upstart":
            os.kill(os.getpid(), signal.SIGSTOP)

    def stopping(self) -> None:
        """Say that the end has begun."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        # The server serves also where the supervisor does not listen.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.sendto(text.encode(), address)


def go_to_background() -> Callable[[], None]:
    """Go on in a child process; what is returned lets the process that was started exit.

    Until then the child writes to the same terminal, so that a person reads why it cannot start.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        os.close(writing)
        if os.read(reading, 1):
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os._exit(status if status > 0 else 1)
    os.close(reading)
    os.setsid()

    def let_go() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.close(null)
        os.write(writing, b".")
        os.close(writing)

    return let_go
