"""`headrace pipeline archive`: streams to Parquet."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from headrace.cli.command import declared
from headrace.cli.pipeline.options import ArchivePath, Continuous, DryRun, JobOptions, StreamNames
from headrace.cli.showing import entries, plural

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.archive import Archived
    from headrace.pipelines.lakes import Table
    from headrace.pipelines.running import Watch
    from headrace.pipelines.shapes import Layout

_MOST_LINES: Final = 20  # of a plan

ARCHIVE_HELP: Final = """Streams to Parquet, by key and date, every entry once.

Appends what is new since the last run; with --continuous it does not end. With --trim the streams then lose the entries
that are safely archived and that no group has still to read or acknowledge.

For example:

\b
  headrace pipeline archive 'orders,sensor:*' lake
  headrace pipeline archive 'sensor:*' lake --continuous --min-entries 100000 --trim
  headrace pipeline archive 'sensor:*' table --table delta
  headrace pipeline archive 'user:*' days --layout by-date --schema 'page string, ms_spent int'
"""


@declared
def archive(
    *,
    keys: StreamNames,
    path: ArchivePath,
    table: Annotated[
        str | None, typer.Option(help="parquet or delta.", show_default="as the archive is, or parquet")
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            help="by-key, or by-date for thousands of small streams.", show_default="as the archive is, or by-key"
        ),
    ] = None,
    schema: Annotated[
        str | None, typer.Option(help='Fields as typed columns, too: "temp double".', show_default="as the archive has")
    ] = None,
    continuous: Continuous = False,
    every: Annotated[str, typer.Option(help="Time between batches of --continuous.")] = "1 minute",
    min_entries: Annotated[
        int | None, typer.Option(help="With --continuous: wait for so many entries.", show_default=False)
    ] = None,
    max_delay: Annotated[str | None, typer.Option(help="But not longer than this.", show_default="15 minutes")] = None,
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
        int | None, typer.Option(help="Entries of one batch, at most.", show_default="5,000,000")
    ] = None,
    allow_loss: Annotated[
        bool, typer.Option("--allow-loss", help="Go on where entries were trimmed before they were archived.")
    ] = False,
    checkpoint: Annotated[
        str | None,
        typer.Option(help="That of an archive of version 0.2, where it is not in the archive.", show_default=False),
    ] = None,
    dry_run: DryRun = False,
    job: JobOptions,
) -> None:
    """Archive streams."""
    if dry_run:
        _show_plan(keys, path, job, checkpoint=checkpoint, trims=trim or trim_pending)
        return
    from headrace.cli.pipeline.running import run_job  # noqa: PLC0415 — only when it runs

    def work(spark: "SparkSession", watch: "Watch") -> "Archived":
        from headrace.pipelines.archive import archive_streams  # noqa: PLC0415

        return archive_streams(
            spark,
            keys,
            path,
            url=job.url,
            checkpoint=checkpoint,
            table=cast("Table | None", table),
            layout=cast("Layout | None", layout),
            schema=schema,
            continuous=continuous,
            every=every,
            min_entries=min_entries,
            max_delay=max_delay,
            trim="archived" if trim_pending else "settled" if trim else "nothing",
            group=group,
            max_entries=max_entries,
            fail_on_data_loss=not allow_loss,
            watch=watch,
        )

    def told(result: "Archived") -> str:
        gone = sum(result.trimmed.values())
        trimmed = f"; trimmed {entries(gone)}" if trim or trim_pending else ""
        lost = sum(fate.lost for fate in result.fates)
        missing = f"; {entries(lost)} were gone before they were archived" if lost else ""
        return f"Archived {entries(result.entries)} in {path}{trimmed}{missing}."

    run_job(work, told, doing=f"archiving {keys}", options=job)


def _show_plan(keys: str, path: str, job: JobOptions, *, checkpoint: str | None, trims: bool) -> None:
    """Print what a run would archive, the streams with most entries first."""
    from headrace.pipelines.archive_plan import plan_archive  # noqa: PLC0415 — only when it runs

    plan = plan_archive(keys, path, url=job.url, checkpoint=checkpoint)
    if job.as_json:
        typer.echo(json.dumps(asdict(plan), indent=2))
        return
    total = entries(sum(plan.entries.values()))
    where = f"{path}, which is new" if plan.new else path
    then = ", and then trim the streams" if trims else ""
    typer.echo(f"Would archive {total} of {plural(len(plan.entries), 'stream')} in {where}{then}.")
    most = sorted(plan.entries.items(), key=lambda item: (-item[1], item[0]))
    for name, count in most[:_MOST_LINES]:
        made_anew = " (deleted and made anew since the last run)" if name in plan.renewed else ""
        typer.echo(f"  {name}: {entries(count)}{made_anew}")
    if len(most) > _MOST_LINES:
        typer.echo(f"  and {plural(len(most) - _MOST_LINES, 'stream')} more")
