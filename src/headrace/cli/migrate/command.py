"""The declaration of `headrace migrate`."""

from typing import Annotated, Final

import typer

from headrace.cli.command import Yes, declared
from headrace.cli.times import duration_ms

MIGRATE_HELP: Final = """Move everything from one server to another while clients write, and lose no write.

Either may be a Headrace or a Redis. The new server becomes a replica of the old one, and gets a snapshot and all that
is written since. When it has everything, both are compared key by key. Then the writes of clients wait at the old
server for a moment, what came last is compared, the new server becomes a master, and the old one refuses writes.
Where anything fails before that, or Ctrl-C is pressed, everything is put back.

\b
exit status 0  done; with --check: both are equal
            1  it failed, and everything is as before, or the sentence says what is not
            2  the command makes no sense
            3  both servers differ; everything is as before
            4  the new server is the master, but what comes after that failed
          130  Ctrl-C (143: SIGTERM), and everything is as before

For example:

\b
  headrace migrate redis://old:6379 redis://new:6379 --no-switch
  headrace migrate redis://old:6379 redis://new:6379 --check
  headrace migrate redis://old:6379 redis://new:6379 --reverse --yes
  headrace migrate redis://new:6379 redis://old:6379 --yes
"""


def _host_and_port(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise typer.BadParameter(f"{text!r} is no address: write HOST:PORT.")
    return text


@declared
def migrate(
    *,
    old: Annotated[str, typer.Argument(help="The url of the server that has the data.", show_default=False)],
    new: Annotated[str, typer.Argument(help="The url of the server that gets it.", show_default=False)],
    check: Annotated[bool, typer.Option("--check", help="Only compare; change nothing.")] = False,
    no_switch: Annotated[
        bool, typer.Option("--no-switch", help="Let the new server follow, compare, and switch with a later call.")
    ] = False,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="Let the old server follow the new one afterwards, to be able to go back.")
    ] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Give up the data that the new server has.")] = False,
    leave_out: Annotated[
        bool, typer.Option("--leave-out", help="Leave out keys of types that the new server does not have.")
    ] = False,
    announce: Annotated[
        str | None,
        typer.Option(
            "--announce",
            parser=_host_and_port,
            metavar="HOST:PORT",
            help="Where the new server finds the old one, if not at its url.",
            show_default=False,
        ),
    ] = None,
    announce_new: Annotated[
        str | None,
        typer.Option(
            "--announce-new",
            parser=_host_and_port,
            metavar="HOST:PORT",
            help="Where the old server finds the new one with --reverse.",
            show_default=False,
        ),
    ] = None,
    old_password: Annotated[
        str | None,
        typer.Option(
            envvar="HEADRACE_OLD_PASSWORD", help="Of the old server, instead of the url's.", show_default=False
        ),
    ] = None,
    new_password: Annotated[
        str | None,
        typer.Option(
            envvar="HEADRACE_NEW_PASSWORD", help="Of the new server, instead of the url's.", show_default=False
        ),
    ] = None,
    timeout: Annotated[
        int,
        typer.Option(
            "--timeout",
            parser=duration_ms,
            metavar="DURATION",
            help="Give up where the new server has not everything by then; 0: never.",
        ),
    ] = "0",  # type: ignore[assignment]  # typer parses the default, too
    longest_pause: Annotated[
        int,
        typer.Option(
            "--longest-pause",
            parser=duration_ms,
            metavar="DURATION",
            help="How long writes may wait at the switch.",
        ),
    ] = "10s",  # type: ignore[assignment]
    yes: Yes = False,
) -> None:
    """Move."""
    from headrace.cli.migrate.migrating import MigrateOptions, run_migrate  # noqa: PLC0415 — only when it runs

    if check and (no_switch or reverse or replace):
        raise typer.BadParameter("--check changes nothing: leave out --no-switch, --reverse and --replace.")
    if no_switch and reverse:
        raise typer.BadParameter("--reverse belongs to the switch: say it with the call that switches.")
    options = MigrateOptions(
        check=check,
        switch=not no_switch,
        reverse=reverse,
        replace=replace,
        leave_out=leave_out,
        announce=announce,
        announce_new=announce_new,
        timeout_ms=timeout,
        pause_ms=longest_pause,
        yes=yes,
    )
    raise typer.Exit(run_migrate((old, old_password), (new, new_password), options))
