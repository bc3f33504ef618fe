"""The server's log: lines like redis-server's, on standard output or in a file, and for syslog where that is asked for.

    1234:M 15 Nov 2026 07:57:44.661 * Ready to accept connections

The letter says what writes: `M` a master, `S` a replica, `C` a child. The mark says how much it matters: `.` debug,
`-` verbose, `*` notice, `#` warning.

The file is opened for each line, as redis-server does: when logrotate moves it away, the next line begins a new one.
"""

import os
import syslog
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

LEVELS: Final = ("debug", "verbose", "notice", "warning", "nothing")
_MARKS: Final = {"debug": ".", "verbose": "-", "notice": "*", "warning": "#"}
_PRIORITIES: Final = {
    "debug": syslog.LOG_DEBUG,
    "verbose": syslog.LOG_INFO,
    "notice": syslog.LOG_NOTICE,
    "warning": syslog.LOG_WARNING,
}


class Log:
    """Writes lines from a level on."""

    def __init__(self, path: str, level: str) -> None:
        """Try whether the file can be written to; an empty path is standard output."""
        self._path = Path(path).absolute() if path else None  # the current directory may change
        self.is_of_replica: Callable[[], bool] = lambda: False
        self._pid = os.getpid()
        self._to_syslog = False
        if self._path is not None:
            with self._path.open("ab"):
                pass
        self.set_level(level)

    def set_level(self, level: str) -> None:
        """Write only lines of this level and above from now on."""
        self._least = LEVELS.index(level)

    def use_syslog(self, ident: str, facility: str) -> None:
        """Send every line to syslog as well."""
        options = syslog.LOG_PID | syslog.LOG_NDELAY | syslog.LOG_NOWAIT
        syslog.openlog(ident, options, getattr(syslog, f"LOG_{facility.upper()}"))
        self._to_syslog = True

    @property
    def is_kept(self) -> bool:
        """Whether lines go where they are found later."""
        return self._path is not None or self._to_syslog

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

    @property
    def _role(self) -> str:
        if os.getpid() != self._pid:
            return "C"
        return "S" if self.is_of_replica() else "M"

    def _write(self, level: str, text: str) -> None:
        if LEVELS.index(level) < self._least:
            return
        now = datetime.now()
        stamp = f"{now:%d %b %Y %H:%M:%S}.{now.microsecond // 1000:03}"
        line = f"{os.getpid()}:{self._role} {stamp} {_MARKS[level]} {text}\n"
        # The reader of the log may be gone, or its disk full: the server continues. So nothing is written through
        # `sys.stdout`, because there a reader that leaves ends the process.
        with suppress(OSError), open(self._path or 1, "ab", closefd=self._path is not None) as file:
            file.write(line.encode(errors="replace"))
        if self._to_syslog:
            syslog.syslog(_PRIORITIES[level], text)
