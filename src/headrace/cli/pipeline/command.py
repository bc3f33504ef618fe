"""The declaration of `headrace pipeline`; each job is declared in the module of its name.

    exit code   0 done   1 it failed, in one sentence   2 wrong usage   3 the audit found differences
                130 interrupted (Ctrl-C)   143 ended (SIGTERM)

Spark is imported when a job runs, not before.
"""

from typing import Final

import typer

from headrace.cli.pipeline.archive import ARCHIVE_HELP, archive
from headrace.cli.pipeline.audit import AUDIT_HELP, audit
from headrace.cli.pipeline.compact import COMPACT_HELP, compact
from headrace.cli.pipeline.load import LOAD_HELP, load
from headrace.cli.pipeline.replay import REPLAY_HELP, replay
from headrace.cli.pipeline.report import REPORT_HELP, report
from headrace.cli.pipeline.transform import TRANSFORM_HELP, transform
from headrace.cli.pipeline.watch import WATCH_HELP, watch

pipeline_app: Final = typer.Typer(
    name="pipeline",
    help="Jobs on streams, with Spark: load, archive, compact, replay, transform, watch, report, audit.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

pipeline_app.command(help=LOAD_HELP)(load)
pipeline_app.command(help=ARCHIVE_HELP)(archive)
pipeline_app.command(help=COMPACT_HELP)(compact)
pipeline_app.command(help=REPLAY_HELP)(replay)
pipeline_app.command(help=TRANSFORM_HELP)(transform)
pipeline_app.command(help=WATCH_HELP)(watch)
pipeline_app.command(help=REPORT_HELP)(report)
pipeline_app.command(help=AUDIT_HELP)(audit)
