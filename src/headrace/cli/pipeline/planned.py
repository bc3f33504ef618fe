"""`headrace pipeline archive --dry-run`: what a run would archive."""

import json
from dataclasses import asdict
from typing import Final

import typer

from headrace.cli.pipeline.options import JobOptions
from headrace.cli.showing import entries, plural
from headrace.pipelines.archive_plan import plan_archive

_MOST_LINES: Final = 20


def show_plan(keys: str, path: str, job: JobOptions, *, checkpoint: str | None, trims: bool) -> None:
    """Print what would be archived, the streams that have most first."""
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
