"""`headrace export`: writes a range of a stream row by row.

CSV and Parquet begin with their columns. For them the stream is read twice: first for the names of the fields, then for
the values. The end of the range is fixed before, so that both passes see the same entries.
"""

import json
from collections.abc import Callable
from typing import Any, BinaryIO

import redis

from headrace.cli.address import ServerAddress
from headrace.cli.connecting import connected, require_stream
from headrace.cli.rows.columns import Columns
from headrace.cli.rows.csv_rows import csv_line
from headrace.cli.rows.formats import CSV, JSON, STANDARD, chosen_format, writing
from headrace.cli.rows.json_lines import json_line
from headrace.cli.rows.parquet_rows import ParquetWriter, arrow
from headrace.cli.rows.row import ID_COLUMN, Pairs, fetch
from headrace.cli.showing import plural, raw, shown
from headrace.cli.terminal import counted
from headrace.cli.times import BEGINNING, END


def run_export(
    server: ServerAddress,
    name: str,
    path: str,
    *,
    form: str | None,
    start: str | None,
    end: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Export a range of a stream."""
    key = raw(name)
    form = chosen_format(path, form)
    if form == "parquet":
        arrow()  # before anything is read
    with connected(server) as client:
        require_stream(client, key)
        facts = client.xinfo_stream(key)
        last = facts["last-generated-id"].decode() if end in {None, END} else str(end)
        first = last if start == END else start or BEGINNING
        total = facts["length"] if start is None and end is None else None
        with writing(path, overwrite=force) as file:
            count = _export(client, key, (first, last), form=form, file=file, total=total)
    if path != STANDARD:
        told = json.dumps({"entries": count, "file": path}) if as_json else None
        print(told or f"{plural(count, 'entry', 'entries')} of {shown(key)} written to {path}.")  # noqa: T201


def _export(
    client: redis.Redis, key: bytes, span: tuple[str, str], *, form: str, file: BinaryIO, total: int | None
) -> int:
    columns = Columns()
    if form != JSON:
        with counted("looking for columns", total) as advance:
            for count, (id, pairs) in enumerate(fetch(client, key, *span), 1):
                columns.add(id, pairs)
                if count % 1000 == 0:
                    advance(count)
    count = 0
    write, finish = _writer(form, file, columns)
    with counted("exporting", total) as advance:
        for count, (id, pairs) in enumerate(fetch(client, key, *span), 1):
            write(id, pairs)
            if count % 1000 == 0:
                advance(count)
    finish()
    return count


def _writer(form: str, file: BinaryIO, columns: Columns) -> tuple[Callable[[bytes, Pairs], Any], Callable[[], None]]:
    if form == JSON:
        return lambda id, pairs: file.write(json_line(id, pairs)), lambda: None
    if form == CSV:
        names = list(columns.names)
        file.write(csv_line([raw(ID_COLUMN), *names]))
        return lambda id, pairs: file.write(csv_line([id, *map(dict(pairs).get, names)])), lambda: None
    writer = ParquetWriter(file, list(columns.names), columns.binary)
    return writer.write, writer.close
