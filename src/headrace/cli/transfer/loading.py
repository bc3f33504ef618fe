"""`headrace load`: reads rows from a file, sends XADDs in pipelines, and counts the result of each row.

When a row is refused with its own ID, the stream is searched for it. A row that is there with the same fields was
loaded before, so that a load that was interrupted can be run again. Any other refusal ends the load and names the line.
"""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from typing import Any, BinaryIO, Final

import redis
import typer

from headrace.cli.address import ServerAddress
from headrace.cli.command import INTERRUPTED
from headrace.cli.connecting import ask, connected, require_stream
from headrace.cli.errors import CommandFailed
from headrace.cli.interrupts import undivided
from headrace.cli.rows.csv_rows import read_csv
from headrace.cli.rows.formats import CSV, JSON, PARQUET, STANDARD, chosen_format, reading
from headrace.cli.rows.json_lines import read_json_lines
from headrace.cli.rows.parquet_rows import read_parquet, row_count
from headrace.cli.rows.row import Row, as_pairs
from headrace.cli.showing import plural, raw, shown
from headrace.cli.terminal import counted
from headrace.core.stream_id import StreamID

_TOO_SMALL: Final = "The ID specified in XADD"


@dataclass
class Account:
    """The results of the rows."""

    loaded: int = 0
    already_there: int = 0
    out_of_order: int = 0
    first_out_of_order: int = 0  # its line

    @property
    def rows(self) -> int:
        """How many were read."""
        return self.loaded + self.already_there + self.out_of_order

    def sentence(self, key: bytes) -> str:
        """Say it."""
        text = f"{plural(self.loaded, 'entry was', 'entries were')} added to {shown(key)}"
        if self.already_there:
            text += f"; {plural(self.already_there, 'was', 'were')} there already"
        return text + "."


def run_load(
    server: ServerAddress,
    name: str,
    path: str,
    *,
    form: str | None,
    id_column: str,
    batch: int,
    keep_ids: bool,
    as_json: bool,
) -> None:
    """Load a file into a stream."""
    key = raw(name)
    chosen = chosen_format(path, form)
    account = Account()
    with connected(server) as client:
        if client.type(key) != b"none":
            require_stream(client, key)
        try:
            _load(client, key, path, account, form=chosen, id_column=id_column, batch=batch, keep_ids=keep_ids)
        except KeyboardInterrupt:
            print(f"headrace: Stopped: {account.sentence(key)}", file=sys.stderr)  # noqa: T201
            raise typer.Exit(INTERRUPTED) from None
        except CommandFailed as error:
            if not account.rows:
                raise
            raise CommandFailed(f"{error} Before that, {account.sentence(key)}") from None
    _report(account, key, as_json=as_json)


def _load(
    client: redis.Redis,
    key: bytes,
    path: str,
    account: Account,
    *,
    form: str,
    id_column: str,
    batch: int,
    keep_ids: bool,
) -> None:
    with reading(path) as file:
        in_bytes = path != STANDARD and form != PARQUET  # how far it is in the file; else, how many rows
        total = os.fstat(file.fileno()).st_size if in_bytes else row_count(file) if path != STANDARD else None
        with counted("loading", total) as advance:
            rows = _rows(file, form, id_column, path)
            while True:
                ahead, failure = _take(rows, batch)
                with undivided():  # what was sent is counted, too
                    _send(client, key, ahead, account, keep_ids=keep_ids)
                if failure is not None:
                    raise failure
                if not ahead:
                    return
                advance(file.tell() if in_bytes else account.rows)


def _take(rows: Iterator[Row], most: int) -> tuple[list[Row], CommandFailed | None]:
    """Take some rows, and the error of the row behind them, which must not keep them from being sent."""
    taken: list[Row] = []
    try:
        for row in islice(rows, most):
            taken.append(row)  # noqa: PERF402 — what was taken before one fails stays
    except CommandFailed as failure:
        return taken, failure
    return taken, None


def _rows(file: BinaryIO, form: str, id_column: str, path: str) -> Iterator[Row]:
    if form == JSON:
        return read_json_lines(file, id_column)
    if form == CSV:
        return read_csv(file, id_column)
    return read_parquet(BytesIO(file.read()) if path == STANDARD else file, id_column)


def _send(client: redis.Redis, key: bytes, rows: list[Row], account: Account, *, keep_ids: bool) -> None:
    pipeline = client.pipeline(transaction=False)
    for row in rows:
        id = _kept_id(row) if keep_ids else "*"
        ask(pipeline, "XADD", key, id, *(text for pair in row.pairs for text in pair))
    answers: list[Any] = pipeline.execute(raise_on_error=False) if rows else []
    refused: list[Row] = []
    failure: CommandFailed | None = None
    for row, answer in zip(rows, answers, strict=True):
        if not isinstance(answer, redis.ResponseError):
            account.loaded += 1
        elif keep_ids and str(answer).startswith(_TOO_SMALL):
            refused.append(row)
        elif failure is None:
            failure = CommandFailed(f"The server refused line {row.line}: {answer}.")
    _look_for(client, key, refused, account)
    if failure is not None:
        raise failure


def _kept_id(row: Row) -> bytes:
    if row.id is None:
        raise CommandFailed(f"Line {row.line} has no ID to keep: load it without --keep-ids, or name --id-column.")
    try:
        return bytes(StreamID.parse(row.id))
    except ValueError:
        raise CommandFailed(
            f"Line {row.line} has the ID {shown(row.id, 60)}, which is none: write 1526919030474-55."
        ) from None


def _look_for(client: redis.Redis, key: bytes, refused: list[Row], account: Account) -> None:
    """Divide refused rows into those that the stream has already and those that cannot be added any more."""
    if not refused:
        return
    pipeline = client.pipeline(transaction=False)
    for row in refused:
        ask(pipeline, "XRANGE", key, id := _kept_id(row), id)
    for row, found in zip(refused, pipeline.execute(), strict=True):
        if found and sorted(as_pairs(found[0][1])) == sorted(row.pairs):
            account.already_there += 1
        else:
            account.out_of_order += 1
            account.first_out_of_order = account.first_out_of_order or row.line


def _report(account: Account, key: bytes, *, as_json: bool) -> None:
    if as_json:
        told = {name: getattr(account, name) for name in ("rows", "loaded", "already_there", "out_of_order")}
        print(json.dumps(told))  # noqa: T201
    else:
        print(account.sentence(key))  # noqa: T201
    if account.out_of_order:
        raise CommandFailed(
            f"{plural(account.out_of_order, 'row was', 'rows were')} refused, the first in line "
            f"{account.first_out_of_order}: IDs must rise, and the stream has others behind them; load them into "
            "another stream, or without --keep-ids."
        )
