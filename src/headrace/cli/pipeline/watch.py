"""`headrace pipeline watch`: a SQL query over streams as they grow, on the terminal."""

import json
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.command import declared
from headrace.cli.pipeline.options import Every, JobOptions, named_values
from headrace.cli.showing import plural

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.running import Progress, Watch
    from headrace.pipelines.watching import Changed, Watched

WATCH_HELP: Final = """A Spark SQL query over streams as they grow, on the terminal.

Each --stream is a view, as for transform. After each batch the rows that it changed are shown, then how many entries
were read, how far behind the query is, and what it keeps: rows of state, the watermark, entries that came too late.
Nothing is written.

For example:

\b
  headrace pipeline watch "SELECT device, max(temp) AS temp FROM readings GROUP BY device" \\
      --stream 'readings=sensor:*' --schema 'readings=device string, temp double' --once
"""


@declared
def watch(
    *,
    sql: Annotated[str, typer.Argument(help="The query.", show_default=False)],
    stream: Annotated[list[str], typer.Option(help="VIEW=KEYS. Repeatable.", show_default=False)],
    schema: Annotated[list[str] | None, typer.Option(help="VIEW=DDL. Repeatable.", show_default=False)] = None,
    watermark: Annotated[
        str | None, typer.Option(help='How late entries may come, such as "10 minutes".', show_default=False)
    ] = None,
    output_mode: Annotated[str, typer.Option(help="Rows that are shown: append, update or complete.")] = "update",
    every: Every = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows to show of a batch.")] = 20,
    once: Annotated[bool, typer.Option("--once", help="End when all that is there was read.")] = False,
    job: JobOptions,
) -> None:
    """Run a query, and show it."""
    from headrace.cli.pipeline.running import run_job, shown_progress  # noqa: PLC0415 — only when it runs

    streams, schemas = named_values("--stream", stream), named_values("--schema", schema or [])

    def show(changed: "Changed") -> None:
        if job.as_json:
            return
        for row in changed.rows:
            named = dict(zip(changed.columns, row, strict=True))
            typer.echo(json.dumps(named, default=str, ensure_ascii=False))
        if changed.count > len(changed.rows):
            typer.echo(f"… {plural(changed.count - len(changed.rows), 'row')} more")

    def tell(progress: "Progress") -> None:
        if not job.as_json:
            typer.echo(shown_progress(progress), err=True)

    def work(spark: "SparkSession", watch: "Watch") -> "Watched":
        from headrace.pipelines.watching import watch_streams  # noqa: PLC0415

        def both(progress: "Progress") -> None:
            tell(progress)
            watch(progress)

        return watch_streams(
            spark,
            sql,
            streams,
            show,
            url=job.url,
            schemas=schemas,
            watermark=watermark,
            output_mode=output_mode,
            every=every,
            continuous=not once,
            most=rows,
            watch=both,
        )

    def told(result: "Watched") -> str:
        return f"Read {plural(result.entries, 'entry', 'entries')} in {plural(result.batches, 'batch', 'batches')}."

    run_job(work, told, doing="watching", options=job)
