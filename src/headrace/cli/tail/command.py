"""The declaration of `headrace tail`."""

from typing import Annotated, Final

import typer

from headrace.cli.address import ServerAddress, stream_names
from headrace.cli.command import declared
from headrace.cli.times import place

TAIL_HELP: Final = """Print the last entries of streams, and then every new one as it comes.

Only reads: no group is touched. With several streams their entries come in the order of their IDs. A name with *, ? or
[ is a pattern, unless a key has just this name; streams that match it later are printed from their beginning.

\b
  --format table       time, ID and fields, in columns
           json        a line of JSON for each: {"_id": "1526919030474-55", "temp": "26"}
           csv         the fields of the first entry, or those of --field
           raw         the ID and the values as they are, with tabs between
           '{…}'       a template: any field, {_id}, {_key}, {_time}
  --where 'temp>30'    also = != >= < <=; ~ and !~ for a regular expression; several must all hold

For example:

\b
  headrace tail devmsg
  headrace tail devmsg -n 100 --no-follow --format csv
  headrace tail devmsg alarms --where 'temp>30' --grep 'dev-1[0-9]'
  headrace tail 'dev*' alarms -n 1
  headrace tail devmsg --from 10m --format '{_time} {dev}: {temp} °C'
"""


@declared
def tail(
    *,
    keys: Annotated[
        list[str],
        typer.Argument(
            help="The streams, or patterns such as 'sensor:*'.", show_default=False, autocompletion=stream_names
        ),
    ],
    count: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many of the last entries first.")] = 10,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            parser=place,
            metavar="PLACE",
            help="Begin here and not with the last: an ID, a time, so long ago, 0 or $.",
            show_default=False,
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Stay, and print what comes.")] = True,
    form: Annotated[str, typer.Option("--format", "-o", help="table, json, csv, raw, or a template.")] = "table",
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    where: Annotated[
        list[str] | None, typer.Option("--where", "-w", help="Only entries for which this holds.", show_default=False)
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option("--grep", "-g", help="Only entries with a field=value that this matches.", show_default=False),
    ] = None,
    fields: Annotated[
        list[str] | None, typer.Option("--field", "-F", help="Print only these fields.", show_default=False)
    ] = None,
    server: ServerAddress,
) -> None:
    """Print what comes."""
    from headrace.cli.tail.following import run_tail  # noqa: PLC0415 — only when it runs

    run_tail(
        server,
        keys,
        count=count,
        start=start,
        form="json" if as_json else form,
        where=where or [],
        grep=grep,
        fields=fields or [],
        follow=follow,
    )
