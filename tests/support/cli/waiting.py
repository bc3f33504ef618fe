"""Waiting for what a process does, with a deadline that only a fault reaches."""

import time
from collections.abc import Callable

from support.cli.process import PATIENCE_S


def eventually(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)
