"""Files to streams, each row once.

    CSV, JSON lines, Parquet ─► a streaming file source ─► staged batches ─► streams
                                     └─ checkpoint: which files are done      └─ the server: which batch was the last

A run that was killed continues where it was, and a second run over the same files adds only what is new. Texts stay as
they are in CSV and JSON: "1.50" does not become 1.5 on the way.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from headrace.pipelines.errors import PipelineError, explained
from headrace.pipelines.layout import id_order
from headrace.pipelines.running import Watch, ignore, run_query
from headrace.spark.options import DEFAULT_URL, write_options
from headrace.spark.rows import RowDivider

_FORMATS: Final = {"csv": "csv", "tsv": "csv", "json": "json", "jsonl": "json", "ndjson": "json", "parquet": "parquet"}
_PACKINGS: Final = (".gz", ".bz2", ".zst", ".lz4", ".snappy")
_READING: Final[dict[str, dict[str, str]]] = {
    # A file whose header has other columns is refused, not read by position. A quote inside of quotes is doubled, as in
    # RFC 4180, where Spark expects a backslash before it.
    "csv": {"header": "true", "enforceSchema": "false", "mode": "FAILFAST", "escape": '"'},
    "json": {"primitivesAsString": "true", "mode": "FAILFAST"},
    "parquet": {},
}
_BATCH_BYTES: Final = str(256 << 20)
_ORDER: Final = "headrace order of ids"


@dataclass(frozen=True)
class Loaded:
    """The result of a run."""

    entries: int
    batches: int
    checkpoint: str
    fields: list[str] | None = None
    """Of a dry run: the columns that are taken."""


def load_files(
    spark: SparkSession,
    path: str,
    *,
    url: str = DEFAULT_URL,
    key: str | None = None,
    key_column: str | None = None,
    id_column: str | None = None,
    fields_column: str | None = None,
    fields: list[str] | None = None,
    partitions: int | None = None,
    partition_by: str | None = None,
    maxlen: int | None = None,
    minid: str | None = None,
    format: str | None = None,  # noqa: A002  (what Spark calls it)
    schema: str | None = None,
    options: Mapping[str, str] | None = None,
    checkpoint: str | None = None,
    dry_run: bool = False,
    watch: Watch = ignore,
) -> Loaded:
    """Append the rows of a file, a directory or a pattern of files.

    The names from `url` to `minid` are the sink's options. `fields` are the columns to take; the default is all.
    `format` is csv, json or parquet; the default is told by the names of the files. `schema` is DDL; the default is
    found in the files. `options` are Spark's for the format, such as {"sep": ";"}. `checkpoint` remembers what is done;
    the default is a directory that belongs to this path and this target, see `default_checkpoint`. With `dry_run` all
    rows are read and counted, also those that were loaded before, and nothing is written.
    """
    if not urlsplit(path).scheme and not Path(path).exists() and not any(mark in path for mark in "*?[{"):
        raise PipelineError(f"there is no file or directory {path!r}")
    format = format or _format_of(path)  # noqa: A001
    if format not in _READING:
        raise PipelineError(f"the format {format!r} is none of {', '.join(_READING)}")
    given = {
        "url": url,
        "key": key,
        "keyColumn": key_column,
        "idColumn": id_column,
        "fieldsColumn": fields_column,
        "partitions": partitions,
        "partitionBy": partition_by,
        "maxlen": maxlen,
        "minid": minid,
    }
    sink = {name: str(value) for name, value in given.items() if value is not None}
    wanted = write_options(sink)
    checkpoint = checkpoint or default_checkpoint(path, sink)
    with explained():
        reading = _READING[format] | dict(options or {})
        files = spark.read.format(format).options(**reading)
        columns = (files if schema is None else files.schema(schema)).load(path).schema
        directory, only = _watched(path)
        reading |= {"maxBytesPerTrigger": _BATCH_BYTES, **only}
        rows = spark.readStream.format(format).options(**reading).schema(columns).load(directory)
        rows = _chosen(rows, fields, key_column, id_column, fields_column)
        RowDivider(rows.schema, wanted)  # refuses columns that are not there before anything runs
        if dry_run:
            read = (
                spark.read.format(format).options(**_READING[format] | dict(options or {})).schema(columns).load(path)
            )
            # Each column is looked at: a count alone would not notice a malformed line.
            total = read.agg(f.count(f.struct(*read.columns)).alias("rows")).first()
            return Loaded(0 if total is None else int(total["rows"]), 0, checkpoint, fields=rows.columns)
        if id_column is not None:
            rows = _in_order(rows, id_column)
        writer = rows.writeStream.format("headrace").options(**sink).option("checkpointLocation", checkpoint)
        ran = run_query(writer, continuous=False, every=None, watch=watch, of_streams=False)
    return Loaded(ran.entries, ran.batches, checkpoint)


def default_checkpoint(path: str, sink: Mapping[str, str]) -> str:
    """Return the directory that remembers what was loaded from a path to a target, among this user's state."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    whole = path if urlsplit(path).scheme else str(Path(path).absolute())
    name = hashlib.sha256(json.dumps([whole, dict(sorted(sink.items()))]).encode()).hexdigest()[:16]
    return str(state / "headrace" / f"load-{name}")


def _format_of(path: str) -> str:
    """Read the format off the name of a file, or of the files in a directory."""
    local = Path(path)
    names = [path, *sorted(entry.name for entry in local.iterdir())] if local.is_dir() else [path]
    for name in names:
        shortened = reduce(str.removesuffix, _PACKINGS, name)
        found = _FORMATS.get(PurePosixPath(shortened).suffix[1:].lower())
        if found is not None:
            return found
    raise PipelineError(f"the name {path!r} does not tell the format: give csv, json or parquet")


def _watched(path: str) -> tuple[str, dict[str, str]]:
    """Return what a streaming source watches: it takes directories and patterns, but not one file."""
    local = Path(path)
    if not local.is_file():
        return path, {}
    name = "".join(f"[{letter}]" if letter in "*?[{" else letter for letter in local.name)
    return str(local.absolute().parent), {"pathGlobFilter": name}


def _chosen(rows: DataFrame, fields: list[str] | None, *others: str | None) -> DataFrame:
    if fields is None:
        return rows
    missing = [name for name in fields if name not in rows.columns]
    if missing:
        raise PipelineError(f"the files have no column {missing[0]!r}; they have {', '.join(rows.columns)}")
    named = [name for name in others if name is not None and name in rows.columns]
    return rows.select(*dict.fromkeys([*fields, *named]))


def _in_order(rows: DataFrame, id_column: str) -> DataFrame:
    """Bring the rows of each batch in the order of their IDs: a stream takes them in no other."""
    schema = rows.schema
    ordered = rows.withColumn(_ORDER, id_order(f.col(id_column).cast("string"))).repartition(1)
    return ordered.mapInArrow(_sorted, schema)


def _sorted(batches):  # type: ignore[no-untyped-def]  # (Spark refuses a function whose hints it does not know)
    held = list(batches)
    if held:
        table = pa.Table.from_batches(held).sort_by(_ORDER)
        yield from table.drop_columns([_ORDER]).to_batches()
