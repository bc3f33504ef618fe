"""`headrace pipeline …`: jobs on Spark, from the command line.

    exit code   0 done   1 it failed, in one sentence   2 wrong usage   3 the audit found differences
                130 interrupted (Ctrl-C)   143 ended (SIGTERM)

While a job runs there is a line on the terminal; what it did comes as a sentence, or with --json as JSON.
"""

import dataclasses
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.cli.interrupts import Terminated, terminable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.running import Progress

app = typer.Typer(
    name="pipeline",
    help="Jobs on streams, with Spark: load, archive, replay, transform, report, audit.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

DIFFERENT: Final = 3
INTERRUPTED: Final = 130
ENDED: Final = 143
_LISTED: Final = 20  # differences in the table; JSON has all

Url = Annotated[str, typer.Option(help="The server: redis://…, rediss://… or unix://…; several with commas between.")]
Master = Annotated[str, typer.Option(help="Where Spark runs: local[*], local[2], spark://host:7077 …")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show Spark's own log.")]
Checkpoint = Annotated[str | None, typer.Option(help="Where to remember what is done.", show_default=False)]
Keys = Annotated[str | None, typer.Option(help="Streams: names and patterns, commas between.", show_default="all")]
From = Annotated[str | None, typer.Option("--from", help="From this time on: ISO 8601, or ms.", show_default=False)]
To = Annotated[str | None, typer.Option("--to", help="Before this time.", show_default=False)]
Continuous = Annotated[bool, typer.Option("--continuous", help="Go on until interrupted.")]
Every = Annotated[
    str | None, typer.Option(help='Time between batches of --continuous, such as "30 seconds".', show_default=False)
]
KeyColumn = Annotated[str | None, typer.Option(help="The column that names the stream.", show_default=False)]
IdColumn = Annotated[str | None, typer.Option(help="The column of entry IDs.", show_default="made by the server")]
FieldsColumn = Annotated[str | None, typer.Option(help="A map column that has the fields.", show_default=False)]
Partitions = Annotated[int | None, typer.Option(help="Spread over KEY:0 … KEY:N-1.", show_default=False)]
PartitionBy = Annotated[str | None, typer.Option(help="The column whose hash says which.", show_default=False)]
Maxlen = Annotated[int | None, typer.Option(help="Trim the stream to about so many entries.", show_default=False)]

_URL: Final = "redis://127.0.0.1:6379"
_MASTER: Final = "local[*]"

# --- running a job ---------------------------------------------------------------------------------------------------


def _run(
    job: Callable[["SparkSession", Callable[["Progress"], None]], Any],
    told: Callable[[Any], str],
    *,
    doing: str,
    master: str,
    as_json: bool,
    verbose: bool,
) -> Any:
    """Run a job in a session of its own and print what it did; what is wrong is raised as a HeadraceError."""
    from headrace.pipelines.session import spark_session  # noqa: PLC0415 — the other commands do not need it

    try:
        with (
            terminable(),
            _silence(verbose=verbose),
            _line(f"starting Spark on {master}") as say,
            spark_session(master, verbose=verbose) as spark,
        ):
            say(doing)
            result = job(spark, lambda progress: say(f"{doing}: {_shown(progress)}"))
    except KeyboardInterrupt as stopped:
        how, code = ("ended", ENDED) if isinstance(stopped, Terminated) else ("interrupted", INTERRUPTED)
        typer.echo(f"headrace: {doing} was {how}; run it again to go on", err=True)
        raise typer.Exit(code) from None
    if as_json:
        typer.echo(json.dumps(_plain(result), indent=2))
    else:
        typer.echo(told(result))
    return result


@contextmanager
def _silence(*, verbose: bool) -> Iterator[None]:
    """Keep off the terminal what PySpark logs beside raising it: refused queries with Java's stack, broken calls."""
    before = logging.root.manager.disable
    if not verbose:
        logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _line(text: str) -> Iterator[Callable[[str], None]]:
    """Show what is going on, on a terminal; the line goes when it is over."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(Text(text)) as status:
        yield lambda now: status.update(Text(now))


def _shown(progress: "Progress") -> str:
    of = "" if progress.total is None else f" of {progress.total:,}"
    speed = f", {progress.per_second:,.0f}/s" if progress.per_second else ""
    return f"{progress.entries:,}{of} entries{speed}"


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return value


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count:,} entries"


def _pairs(option: str, texts: list[str]) -> dict[str, str]:
    """Read texts of the form NAME=VALUE."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        pairs[name.strip()] = value
    return pairs


# --- load ------------------------------------------------------------------------------------------------------------

_LOAD_HELP = """Files to streams: CSV, JSON lines or Parquet, each row once.

Every column becomes a field. A run that was stopped goes on where it was, and one over the same files adds only files
that are new; where that is remembered is told in the end.

For example:

\b
  headrace pipeline load orders.csv --key orders
  headrace pipeline load 'readings/*.parquet' --key-column device --id-column id
  headrace pipeline load clicks.jsonl.gz --key clicks --partitions 4 --partition-by user
"""


@app.command(help=_LOAD_HELP)
def load(
    *,
    path: Annotated[str, typer.Argument(help="A file, a directory, or a pattern of files.", show_default=False)],
    key: Annotated[str | None, typer.Option(help="The stream to append to.", show_default=False)] = None,
    key_column: KeyColumn = None,
    id_column: IdColumn = None,
    fields_column: FieldsColumn = None,
    fields: Annotated[str | None, typer.Option(help="The columns to take, commas between.", show_default="all")] = None,
    partitions: Partitions = None,
    partition_by: PartitionBy = None,
    maxlen: Maxlen = None,
    format: Annotated[  # noqa: A002
        str | None, typer.Option(help="csv, json or parquet.", show_default="by the file's name")
    ] = None,
    schema: Annotated[str | None, typer.Option(help='Columns as DDL: "n int, at date".', show_default=False)] = None,
    option: Annotated[
        list[str] | None, typer.Option(help='Of Spark\'s reader, as "sep=;". Repeatable.', show_default=False)
    ] = None,
    checkpoint: Checkpoint = None,
    url: Url = _URL,
    master: Master = _MASTER,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Load files."""
    reading = _pairs("--option", option or [])

    def job(spark: "SparkSession", watch: Callable[["Progress"], None]) -> Any:
        from headrace.pipelines.load import load_files  # noqa: PLC0415

        return load_files(
            spark,
            path,
            url=url,
            key=key,
            key_column=key_column,
            id_column=id_column,
            fields_column=fields_column,
            fields=None if fields is None else [name.strip() for name in fields.split(",")],
            partitions=partitions,
            partition_by=partition_by,
            maxlen=maxlen,
            format=format,
            schema=schema,
            options=reading,
            checkpoint=checkpoint,
            watch=watch,
        )

    def told(result: Any) -> str:
        if not result.entries:
            return f"Nothing is new in {path}; what was loaded is remembered in {result.checkpoint}."
        return f"Loaded {_entries(result.entries)} from {path}; remembered in {result.checkpoint}."

    _run(job, told, doing=f"loading {path}", master=master, as_json=as_json, verbose=verbose)


# --- archive ---------------------------------------------------------------------------------------------------------

_ARCHIVE_HELP = """Streams to Parquet, by key and date, every entry once.

Appends what is new since the last run, or goes on with --continuous. With --trim the streams then lose what is safely
archived and no group has still to read or acknowledge.

For example:

\b
  headrace pipeline archive 'orders,sensor:*' lake
  headrace pipeline archive 'sensor:*' lake --continuous --every '1 minute' --trim
"""


@app.command(help=_ARCHIVE_HELP)
def archive(
    *,
    keys: Annotated[str, typer.Argument(help="Streams: names and patterns, commas between.", show_default=False)],
    path: Annotated[str, typer.Argument(help="The archive's directory.", show_default=False)],
    continuous: Continuous = False,
    every: Every = None,
    trim: Annotated[
        bool, typer.Option("--trim", help="Then trim what is archived and settled by every group.")
    ] = False,
    trim_pending: Annotated[
        bool, typer.Option("--trim-pending", help="Then trim all that is archived, read by its groups or not.")
    ] = False,
    group: Annotated[
        str | None, typer.Option(help="Publish progress as this consumer group.", show_default=False)
    ] = None,
    max_entries: Annotated[
        int | None, typer.Option(help="Entries of one batch, at most.", show_default="1,000,000")
    ] = None,
    allow_loss: Annotated[
        bool, typer.Option("--allow-loss", help="Go on where entries were trimmed before they were archived.")
    ] = False,
    checkpoint: Checkpoint = None,
    url: Url = _URL,
    master: Master = _MASTER,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Archive streams."""

    def job(spark: "SparkSession", watch: Callable[["Progress"], None]) -> Any:
        from headrace.pipelines.archive import archive_streams  # noqa: PLC0415

        return archive_streams(
            spark,
            keys,
            path,
            url=url,
            checkpoint=checkpoint,
            continuous=continuous,
            every=every,
            trim="archived" if trim_pending else "settled" if trim else "nothing",
            group=group,
            max_entries=max_entries,
            fail_on_data_loss=not allow_loss,
            watch=watch,
        )

    def told(result: Any) -> str:
        gone = sum(result.trimmed.values())
        trimmed = f"; trimmed {_entries(gone)}" if trim or trim_pending else ""
        return f"Archived {_entries(result.entries)} in {path}{trimmed}."

    _run(job, told, doing=f"archiving {keys}", master=master, as_json=as_json, verbose=verbose)


# --- replay ----------------------------------------------------------------------------------------------------------

_REPLAY_HELP = """An archive back to streams, every entry under its ID.

Goes on where it was when it is run again. A stream that has other entries behind those to be replayed is refused,
because IDs only rise: replay to another key, or to another server.

For example:

\b
  headrace pipeline replay lake --url redis://127.0.0.1:7000
  headrace pipeline replay lake --keys orders --to-key orders-again --from 2026-11-15 --to 2026-11-16
  headrace pipeline replay lake --prefix test: --speed 10
"""


@app.command(help=_REPLAY_HELP)
def replay(
    *,
    path: Annotated[str, typer.Argument(help="The archive's directory.", show_default=False)],
    keys: Keys = None,
    to_key: Annotated[str | None, typer.Option(help="Another name for a single stream.", show_default=False)] = None,
    prefix: Annotated[str, typer.Option(help="Before the name of every stream.", show_default=False)] = "",
    start: From = None,
    end: To = None,
    speed: Annotated[float, typer.Option(help="Times faster than it happened; 0: as fast as possible.", min=0)] = 0.0,
    url: Url = _URL,
    master: Master = _MASTER,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Replay an archive."""

    def job(spark: "SparkSession", watch: Callable[["Progress"], None]) -> Any:
        from headrace.pipelines.replay import replay_archive  # noqa: PLC0415

        return replay_archive(
            spark,
            path,
            url=url,
            keys=keys,
            to_key=to_key,
            prefix=prefix,
            start=start,
            end=end,
            speed=speed,
            watch=watch,
        )

    def told(result: Any) -> str:
        skipped = f"; {_entries(result.skipped)} were there already" if result.skipped else ""
        streams = "1 stream" if len(result.streams) == 1 else f"{len(result.streams)} streams"
        return f"Replayed {_entries(result.entries)} to {streams}{skipped}."

    _run(job, told, doing=f"replaying {path}", master=master, as_json=as_json, verbose=verbose)


# --- transform -------------------------------------------------------------------------------------------------------

_TRANSFORM_HELP = """A Spark SQL query over streams, to a stream or to files.

Each --stream is a view. Without a --schema it has the columns key, id, ms, seq, timestamp and fields, a map of texts;
with one, the fields of those names, and _key, _id and _timestamp. The query runs once over all that is there, with
--new over what came since the last run, or with --continuous.

For example:

\b
  headrace pipeline transform "SELECT device, avg(temp) AS temp FROM readings GROUP BY device" \\
      --stream 'readings=sensor:*' --schema 'readings=device string, temp double' --key averages
  headrace pipeline transform "SELECT * FROM orders WHERE fields['state'] = 'late'" \\
      --stream orders=orders --path late --new
"""


@app.command(help=_TRANSFORM_HELP)
def transform(
    *,
    sql: Annotated[str, typer.Argument(help="The query, or @FILE that has it.", show_default=False)],
    stream: Annotated[list[str], typer.Option(help="VIEW=KEYS. Repeatable.", show_default=False)],
    schema: Annotated[list[str] | None, typer.Option(help="VIEW=DDL. Repeatable.", show_default=False)] = None,
    key: Annotated[str | None, typer.Option(help="The stream that the result goes to.", show_default=False)] = None,
    key_column: KeyColumn = None,
    id_column: IdColumn = None,
    fields_column: FieldsColumn = None,
    partitions: Partitions = None,
    partition_by: PartitionBy = None,
    maxlen: Maxlen = None,
    to_url: Annotated[str | None, typer.Option(help="Its server.", show_default="as --url")] = None,
    path: Annotated[str | None, typer.Option(help="The directory that the result goes to.", show_default=False)] = None,
    format: Annotated[str, typer.Option(help="Of the files: parquet, json or csv.")] = "parquet",  # noqa: A002
    new: Annotated[bool, typer.Option("--new", help="Only what came since the last run.")] = False,
    continuous: Continuous = False,
    every: Every = None,
    output_mode: Annotated[str, typer.Option(help="Of a streaming query: append, update or complete.")] = "append",
    watermark: Annotated[
        str | None, typer.Option(help='How late entries may come, such as "10 minutes".', show_default=False)
    ] = None,
    checkpoint: Checkpoint = None,
    url: Url = _URL,
    master: Master = _MASTER,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Run a query."""
    streams, schemas = _pairs("--stream", stream), _pairs("--schema", schema or [])
    if sql.startswith("@"):
        try:
            sql = Path(sql[1:]).read_text()
        except OSError as error:
            raise typer.BadParameter(f"{sql[1:]} cannot be read: {error.strerror}", param_hint="SQL") from None
    given = {
        "url": to_url,
        "key": key,
        "keyColumn": key_column,
        "idColumn": id_column,
        "fieldsColumn": fields_column,
        "partitions": partitions,
        "partitionBy": partition_by,
        "maxlen": maxlen,
    }
    sink = {name: str(value) for name, value in given.items() if value is not None}

    def job(spark: "SparkSession", watch: Callable[["Progress"], None]) -> Any:
        from headrace.pipelines.transform import transform_streams  # noqa: PLC0415

        return transform_streams(
            spark,
            sql,
            streams,
            url=url,
            schemas=schemas,
            sink=sink or None,
            path=path,
            format=format,
            mode="continuous" if continuous else "new" if new else "once",
            checkpoint=checkpoint,
            every=every,
            output_mode=output_mode,
            watermark=watermark,
            watch=watch,
        )

    def told(result: Any) -> str:
        rows = "1 row" if result.rows == 1 else f"{result.rows:,} rows"
        return f"Wrote {rows} to {path or key or f'the streams of column {key_column}'}."

    _run(job, told, doing="transforming", master=master, as_json=as_json, verbose=verbose)


# --- report ----------------------------------------------------------------------------------------------------------

_REPORT_HELP = """One HTML page about streams and their groups, with plots.

Rates over time, sizes, fields, hot keys, and for each group its lag, latency and redeliveries. The page needs nothing
but itself: no network, no script.

For example:

\b
  headrace pipeline report 'sensor:*' report.html
  headrace pipeline report orders orders.html --from 2026-11-15
"""


@app.command(help=_REPORT_HELP)
def report(
    *,
    keys: Annotated[str, typer.Argument(help="Streams: names and patterns, commas between.", show_default=False)],
    page: Annotated[Path, typer.Argument(help="The file to write.", show_default=False)],
    start: From = None,
    end: To = None,
    title: Annotated[str | None, typer.Option(help="Over the page.", show_default=False)] = None,
    url: Url = _URL,
    master: Master = _MASTER,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Write a report."""

    def job(spark: "SparkSession", watch: Callable[["Progress"], None]) -> Any:
        from headrace.pipelines.report.report import report_streams  # noqa: PLC0415

        return report_streams(spark, keys, page, url=url, start=start, end=end, title=title, watch=watch)

    def told(result: Any) -> str:
        streams = "1 stream" if result.streams == 1 else f"{result.streams:,} streams"
        return f"Wrote {page}: {_entries(result.entries)} of {streams}."

    _run(job, told, doing=f"reading {keys}", master=master, as_json=as_json, verbose=verbose)


# --- audit -----------------------------------------------------------------------------------------------------------

_AUDIT_HELP = """Streams against their archive: counts and hashes by ID range, then every entry that differs.

Leaves with 3 where something differs. What was trimmed after it was archived, and what is not archived yet, is counted
and is no difference, unless with --whole.

For example:

\b
  headrace pipeline audit lake
  headrace pipeline audit lake --keys 'sensor:*' --from 2026-11-15 --json
"""


@app.command(help=_AUDIT_HELP)
def audit(
    *,
    path: Annotated[str, typer.Argument(help="The archive's directory.", show_default=False)],
    keys: Keys = None,
    start: From = None,
    end: To = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="What was trimmed or is not archived yet differs, too.")
    ] = False,
    checkpoint: Checkpoint = None,
    url: Url = _URL,
    master: Master = _MASTER,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Compare streams with their archive."""

    def job(spark: "SparkSession", watch: Callable[["Progress"], None]) -> Any:
        from headrace.pipelines.audit import audit_archive  # noqa: PLC0415

        return audit_archive(
            spark,
            path,
            url=url,
            keys=keys,
            start=start,
            end=end,
            checkpoint=checkpoint,
            whole=whole,
            watch=watch,
        )

    result = _run(job, _verdict, doing=f"auditing {path}", master=master, as_json=as_json, verbose=verbose)
    if not result.equal:
        raise typer.Exit(DIFFERENT)


def _verdict(result: Any) -> str:
    beside = [
        f"{_entries(count)} {what}"
        for count, what in ((result.trimmed, "trimmed since"), (result.waiting, "not archived yet"))
        if count
    ]
    aside = f" ({', '.join(beside)})" if beside else ""
    if result.equal:
        return f"Equal: {_entries(result.entries)} in {len(result.ranges):,} ranges{aside}."
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("stream", "id", "the archive"):
        table.add_column(name, no_wrap=True)
    says = {"missing": "lacks it", "extra": "has it, the stream does not", "changed": "has other fields"}
    for difference in result.differences[:_LISTED]:
        table.add_row(Text(difference.key), difference.id, says[difference.kind])
    console = Console(highlight=False)
    with console.capture() as captured:
        console.print(table)
    more = len(result.differences) - _LISTED
    rest = f"and {more:,} more; --json names all\n" if more > 0 else ""
    ranges = sum(not each.equal for each in result.ranges)
    return (
        f"{captured.get()}{rest}Different: {_entries(len(result.differences))} in {ranges:,} of "
        f"{len(result.ranges):,} ranges{aside}."
    )
