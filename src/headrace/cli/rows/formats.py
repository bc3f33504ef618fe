"""Which format a file has, by `--format` or by the end of its name, and how it is opened; `-` is standard in or out."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

import typer

from headrace.cli.errors import CommandFailed

JSON: Final = "json"
CSV: Final = "csv"
PARQUET: Final = "parquet"
FORMATS: Final = (JSON, CSV, PARQUET)
STANDARD: Final = "-"

_ENDINGS: Final = {
    ".json": JSON,
    ".jsonl": JSON,
    ".ndjson": JSON,
    ".csv": CSV,
    ".parquet": PARQUET,
    ".pq": PARQUET,
}


def chosen_format(path: str, asked: str | None) -> str:
    """Say which format a file is to have; standard input and output are JSON lines, unless asked otherwise."""
    if asked is not None:
        if asked not in FORMATS:
            raise typer.BadParameter(f"{asked!r} is none of {', '.join(FORMATS)}.", param_hint="--format")
        return asked
    if path == STANDARD:
        return JSON
    form = _ENDINGS.get(Path(path).suffix.lower())
    if form is None:
        raise typer.BadParameter(
            f"{path!r} does not say by its end which format it has: use --format {'|'.join(FORMATS)}.",
            param_hint="FILE",
        )
    return form


@contextmanager
def reading(path: str) -> Iterator[BinaryIO]:
    """Open what is to be read."""
    if path == STANDARD:
        yield sys.stdin.buffer
        return
    try:
        file = Path(path).open("rb")  # noqa: SIM115 — closed below
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}.") from None
    with file:
        yield file


@contextmanager
def writing(path: str, *, overwrite: bool) -> Iterator[BinaryIO]:
    """Open a file to write; an existing one is refused, or else replaced when the new one is whole."""
    if path == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(path)
    refuse_existing(target, overwrite=overwrite)
    temporary = target.with_name(f"{target.name}.part")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(target)
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}.") from None
    finally:
        temporary.unlink(missing_ok=True)


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Refuse to write to a file that exists."""
    if path.exists() and not overwrite:
        raise CommandFailed(f"{path} is already there: choose another name, or replace it with --force.")
