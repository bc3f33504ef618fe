"""What the process uses of the machine."""

import ctypes
import os
import resource
from pathlib import Path
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_STATM: Final = Path("/proc/self/statm")

# glibc keeps what was freed; this gives whole pages of it back, where there is such a function.
_malloc_trim: Final = getattr(ctypes.CDLL(None), "malloc_trim", None)


def resident_bytes() -> int:
    """Return how much of the machine's memory the process holds."""
    try:
        return int(_STATM.read_bytes().split()[1]) * _PAGE
    except OSError:
        return peak_resident_bytes()


def peak_resident_bytes() -> int:
    """Return the most that it ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def machine_bytes() -> int:
    """Return how much memory the machine has."""
    return os.sysconf("SC_PHYS_PAGES") * _PAGE


def return_free_memory() -> None:
    """Give memory that was freed back to the system, so that `resident_bytes` shows what is in use."""
    if _malloc_trim is not None:
        _malloc_trim(0)
