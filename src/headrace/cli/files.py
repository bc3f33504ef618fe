"""Reading a data directory, or one of its files, for a command: with a bar, and with warnings on standard error."""

from pathlib import Path

from rich.console import Console
from rich.text import Text

from headrace.cli.terminal import run_steps
from headrace.engine.engine import Engine
from headrace.storage.disk import Disk
from headrace.storage.loading import Loaded
from headrace.storage.reading import read_data


class Warnings:
    """Keeps the sentences that loading has for an operator, and prints them."""

    def __init__(self, console: Console) -> None:
        self.sentences: list[str] = []
        self._console = console

    def notice(self, text: str) -> None:
        """Drop what is usual."""

    def warning(self, text: str) -> None:
        """Print what somebody should know."""
        self.sentences.append(text)
        self._console.print(Text(text, style="yellow"), soft_wrap=True)


def read_engine(path: Path) -> tuple[Engine, Loaded]:
    """Load what a path holds; nothing is changed there."""
    return run_steps("reading", read_data(path, Warnings(Console(stderr=True, highlight=False)), Disk()))
