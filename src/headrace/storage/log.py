"""Where storage says what happens: the server's log, or the log of a program."""

from typing import Protocol


class Log(Protocol):
    """Takes sentences for an operator."""

    def notice(self, text: str) -> None:
        """Note what is usual."""

    def warning(self, text: str) -> None:
        """Note what somebody should know."""
