"""What those who run an engine do for it: they log, end the server, send snapshots, and let long commands pause.

A server puts all of it in place, a program that runs the engine in its own process some, and a test what it looks at.
"""

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.engine.scripting.long_runs import LongRuns
    from headrace.engine.server_end import ServerEnd
    from headrace.engine.snapshot_request import SnapshotSender


def _print_failure(_name: bytes, bug: Exception) -> None:
    """Say on standard error what went wrong in a command."""
    traceback.print_exception(bug)


def _ignore(_text: str) -> None:
    """Do without a sentence for the operator, where there is no log."""


class Hooks:
    """See the module."""

    def __init__(self) -> None:
        self.failure: Callable[[bytes, Exception], None] = _print_failure  # an error of ours in a command's handler
        self.warning: Callable[[str], None] = _ignore  # a sentence for the operator: what is due cannot be done
        self.promotion: list[Callable[[], None]] = []  # called when no master decides any more what is due
        self.long_runs: LongRuns | None = None  # what lets the host have its turn while a command runs long
        self.snapshot_sender: SnapshotSender | None = None  # what sends clients a snapshot over their connection
        self.server_end: ServerEnd | None = None  # what ends the server
