"""The declaration of `headrace top`."""

from typing import Annotated, Final

import typer

from headrace.cli.address import ServerAddress
from headrace.cli.command import AsJson, declared
from headrace.cli.times import duration_ms

TOP_HELP: Final = """Watch the streams of a server: lengths, rates, groups, lag, pending entries, consumers.

On a terminal it stays, like top. Keys: q leaves, s sorts by the next column, r turns the order, g and c show or hide
groups and consumers, the arrows scroll. Where the output is no terminal, it prints one reading and leaves.

\b
  in/s      entries added per second        out/s    entries read per second, by all groups
  lag       entries a group has not read    pending  entries read and not acknowledged
  oldest    since when the first of those was not heard of; ×3: it was delivered three times
  dead      dead letters in the stream NAME:dead    next    in how long the next scheduled message is due

For example:

\b
  headrace top
  headrace top --match 'dev*' --sort lag
  headrace top --once --json --url redis://user:password@example:6379
"""


@declared
def top(
    *,
    match: Annotated[str, typer.Option("--match", help="Only streams whose names match this pattern.")] = "*",
    sort: Annotated[
        str, typer.Option("--sort", help="name, length, in, out, groups, lag, pending, oldest, dead or next.")
    ] = "name",
    interval: Annotated[
        int, typer.Option("--interval", "-i", parser=duration_ms, metavar="DURATION", help="Between two readings.")
    ] = "1s",  # type: ignore[assignment]  # typer parses the default, too
    once: Annotated[bool, typer.Option("--once", help="Print one reading and leave.")] = False,
    as_json: AsJson = False,
    server: ServerAddress,
) -> None:
    """Watch a server."""
    from headrace.cli.top.watching import run_top  # noqa: PLC0415 — only when it runs

    run_top(server, match, sort, interval, once=once, as_json=as_json)
