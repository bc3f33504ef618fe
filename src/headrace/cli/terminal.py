"""The terminal of a command: a console for its output, a bar on standard error for long work, questions to the person.

A terminal has a width; a file or a pipe has none, and no line is broken there. Without a terminal there is no bar.
"""

import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar

from headrace.cli.errors import CommandFailed
from headrace.engine.persistence import Progress

_ENDLESS: Final = 10_000

_Result = TypeVar("_Result")


def output_console() -> Console:
    """Return a console for standard output."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _ENDLESS
    return console


@contextmanager
def counted(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a bar while entered; gives the function that says how much is done by now."""
    with _bar(what, TaskProgressColumn(), MofNCompleteColumn()) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


@contextmanager
def measured(what: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar of bytes while entered; gives the function that says how many have come, and of how many."""
    with _bar(what, DownloadColumn()) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def run_steps(what: str, steps: Generator[Progress, None, _Result]) -> _Result:
    """Run what reads files step by step, with a bar of the bytes that are read, and return its result."""
    with _bar(what, DownloadColumn()) as bar:
        task = bar.add_task(what, total=None)
        while True:
            try:
                progress = next(steps)
            except StopIteration as end:
                result: _Result = end.value
                return result
            bar.update(task, completed=progress.done, total=progress.total)


def _bar(what: str, *figures: ProgressColumn) -> Bar:
    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), *figures, TimeRemainingColumn())
    return Bar(*columns, console=console, transient=True, disable=not console.is_terminal)


def confirm(question: str, *, yes: bool, otherwise: str = "Nothing was changed.") -> None:
    """Ask whether to go on; where nobody can answer, only --yes is an answer."""
    if yes:
        return
    require_answer(question, yes=yes)
    if not typer.confirm(question, default=False):
        raise CommandFailed(otherwise)


def require_answer(question: str, *, yes: bool) -> None:
    """Refuse to begin with what will ask a question where nobody can answer it."""
    if not yes and not sys.stdin.isatty():
        raise CommandFailed(f"{question} Say --yes, because there is nobody to ask here.")
