"""`headrace pipeline load`: files to streams."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.command import declared
from headrace.cli.pipeline.options import Checkpoint, DryRun, JobOptions, StreamColumns, named_values
from headrace.cli.showing import entries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.load import Loaded
    from headrace.pipelines.running import Watch

LOAD_HELP: Final = """Files to streams: CSV, JSON lines or Parquet, each row once.

Every column becomes a field. A run that was stopped continues where it was, and a run over the same files adds only new
files; the output says at its end where that is remembered.

For example:

\b
  headrace pipeline load orders.csv --key orders
  headrace pipeline load 'readings/*.parquet' --key-column device --id-column id
  headrace pipeline load clicks.jsonl.gz --key clicks --partitions 4 --partition-by user
"""


@declared
def load(
    *,
    path: Annotated[str, typer.Argument(help="A file, a directory, or a pattern of files.", show_default=False)],
    target: StreamColumns,
    fields: Annotated[str | None, typer.Option(help="The columns to take, commas between.", show_default="all")] = None,
    format: Annotated[  # noqa: A002
        str | None, typer.Option(help="csv, json or parquet.", show_default="by the file's name")
    ] = None,
    schema: Annotated[str | None, typer.Option(help='Columns as DDL: "n int, at date".', show_default=False)] = None,
    option: Annotated[
        list[str] | None, typer.Option(help='Of Spark\'s reader, as "sep=;". Repeatable.', show_default=False)
    ] = None,
    checkpoint: Checkpoint = None,
    dry_run: DryRun = False,
    job: JobOptions,
) -> None:
    """Load files."""
    from headrace.cli.pipeline.running import run_job  # noqa: PLC0415 — only when it runs

    reading = named_values("--option", option or [])

    def work(spark: "SparkSession", watch: "Watch") -> "Loaded":
        from headrace.pipelines.load import load_files  # noqa: PLC0415

        return load_files(
            spark,
            path,
            url=job.url,
            **asdict(target),
            fields=None if fields is None else [name.strip() for name in fields.split(",")],
            format=format,
            schema=schema,
            options=reading,
            checkpoint=checkpoint,
            dry_run=dry_run,
            watch=watch,
        )

    def told(result: "Loaded") -> str:
        if result.fields is not None:
            return f"Would load {entries(result.entries)} from {path}, with the columns {', '.join(result.fields)}."
        if not result.entries:
            return f"Nothing is new in {path}; what was loaded is remembered in {result.checkpoint}."
        return f"Loaded {entries(result.entries)} from {path}; remembered in {result.checkpoint}."

    run_job(work, told, doing=f"loading {path}", options=job)
