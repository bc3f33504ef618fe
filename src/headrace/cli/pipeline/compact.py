"""`headrace pipeline compact`: small files of an archive to large ones."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.command import declared
from headrace.cli.pipeline.options import ArchivePath, DryRun, JobOptions
from headrace.cli.showing import plural

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.compaction import Compacted
    from headrace.pipelines.running import Watch

COMPACT_HELP: Final = """Small files of an archive to files of some 128 MB, sorted by stream and ID.

Readers are not disturbed: the new files count from one moment on, and the old ones stay until nobody can need them.
A run that was stopped changes nothing. `archive` does this by itself where many small files lie together.

For example:

\b
  headrace pipeline compact lake
  headrace pipeline compact lake --target-mb 512 --keep '1 day'
"""


@declared
def compact(
    *,
    path: ArchivePath,
    target_mb: Annotated[int, typer.Option(help="Megabytes of a file, about.", min=1)] = 128,
    keep: Annotated[
        str | None,
        typer.Option(help="How long files stay that were replaced.", show_default="1 hour; of a Delta table 7 days"),
    ] = None,
    dry_run: DryRun = False,
    job: JobOptions,
) -> None:
    """Compact an archive."""
    from headrace.cli.pipeline.running import run_job  # noqa: PLC0415 — only when it runs

    def work(spark: "SparkSession", watch: "Watch") -> "Compacted":
        from headrace.pipelines.compaction import compact_archive  # noqa: PLC0415
        from headrace.pipelines.selection import seconds_of  # noqa: PLC0415

        return compact_archive(
            spark,
            path,
            target_bytes=target_mb << 20,
            keep_s=None if keep is None else seconds_of("keep", keep),
            dry_run=dry_run,
            watch=watch,
        )

    def told(result: "Compacted") -> str:
        size = f"{result.bytes / (1 << 20):,.1f} MB"
        if dry_run:
            return f"Would merge {plural(result.before, 'file')} of {path}, {size}."
        removed = f"; removed {plural(result.removed, 'file')} that earlier runs replaced" if result.removed else ""
        if not result.before:
            return f"Nothing is to be merged in {path}{removed}."
        return f"Merged {plural(result.before, 'file')} of {path}, {size}, into {result.after:,}{removed}."

    run_job(work, told, doing=f"compacting {path}", options=job)
