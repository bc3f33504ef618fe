"""What the process uses of the machine."""

import ctypes
import os
import resource
from pathlib import Path
from typing import Final

from headrace.core.memory import trim_as_it_frees

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_STATM: Final = Path("/proc/self/statm")
_STATUS: Final = Path("/proc/self/status")

# glibc keeps what was freed; this gives whole pages of it back, where there is such a function.
_malloc_trim: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)


def resident_bytes() -> int:
    """Return how much of the machine's memory the process holds."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE
    except OSError:
        return peak_resident_bytes()


def peak_resident_bytes() -> int:
    """Return the most that it ever held.

    Not what getrusage says: a process inherits that figure from the one that started it.
    """
    try:
        status = _STATUS.read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def machine_bytes() -> int:
    """Return how much memory the machine has."""
    return os.sysconf("SC_PHYS_PAGES") * _PAGE


def return_memory_as_it_frees(*, wanted: bool) -> None:
    """Let this thread give pages back whenever it has freed some megabytes of streams; or no longer."""
    if _malloc_trim is not None:
        trim_as_it_frees(ctypes.cast(_malloc_trim, ctypes.c_void_p).value if wanted else None)


def return_free_memory() -> None:
    """Give memory that was freed back to the system, so that `resident_bytes` shows what is in use."""
    if _malloc_trim is not None:
        _malloc_trim(0)
