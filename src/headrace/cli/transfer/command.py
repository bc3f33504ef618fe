"""The declarations of `headrace load` and `headrace export`."""

from typing import Annotated, Final

import typer

from headrace.cli.address import ServerAddress, stream_names
from headrace.cli.command import AsJson, declared
from headrace.cli.times import place, range_end

LOAD_HELP: Final = """Add the rows of a file to a stream: JSON lines, CSV or Parquet, by the end of its name.

Every field becomes text; null, an empty cell and a missing name are a field that the entry does not have. The server
makes the IDs, unless they are to be kept: then rows whose ID is not above the last of the stream are refused, and
told apart into those that are there already, as after a load that was interrupted, and those that are not.

For example:

\b
  headrace load devmsg readings.jsonl
  headrace load devmsg backup.parquet --keep-ids
  zcat readings.csv.gz | headrace load devmsg - --format csv
"""

EXPORT_HELP: Final = """Write the entries of a stream to a file: JSON lines, CSV or Parquet, by the end of its name.

The ID is the column _id, every field has a column of its own. `headrace load --keep-ids` makes the same stream of it.
Entries that are added meanwhile are not in the file.

For example:

\b
  headrace export devmsg devmsg.parquet
  headrace export devmsg - | jq .temp
  headrace export devmsg today.csv --from 2026-11-15 --to now
"""

_Form = Annotated[str | None, typer.Option("--format", help="json, csv or parquet.", show_default=False)]


@declared
def load(
    *,
    key: Annotated[str, typer.Argument(help="The stream.", show_default=False, autocompletion=stream_names)],
    file: Annotated[str, typer.Argument(help="The file; - for standard input.")] = "-",
    form: _Form = None,
    keep_ids: Annotated[bool, typer.Option("--keep-ids", help="Give entries the IDs of the file.")] = False,
    id_column: Annotated[str, typer.Option("--id-column", help="Where the file has its IDs.")] = "_id",
    batch: Annotated[int, typer.Option("--batch", min=1, max=100_000, help="Entries on the way at a time.")] = 1000,
    as_json: AsJson = False,
    server: ServerAddress,
) -> None:
    """Load a file."""
    from headrace.cli.transfer.loading import run_load  # noqa: PLC0415 — only when it runs

    run_load(server, key, file, form=form, id_column=id_column, batch=batch, keep_ids=keep_ids, as_json=as_json)


@declared
def export(
    *,
    key: Annotated[str, typer.Argument(help="The stream.", show_default=False, autocompletion=stream_names)],
    file: Annotated[str, typer.Argument(help="The file; - for standard output.")] = "-",
    form: _Form = None,
    start: Annotated[
        str | None,
        typer.Option("--from", parser=place, metavar="PLACE", help="The first: an ID, a time.", show_default=False),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", parser=range_end, metavar="PLACE", help="The last: an ID, a time.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    as_json: AsJson = False,
    server: ServerAddress,
) -> None:
    """Export a stream."""
    from headrace.cli.transfer.exporting import run_export  # noqa: PLC0415 — only when it runs

    run_export(server, key, file, form=form, start=start, end=end, force=force, as_json=as_json)
