"""Keys as they are pressed, without Enter; the terminal is given back as it was."""

import os
import select
import sys
import termios
import tty
from types import TracebackType
from typing import Any, Final

_NAMES: Final = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b[H": "home",
    b"\x1b[1~": "home",
}
_ESCAPE: Final = b"\x1b"
_LONGEST: Final = 8


class Keyboard:
    """Standard input, one key at a time, while entered."""

    def __init__(self) -> None:
        self._file = sys.stdin.fileno()
        self._former: list[Any] = []

    def __enter__(self) -> "Keyboard":
        self._former = termios.tcgetattr(self._file)
        tty.setcbreak(self._file)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        termios.tcsetattr(self._file, termios.TCSADRAIN, self._former)

    def next_key(self, patience_s: float) -> str | None:
        """Wait for a key for some time; `q` when standard input has ended."""
        if not select.select([self._file], [], [], patience_s)[0]:
            return None
        pressed = os.read(self._file, 1)
        if not pressed:
            return "q"
        # The bytes of one key come together; more than one key in a hurry is read one by one.
        while pressed.startswith(_ESCAPE) and pressed not in _NAMES and len(pressed) < _LONGEST:
            if not select.select([self._file], [], [], 0.02)[0]:
                break
            pressed += os.read(self._file, 1)
        return _NAMES.get(pressed) or pressed.decode("utf-8", "replace")
