"""The server's log: lines like redis-server's, on standard output or in a file.

    1234:M 15 Nov 2026 07:57:44.661 * Ready to accept connections

The mark says how much it matters: `.` debug, `-` verbose, `*` notice, `#` warning.
"""

import os
import sys
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final, TextIO

LEVELS: Final = ("debug", "verbose", "notice", "warning", "nothing")
_MARKS: Final = {"debug": ".", "verbose": "-", "notice": "*", "warning": "#"}


class Log:
    """Writes lines from a level on."""

    def __init__(self, path: str, level: str) -> None:
        """Open the log; an empty path is standard output."""
        self._out: TextIO = Path(path).open("a", encoding="utf-8", errors="replace") if path else sys.stdout  # noqa: SIM115
        self.set_level(level)

    def set_level(self, level: str) -> None:
        """Write only lines of this level and above from now on."""
        self._least = LEVELS.index(level)

    def debug(self, text: str) -> None:
        """Write what only a developer wants to know."""
        self._write("debug", text)

    def verbose(self, text: str) -> None:
        """Write what is usual, but seldom of interest."""
        self._write("verbose", text)

    def notice(self, text: str) -> None:
        """Write what an operator wants to know."""
        self._write("notice", text)

    def warning(self, text: str) -> None:
        """Write what an operator should know."""
        self._write("warning", text)

    def _write(self, level: str, text: str) -> None:
        if LEVELS.index(level) >= self._least:
            now = datetime.now()
            stamp = f"{now:%d %b %Y %H:%M:%S}.{now.microsecond // 1000:03}"
            # Who read the log may be gone, or its disk full: to serve is worth more.
            with suppress(OSError):
                self._out.write(f"{os.getpid()}:M {stamp} {_MARKS[level]} {text}\n")
                self._out.flush()
