"""Comma-separated values, as RFC 4180 has them, with a heading; `""` is an empty value, nothing at all is none.

    _id,dev,temp
    1526919030474-55,3,26
    1526919030474-56,"a ""quoted"", long
    value",""

Python's csv module cannot tell an empty value from a missing one, and reads text only. Here a value may be any bytes.
"""

import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final

from headrace.cli.errors import CommandFailed
from headrace.cli.rows.row import Row
from headrace.cli.showing import raw, shown

_SPECIAL: Final = re.compile(rb'[",\r\n]|^\s|\s$')
_CELL: Final = re.compile(rb'(?:"([^"]*(?:""[^"]*)*)"|([^",\r\n]*))(,|\r?\n|\r?\Z)')
_MARK: Final = b"\xef\xbb\xbf"  # which some programs begin a file with


def csv_line(cells: Sequence[bytes | None]) -> bytes:
    """Write one line."""
    return b",".join(map(_written, cells)) + b"\n"


def _written(cell: bytes | None) -> bytes:
    if cell is None:
        return b""
    if not cell or _SPECIAL.search(cell):
        return b'"' + cell.replace(b'"', b'""') + b'"'
    return cell


def read_csv(file: BinaryIO, id_column: str) -> Iterator[Row]:
    """Read the rows behind the heading."""
    records = _records(file)
    _, heading = next(records, (1, []))
    names = [cell or b"" for cell in heading]
    if not names or b"" in names:
        raise CommandFailed("Line 1 names the columns of a CSV file, and every column needs a name.")
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise CommandFailed(f"Line 1 names the column {shown(repeated)} twice.")
    id_at = names.index(raw(id_column)) if raw(id_column) in names else None
    for line, cells in records:
        if len(cells) != len(names):
            raise CommandFailed(f"Line {line} has {len(cells)} cells, and the heading has {len(names)}.")
        id = None if id_at is None else cells[id_at]
        pairs = [
            (name, cell)
            for place, (name, cell) in enumerate(zip(names, cells, strict=True))
            if cell is not None and place != id_at
        ]
        if not pairs:
            raise CommandFailed(f"Line {line} has no fields, and an entry needs at least one.")
        yield Row(id, pairs, line)


def _records(file: BinaryIO) -> Iterator[tuple[int, list[bytes | None]]]:
    """Give the cells of each record, and the line that it begins in; blank lines are passed over."""
    number = 0
    for line in file:
        number += 1
        began = number
        record = line.removeprefix(_MARK) if number == 1 else line
        if not record.strip(b"\r\n"):
            continue
        # An odd number of quotes: the line ends inside a value, which continues in the next line.
        quotes = record.count(b'"')
        parts = [record]
        while quotes % 2:
            more = file.readline()
            if not more:
                raise CommandFailed(f"Line {began} begins a quoted value that has no end.")
            number += 1
            quotes += more.count(b'"')
            parts.append(more)
        yield began, _cells(b"".join(parts), began)


def _cells(record: bytes, line: int) -> list[bytes | None]:
    cells: list[bytes | None] = []
    at = 0
    while True:
        match = _CELL.match(record, at)
        if match is None:
            raise CommandFailed(
                f'Line {line} is no CSV: cell {len(cells) + 1} has a quote where none may be; write "" for one.'
            )
        quoted, plain, end = match.groups()
        cells.append(quoted.replace(b'""', b'"') if quoted is not None else plain or None)
        at = match.end()
        if end != b",":
            return cells
