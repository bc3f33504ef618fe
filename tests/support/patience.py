"""How a test waits for something that must come: until it is there, or until a deadline that only a fault reaches.

The deadline is generous: a process may be stopped for a minute on a busy machine, and its clock goes on meanwhile.
"""

import time
from collections.abc import Callable

PATIENCE_S = 120.0


def await_that(happens: Callable[[], object], *, pause_s: float = 0.005) -> None:
    """Wait until something is so; `pause_s` is for what costs much to ask."""
    deadline = time.monotonic() + PATIENCE_S
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(pause_s)
