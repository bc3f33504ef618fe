"""Questions to the person at the terminal."""

import sys

import typer

from headrace.cli.errors import CommandFailed


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
