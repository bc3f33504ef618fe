"""The declaration of `headrace convert`."""

from pathlib import Path
from typing import Annotated, Final

import typer

from headrace.cli.command import AsJson, declared

CONVERT_HELP: Final = """Convert data on disk: RDB file, data directory with append-only files, Parquet.

\b
  FROM  an RDB file, an append-only file, a data directory of Headrace or Redis, a Parquet file or a directory of them
  TO    an RDB file                  NAME.rdb, or --to rdb
        a data directory             --to aof: append-only files, which Headrace and Redis 7 start from
        a directory of Parquet       --to parquet: a file for each stream, KEY.parquet

No server may be working in FROM. Nothing there is changed. Standard error names, each thing once, the data that the new
form cannot hold: modules' values, for example, or in Parquet the groups of a stream and every key that is none.

For example:

\b
  headrace convert dump.rdb data --to aof
  headrace convert data old.rdb --rdb-version 7.0
  headrace convert data archive --to parquet
  headrace convert archive restored.rdb
"""


@declared
def convert(
    source: Annotated[Path, typer.Argument(metavar="FROM", help="What there is.", show_default=False)],
    target: Annotated[Path, typer.Argument(metavar="TO", help="What is to be written.", show_default=False)],
    form: Annotated[
        str | None, typer.Option("--to", help="rdb, aof or parquet; by the end of TO.", show_default=False)
    ] = None,
    rdb_version: Annotated[
        str,
        typer.Option(
            "--rdb-version", help="For which server: 7.0, 7.2, 8.6 or 8.8 (or RDB 10, 11, 13, 14); auto: the newest."
        ),
    ] = "auto",
    as_json: AsJson = False,
) -> None:
    """Convert data on disk."""
    from headrace.cli.convert.converting import run_convert  # noqa: PLC0415 — only when it runs

    run_convert(source, target, form, rdb_version, as_json=as_json)
