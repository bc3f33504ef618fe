"""Parquet: a column a field, of text, or of bytes where not all is UTF-8; null where an entry has no such field.

Files of other programs may have columns of any type: numbers and times become their text, nested values become JSON.
Only this module needs pyarrow, and imports it when a Parquet file is read or written.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final

from headrace.cli.errors import CommandFailed
from headrace.cli.rows.row import ID_COLUMN, Pairs, Row
from headrace.cli.showing import lossless, raw, shown

_ROWS_AT_ONCE: Final = 10_000


def arrow(module: str = "pyarrow") -> Any:
    """Import pyarrow, or say how to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise CommandFailed("Parquet needs pyarrow, which is not installed: pip install pyarrow") from None


class ParquetWriter:
    """Writes entries to a file; all fields, and which of them are not text, must be known before."""

    def __init__(self, path: Path | BinaryIO, names: Sequence[bytes], binary: set[bytes]) -> None:
        self._arrow = arrow()
        self._binary = binary
        self._names = list(names)
        self._texts = [_column_name(name) for name in names]
        kinds = [self._arrow.binary() if name in binary else self._arrow.string() for name in self._names]
        fields = [(ID_COLUMN, self._arrow.string()), *zip(self._texts, kinds, strict=True)]
        self._schema = self._arrow.schema(fields)
        self._file = arrow("pyarrow.parquet").ParquetWriter(path, self._schema)
        self._ids: list[str] = []
        self._columns: list[list[Any]] = [[] for _ in names]

    def write(self, id: bytes, pairs: Pairs) -> None:
        """Take an entry."""
        values = dict(pairs)
        self._ids.append(id.decode())
        for name, column in zip(self._names, self._columns, strict=True):
            value = values.get(name)
            column.append(value if value is None or name in self._binary else value.decode())
        if len(self._ids) >= _ROWS_AT_ONCE:
            self._flush()

    def close(self) -> None:
        """Finish the file."""
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        columns = [self._ids, *self._columns]
        arrays = [self._arrow.array(column, kind) for column, kind in zip(columns, self._schema.types, strict=True)]
        self._file.write_table(self._arrow.Table.from_arrays(arrays, schema=self._schema))
        self._ids = []
        self._columns = [[] for _ in self._names]


def _column_name(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise CommandFailed(
            f"The field {shown(name)} is no UTF-8, and Parquet has no place for it: export JSON lines."
        ) from None


def read_parquet(path: Path | BinaryIO, id_column: str) -> Iterator[Row]:
    """Read the rows of a file."""
    file = _opened(path)
    number = 0
    for batch in file.iter_batches(_ROWS_AT_ONCE):
        names = batch.schema.names
        columns = [_texts(batch.column(place), _name(path)) for place in range(len(names))]
        id_at = names.index(id_column) if id_column in names else None
        for cells in zip(*columns, strict=True):
            number += 1
            pairs = [
                (raw(name), cell)
                for place, (name, cell) in enumerate(zip(names, cells, strict=True))
                if cell is not None and place != id_at
            ]
            if not pairs:
                raise CommandFailed(f"Row {number} has no fields, and an entry needs at least one.")
            yield Row(None if id_at is None else cells[id_at], pairs, number)


def row_count(path: Path | BinaryIO) -> int:
    """How many rows a file has."""
    return int(_opened(path).metadata.num_rows)


def _opened(path: Path | BinaryIO) -> Any:
    failure = arrow().ArrowInvalid
    try:
        return arrow("pyarrow.parquet").ParquetFile(path)
    except (failure, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise CommandFailed(f"{_name(path)} is no Parquet file: {reason}.") from None


def _name(path: Path | BinaryIO) -> str:
    return str(path if isinstance(path, Path) else getattr(path, "name", "standard input"))


def _texts(column: Any, path: str) -> list[bytes | None]:
    """Give the values of a column as text."""
    kinds = arrow().types
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        values = column.to_pylist()
    except (ValueError, OverflowError) as error:
        raise CommandFailed(f"{path} has a value that has no text: {error}.") from None
    return [None if value is None else _text(value) for value in values]


def _text(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return raw(value)
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, datetime | date | time):
        return value.isoformat().encode()
    if isinstance(value, list | dict):
        return json.dumps(value, default=_inside, ensure_ascii=False).encode()
    return str(value).encode()


def _inside(value: Any) -> str:
    return b64encode(value).decode() if isinstance(value, bytes) else lossless(_text(value))
