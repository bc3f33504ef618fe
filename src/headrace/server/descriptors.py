"""How many clients the system has descriptors for."""

import resource
from contextlib import suppress
from typing import Final

_OWN_DESCRIPTORS: Final = 32  # for listeners, files and the event loop, beside those of clients


def raise_descriptor_limit(clients: int) -> int:
    """Ask the system for descriptors for so many clients; return for how many there are."""
    needed = clients + _OWN_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        for most in (max(needed, hard), hard):  # without the right to raise the hard limit, as far as it goes
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, most), most))
                break
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return clients if soft == resource.RLIM_INFINITY or soft >= needed else soft - _OWN_DESCRIPTORS
