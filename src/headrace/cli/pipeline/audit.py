"""`headrace pipeline audit`: streams against their archive."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.command import declared
from headrace.cli.pipeline.options import ArchivePath, Checkpoint, From, JobOptions, SomeStreams, To

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.audit import Audit
    from headrace.pipelines.running import Watch

AUDIT_HELP: Final = """Streams against their archive: counts and hashes by ID range, then every entry that differs.

Exits with status 3 where something differs. Entries that were trimmed after they were archived, or are not archived
yet, are counted and are no difference, unless with --whole.

For example:

\b
  headrace pipeline audit lake
  headrace pipeline audit lake --keys 'sensor:*' --from 2026-11-15 --json
"""

DIFFERENT: Final = 3


@declared
def audit(
    *,
    path: ArchivePath,
    keys: SomeStreams = None,
    start: From = None,
    end: To = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="What was trimmed or is not archived yet differs, too.")
    ] = False,
    checkpoint: Checkpoint = None,
    job: JobOptions,
) -> None:
    """Compare streams with their archive."""
    from headrace.cli.pipeline.running import run_job  # noqa: PLC0415 — only when it runs
    from headrace.cli.pipeline.verdict import verdict  # noqa: PLC0415

    def work(spark: "SparkSession", watch: "Watch") -> "Audit":
        from headrace.pipelines.audit import audit_archive  # noqa: PLC0415

        return audit_archive(
            spark,
            path,
            url=job.url,
            keys=keys,
            start=start,
            end=end,
            checkpoint=checkpoint,
            whole=whole,
            watch=watch,
        )

    result = run_job(work, verdict, doing=f"auditing {path}", options=job)
    if not result.equal:
        raise typer.Exit(DIFFERENT)
