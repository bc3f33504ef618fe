"""`headrace pipeline replay`: an archive back to streams."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.command import declared
from headrace.cli.pipeline.options import ArchivePath, DryRun, From, JobOptions, SomeStreams, To
from headrace.cli.showing import entries, plural

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipelines.replay import Replayed
    from headrace.pipelines.running import Watch

REPLAY_HELP: Final = """An archive back to streams, every entry under its ID.

Goes on where it was when it is run again. A stream that has other entries behind those to be replayed is refused,
because IDs only rise: replay to another key, or to another server.

For example:

\b
  headrace pipeline replay lake --url redis://127.0.0.1:7000
  headrace pipeline replay lake --keys orders --to-key orders-again --from 2026-11-15 --to 2026-11-16
  headrace pipeline replay lake --prefix test: --speed 10
"""


@declared
def replay(
    *,
    path: ArchivePath,
    keys: SomeStreams = None,
    to_key: Annotated[str | None, typer.Option(help="Another name for a single stream.", show_default=False)] = None,
    prefix: Annotated[str, typer.Option(help="A prefix of every stream's name.", show_default=False)] = "",
    start: From = None,
    end: To = None,
    speed: Annotated[float, typer.Option(help="Times faster than it happened; 0: as fast as possible.", min=0)] = 0.0,
    dry_run: DryRun = False,
    job: JobOptions,
) -> None:
    """Replay an archive."""
    from headrace.cli.pipeline.running import run_job  # noqa: PLC0415 — only when it runs

    def work(spark: "SparkSession", watch: "Watch") -> "Replayed":
        from headrace.pipelines.replay import replay_archive  # noqa: PLC0415

        return replay_archive(
            spark,
            path,
            url=job.url,
            keys=keys,
            to_key=to_key,
            prefix=prefix,
            start=start,
            end=end,
            speed=speed,
            dry_run=dry_run,
            watch=watch,
        )

    def told(result: "Replayed") -> str:
        skipped = f"; {entries(result.skipped)} were there already" if result.skipped else ""
        done = "Would replay" if dry_run else "Replayed"
        return f"{done} {entries(result.entries)} to {plural(len(result.streams), 'stream')}{skipped}."

    run_job(work, told, doing=f"replaying {path}", options=job)
