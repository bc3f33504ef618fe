"""How an entry is printed, in each format; every one takes what it is given and returns bytes to write.

Tables and CSV have columns. The columns of a table change with the entries, and a new heading shows it. The columns of
CSV cannot change: a field without a column is named once on standard error.
"""

import re
import sys
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from headrace.cli.rows.csv_rows import csv_line
from headrace.cli.rows.json_lines import json_line
from headrace.cli.rows.row import Pairs
from headrace.cli.showing import lossless, padded, raw, shown
from headrace.cli.times import written

Printer: TypeAlias = Callable[[bytes, bytes, Pairs], None]

_NAMED: Final = ("table", "json", "csv", "raw")
_MOST_WIDE: Final = 40  # a column of a table, at least until its last
_PLACE: Final = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")


def require_format(form: str) -> None:
    """Refuse what is no format."""
    if form not in _NAMED and "{" not in form:
        raise typer.BadParameter(
            f"{form!r} is none of {', '.join(_NAMED)}, nor a template such as '{{_id}} {{temp}}'.",
            param_hint="--format",
        )


def printer(form: str, fields: Sequence[str], keys: Sequence[bytes], *, several: bool) -> Printer:
    """Choose how to print; with several streams, each entry shows its stream. `keys` are those that are known yet."""
    if form == "table":
        return _Table([shown(key) for key in keys], several=several).show
    if form == "json":
        return lambda key, id, pairs: _write(json_line(id, pairs, key if several else None))
    if form == "csv":
        return _Csv([raw(name) for name in fields], several=several).show
    if form == "raw":
        return lambda key, id, pairs: _write(
            b"\t".join([*([key] if several else []), id, *(value for _, value in pairs)]) + b"\n"
        )
    return _Template(form).show


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)


class _Table:
    """Columns as wide as their widest value so far, with a heading whenever the fields change."""

    def __init__(self, keys: Sequence[str], *, several: bool) -> None:
        self._console = Console(highlight=False)
        self._titles = [*(["stream"] if several else []), "time", "id"]
        self._front = [max(map(cell_len, ("stream", *keys))), 0, 0][-len(self._titles) :]  # widths before the fields
        self._names: list[str] | None = None
        self._widths: list[int] = []

    def show(self, key: bytes, id: bytes, pairs: Pairs) -> None:
        """Print an entry."""
        front = [shown(key), written(int(id.split(b"-")[0])), id.decode()][-len(self._titles) :]
        names, texts = [shown(name) for name, _ in pairs], [shown(value, 200) for _, value in pairs]
        self._front = [max(pair) for pair in zip(self._front, map(cell_len, front), strict=True)]
        if names != self._names:
            self._names = names
            self._widths = [min(_MOST_WIDE, max(map(cell_len, each))) for each in zip(names, texts, strict=True)]
            self._console.print(
                Text(_line(self._titles, self._front, names, self._widths), style="bold"), soft_wrap=True
            )
        self._widths = [
            min(_MOST_WIDE, max(width, cell_len(text))) for width, text in zip(self._widths, texts, strict=True)
        ]
        line = Text(_line(front, self._front, texts, self._widths))
        start = sum(self._front[:-1]) + 2 * (len(front) - 1)
        line.stylize("dim", 0, start)
        line.stylize("cyan", start, start + len(front[-1]))
        self._console.print(line, soft_wrap=True)


def _line(front: Sequence[str], front_widths: Sequence[int], cells: Sequence[str], widths: Sequence[int]) -> str:
    columns = zip((*front, *cells), (*front_widths, *widths), strict=True)
    return "  ".join(padded(cell, width) for cell, width in columns).rstrip()


class _Csv:
    """Comma-separated values, with a heading first."""

    def __init__(self, fields: list[bytes], *, several: bool) -> None:
        self._fields = fields
        self._several = several
        self._begun = False
        self._told = False

    def show(self, key: bytes, id: bytes, pairs: Pairs) -> None:
        """Print an entry."""
        front = [key] if self._several else []
        if not self._begun:
            self._begun = True
            self._fields = self._fields or list(dict.fromkeys(name for name, _ in pairs))
            _write(csv_line([*([b"_key"] if self._several else []), b"_id", *self._fields]))
        values = dict(pairs)
        _write(csv_line([*front, id, *(values.get(name) for name in self._fields)]))
        extra = [name for name in values if name not in self._fields]
        if extra and not self._told:
            self._told = True
            print(  # noqa: T201
                f"headrace: entry {id.decode()} has a field {shown(extra[0])}, and this CSV has no column for it: name "
                "all columns with --field.",
                file=sys.stderr,
            )


class _Template:
    """A text with fields in braces; one that an entry does not have is empty."""

    def __init__(self, text: str) -> None:
        self._text = text.replace("\\t", "\t").replace("\\n", "\n")

    def show(self, key: bytes, id: bytes, pairs: Pairs) -> None:
        """Print an entry."""
        values = {lossless(name): lossless(value) for name, value in pairs}
        values |= {"_id": id.decode(), "_key": lossless(key), "_time": written(int(id.split(b"-")[0]))}

        def filled(match: re.Match[str]) -> str:
            return match[0][0] if match[1] is None else values.get(match[1], "")

        _write(raw(_PLACE.sub(filled, self._text)) + b"\n")
