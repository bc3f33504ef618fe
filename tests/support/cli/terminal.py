"""A command in a pseudo-terminal: what it shows, and keys for it."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from types import TracebackType

import redis

from support.cli.process import COMMAND, environment
from support.patience import PATIENCE_S

ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07|[()][A-Z0-9]|[=>])")
# The session that a command leads gets the terminal as its own, so that Ctrl-C reaches it; then it becomes the command.
OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
ALTERNATE_SCREEN = "\x1b[?1049h"
FORMER_SCREEN = "\x1b[?1049l"


class PseudoTerminal:
    """`headrace` with a terminal for its standard streams; killed when left."""

    def __init__(self, *arguments: str, server: redis.Redis, rows: int = 30, columns: int = 120) -> None:
        self.received = ""
        self._control, self._inside = pty.openpty()
        self._former = termios.tcgetattr(self._inside)
        fcntl.ioctl(self._inside, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWN_TERMINAL, *COMMAND, *arguments],
            stdin=self._inside,
            stdout=self._inside,
            stderr=self._inside,
            env=environment(server),
            start_new_session=True,
        )

    def __enter__(self) -> "PseudoTerminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        os.close(self._control)
        os.close(self._inside)

    @property
    def is_as_before(self) -> bool:
        """Whether keys do what they did before the command: lines, echo and all."""
        return termios.tcgetattr(self._inside) == self._former

    @property
    def text(self) -> str:
        """All that was shown so far, without colours and movements."""
        return ESCAPES.sub("", self.received)

    def press(self, keys: str) -> None:
        os.write(self._control, keys.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.press("\x03")

    def forget(self) -> None:
        """Look only at what comes from now on."""
        self.received = ""

    def await_text(self, *texts: str) -> None:
        """Return once all these were shown."""
        self._receive_until(lambda: all(text in self.text for text in texts), f"never showed {texts}")

    def await_pattern(self, pattern: str) -> re.Match[str]:
        """Return the first match in what was shown."""
        self._receive_until(lambda: re.search(pattern, self.text) is not None, f"never showed {pattern}")
        match = re.search(pattern, self.text)
        assert match is not None
        return match

    def await_end(self) -> int:
        """Return the exit code."""
        self._receive_until(lambda: self.process.poll() is not None, "never ended")
        while self._receive(0.05):
            pass
        return self.process.wait(PATIENCE_S)

    def _receive_until(self, reached: Callable[[], bool], complaint: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not reached():
            assert time.monotonic() < deadline, f"it {complaint}:\n{self.text}"
            self._receive(0.1)

    def _receive(self, patience_s: float) -> bool:
        if not select.select([self._control], [], [], patience_s)[0]:
            return False
        try:
            data = os.read(self._control, 65536)
        except OSError:  # the other end is closed
            return False
        self.received += data.decode("utf-8", "replace")
        return bool(data)
