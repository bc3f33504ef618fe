"""The declarations of `headrace group` and its commands."""

from typing import Annotated, Final

import typer

from headrace.cli.address import ServerAddress, stream_names
from headrace.cli.command import AsJson, Yes, declared
from headrace.cli.times import duration_ms, group_place

GROUP_HELP: Final = """Look at consumer groups, and set them right.

For example:

\b
  headrace group list devmsg
  headrace group create devmsg workers --at '$'
  headrace group reset devmsg workers --to 2026-11-15T10:00
  headrace group reset devmsg workers --lag 1000
  headrace group pending devmsg workers --idle 1m
  headrace group claim devmsg workers --idle 1m --to ann
"""

group_app: Final = typer.Typer(help=GROUP_HELP, no_args_is_help=True, rich_markup_mode=None)

_Key = Annotated[str, typer.Argument(help="The stream.", show_default=False, autocompletion=stream_names)]
_Group = Annotated[str, typer.Argument(help="The group.", show_default=False)]


@group_app.command("list")
@declared
def list_groups(
    *,
    key: Annotated[
        str | None,
        typer.Argument(help="The stream; all of them.", show_default=False, autocompletion=stream_names),
    ] = None,
    as_json: AsJson = False,
    server: ServerAddress,
) -> None:
    """List groups, with their lag, what is pending, and their consumers."""
    from headrace.cli.group.looking import run_list  # noqa: PLC0415 — only when it runs

    run_list(server, key, as_json=as_json)


@group_app.command()
@declared
def create(
    *,
    key: _Key,
    group: _Group,
    at: Annotated[
        str,
        typer.Option(
            "--at", parser=group_place, metavar="PLACE", help="Read from behind this ID or time; 0: everything."
        ),
    ] = "$",
    make_stream: Annotated[bool, typer.Option("--make-stream", help="Make the stream, if there is none.")] = False,
    as_json: AsJson = False,
    server: ServerAddress,
) -> None:
    """Make a group that reads what is added from now on, or from another place."""
    from headrace.cli.group.changing import run_create  # noqa: PLC0415 — only when it runs

    run_create(server, key, group, at, make_stream=make_stream, as_json=as_json)


@group_app.command()
@declared
def reset(
    *,
    key: _Key,
    group: _Group,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            parser=group_place,
            metavar="PLACE",
            help="After this ID, or from this time on.",
            show_default=False,
        ),
    ] = None,
    lag: Annotated[
        int | None, typer.Option("--lag", min=0, help="Leave this many entries to be read.", show_default=False)
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
    server: ServerAddress,
) -> None:
    """Let a group read on from another place; what is pending stays so."""
    from headrace.cli.group.changing import run_reset  # noqa: PLC0415 — only when it runs

    if (to is None) == (lag is None):
        raise typer.BadParameter("Say where to: either --to an ID or a time, or --lag a number of entries.")
    run_reset(server, key, group, to, lag, yes=yes, as_json=as_json)


@group_app.command()
@declared
def drop(*, key: _Key, group: _Group, yes: Yes = False, as_json: AsJson = False, server: ServerAddress) -> None:
    """Remove a group, with all that it knows: its place, its consumers, what is pending."""
    from headrace.cli.group.changing import run_drop  # noqa: PLC0415 — only when it runs

    run_drop(server, key, group, yes=yes, as_json=as_json)


@group_app.command()
@declared
def claim(
    *,
    key: _Key,
    group: _Group,
    to: Annotated[str, typer.Option("--to", help="The consumer that gets them.", show_default=False)],
    idle: Annotated[
        int, typer.Option("--idle", parser=duration_ms, metavar="DURATION", help="Only entries idle for so long.")
    ] = "1m",  # type: ignore[assignment]  # typer parses the default, too
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="No more than this.", show_default=False)
    ] = None,
    as_json: AsJson = False,
    server: ServerAddress,
) -> None:
    """Give stale entries to another consumer, which reads them as its own from then on."""
    from headrace.cli.group.changing import run_claim  # noqa: PLC0415 — only when it runs

    run_claim(server, key, group, consumer=to, idle_ms=idle, count=count, as_json=as_json)


@group_app.command()
@declared
def pending(
    *,
    key: _Key,
    group: _Group,
    consumer: Annotated[
        str | None, typer.Option("--consumer", help="Only those of this one.", show_default=False)
    ] = None,
    idle: Annotated[
        int, typer.Option("--idle", parser=duration_ms, metavar="DURATION", help="Only entries idle for so long.")
    ] = "0s",  # type: ignore[assignment]  # typer parses the default, too
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="No more than this.")] = 20,
    as_json: AsJson = False,
    server: ServerAddress,
) -> None:
    """List what was delivered and not acknowledged."""
    from headrace.cli.group.looking import run_pending  # noqa: PLC0415 — only when it runs

    run_pending(server, key, group, consumer=consumer, idle_ms=idle, count=count, as_json=as_json)
