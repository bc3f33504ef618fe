"""The declaration of `headrace check`."""

from pathlib import Path
from typing import Annotated, Final

import typer

CHECK_HELP: Final = """Check the files of a data directory, of Headrace or of Redis.

Reads the manifest, every value of the snapshots and every command of the append-only files, says what is wrong and
where, and exits with status 1 where something is. With --fix it writes a copy without the damage and says what is not
in it. A sound directory stays where it is: of that, --fix only cuts the zeros which a killed server leaves, and Redis
refuses.

For example:

\b
  headrace check data
  headrace check data --fix --output repaired
  headrace check data/dump.rdb --json
"""


def check(
    path: Annotated[Path, typer.Argument(help="A data directory, or one file of it.", show_default=False)],
    fix: Annotated[bool, typer.Option("--fix", help="Write a repaired copy, without the damage.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Where the copy goes; PATH.fixed by default.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Verify a data directory."""
    from headrace.cli.check.checking import run_check  # noqa: PLC0415 — the other commands do not need it

    raise typer.Exit(run_check(path, fix=fix, output=output, as_json=as_json))
