"""`headrace pipeline report`: one page about streams."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.command import declared
from headrace.cli.pipeline.options import From, JobOptions, StreamNames, To
from headrace.cli.showing import entries, plural

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.report.report import Reported
    from headrace.pipelines.running import Watch

REPORT_HELP: Final = """One HTML page about streams and their groups, with plots.

Rates over time, sizes, fields, hot keys, and for each group its lag, latency and redeliveries. The page needs nothing
but itself: no network, no script.

For example:

\b
  headrace pipeline report 'sensor:*' report.html
  headrace pipeline report orders orders.html --from 2026-11-15
"""


@declared
def report(
    *,
    keys: StreamNames,
    page: Annotated[Path, typer.Argument(help="The file to write.", show_default=False)],
    start: From = None,
    end: To = None,
    title: Annotated[str | None, typer.Option(help="Over the page.", show_default=False)] = None,
    job: JobOptions,
) -> None:
    """Write a report."""
    from headrace.cli.pipeline.running import run_job  # noqa: PLC0415 — only when it runs

    def work(spark: "SparkSession", watch: "Watch") -> "Reported":
        from headrace.pipelines.report.report import report_streams  # noqa: PLC0415

        return report_streams(spark, keys, page, url=job.url, start=start, end=end, title=title, watch=watch)

    def told(result: "Reported") -> str:
        return f"Wrote {page}: {entries(result.entries)} of {plural(result.streams, 'stream')}."

    run_job(work, told, doing=f"reading {keys}", options=job)
