"""Where storage writes its messages: the log of the server or of a program, or nowhere."""

from typing import Protocol


class Log(Protocol):
    """Takes sentences for an operator."""

    def notice(self, text: str) -> None:
        """Note what is usual."""

    def warning(self, text: str) -> None:
        """Note what somebody should know."""


class SilentLog:
    """Drops everything."""

    def notice(self, text: str) -> None:
        """Drop what is usual."""

    def warning(self, text: str) -> None:
        """Drop what somebody should know."""
