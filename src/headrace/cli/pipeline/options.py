"""The options that several jobs have, each declared once.

JobOptions      --url --master --json --verbose                       every job
StreamColumns   --key --key-column --id-column … --maxlen             jobs that write to streams
StreamNames …   arguments and single options, as types to annotate with
"""

from dataclasses import dataclass
from typing import Annotated

import typer

from headrace.cli.address import DEFAULT_URL

StreamNames = Annotated[str, typer.Argument(help="Streams: names and patterns, commas between.", show_default=False)]
ArchivePath = Annotated[str, typer.Argument(help="The archive's directory.", show_default=False)]

SomeStreams = Annotated[
    str | None, typer.Option("--keys", help="Streams: names and patterns, commas between.", show_default="all")
]
Checkpoint = Annotated[str | None, typer.Option(help="Where to remember what is done.", show_default=False)]
From = Annotated[str | None, typer.Option("--from", help="From this time on: ISO 8601, or ms.", show_default=False)]
To = Annotated[str | None, typer.Option("--to", help="Before this time.", show_default=False)]
Continuous = Annotated[bool, typer.Option("--continuous", help="Go on until interrupted.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")]
Every = Annotated[
    str | None, typer.Option(help='Time between batches of --continuous, such as "30 seconds".', show_default=False)
]


@dataclass(frozen=True)
class StreamColumns:
    """The streams that rows go to, and what their columns are there."""

    key: Annotated[str | None, typer.Option(help="The stream to append to.", show_default=False)] = None
    key_column: Annotated[str | None, typer.Option(help="The column that names the stream.", show_default=False)] = None
    id_column: Annotated[
        str | None, typer.Option(help="The column of entry IDs.", show_default="made by the server")
    ] = None
    fields_column: Annotated[str | None, typer.Option(help="A map column that has the fields.", show_default=False)] = (
        None
    )
    partitions: Annotated[int | None, typer.Option(help="Spread over KEY:0 … KEY:N-1.", show_default=False)] = None
    partition_by: Annotated[str | None, typer.Option(help="Its hash chooses the stream.", show_default=False)] = None
    maxlen: Annotated[
        int | None, typer.Option(help="Trim the stream to about so many entries.", show_default=False)
    ] = None


@dataclass(frozen=True)
class JobOptions:
    """Where a job runs, and how it prints what it did."""

    url: Annotated[
        str,
        typer.Option(
            envvar="HEADRACE_URL",
            help="The server: redis://…, rediss://… or unix://…; several with commas between.",
        ),
    ] = DEFAULT_URL
    master: Annotated[str, typer.Option(help="Where Spark runs: local[*], local[2], spark://host:7077 …")] = "local[*]"
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False
    verbose: Annotated[bool, typer.Option("--verbose", help="Show Spark's own log.")] = False


def named_values(option: str, texts: list[str]) -> dict[str, str]:
    """Read texts of the form NAME=VALUE, as a repeated option has them."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        pairs[name.strip()] = value
    return pairs
