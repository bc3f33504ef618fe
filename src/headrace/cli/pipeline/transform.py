"""`headrace pipeline transform`: a SQL query over streams."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.command import declared
from headrace.cli.pipeline.options import Checkpoint, Continuous, DryRun, Every, JobOptions, StreamColumns, named_values
from headrace.cli.showing import plural

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.running import Watch
    from headrace.pipelines.transform import Transformed

TRANSFORM_HELP: Final = """A Spark SQL query over streams, to a stream or to files.

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


@declared
def transform(
    *,
    sql: Annotated[str, typer.Argument(help="The query, or @FILE that has it.", show_default=False)],
    stream: Annotated[list[str], typer.Option(help="VIEW=KEYS. Repeatable.", show_default=False)],
    schema: Annotated[list[str] | None, typer.Option(help="VIEW=DDL. Repeatable.", show_default=False)] = None,
    target: StreamColumns,
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
    dry_run: DryRun = False,
    job: JobOptions,
) -> None:
    """Run a query."""
    from headrace.cli.pipeline.running import run_job  # noqa: PLC0415 — only when it runs

    streams, schemas = named_values("--stream", stream), named_values("--schema", schema or [])
    if sql.startswith("@"):
        try:
            sql = Path(sql[1:]).read_text()
        except OSError as error:
            raise typer.BadParameter(f"{sql[1:]} cannot be read: {error.strerror}", param_hint="SQL") from None
        except UnicodeDecodeError:
            raise typer.BadParameter(f"{sql[1:]} is no text in UTF-8", param_hint="SQL") from None
    given = {
        "url": to_url,
        "key": target.key,
        "keyColumn": target.key_column,
        "idColumn": target.id_column,
        "fieldsColumn": target.fields_column,
        "partitions": target.partitions,
        "partitionBy": target.partition_by,
        "maxlen": target.maxlen,
    }
    sink = {name: str(value) for name, value in given.items() if value is not None}

    def work(spark: "SparkSession", watch: "Watch") -> "Transformed":
        from headrace.pipelines.transform import transform_streams  # noqa: PLC0415

        return transform_streams(
            spark,
            sql,
            streams,
            url=job.url,
            schemas=schemas,
            sink=sink or None,
            path=path,
            format=format,
            mode="continuous" if continuous else "new" if new else "once",
            checkpoint=checkpoint,
            every=every,
            output_mode=output_mode,
            watermark=watermark,
            dry_run=dry_run,
            watch=watch,
        )

    def told(result: "Transformed") -> str:
        written_to = path or target.key or f"the streams of column {target.key_column}"
        if result.columns is not None:
            return f"Would write rows of {result.columns} to {written_to}."
        return f"Wrote {plural(result.rows, 'row')} to {written_to}."

    run_job(work, told, doing="transforming", options=job)
