"""How a test waits for what must come: until it is there, or a deadline that only a fault reaches.

Processes may also be stopped for a minute, and clocks go on meanwhile.
"""

import time
from collections.abc import Callable

PATIENCE_S = 120.0


def await_that(happens: Callable[[], object]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE_S
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.005)
