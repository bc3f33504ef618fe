"""`headrace`: the server, from the command line."""

import sys
from typing import Annotated

import typer

import headrace
from headrace.core.errors import HeadraceError

app = typer.Typer(
    name="headrace",
    help="A durable stream store that speaks the Redis Streams protocol.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

_SERVE_HELP = """Serve the Redis protocol.

Takes a configuration file in redis.conf syntax (or - for standard input), then any setting of it as a flag, as
redis-server does. The most used:

\b
  --port 6379             TCP port; 0: none
  --bind 127.0.0.1 -::1   addresses; with a dash, only if there is such a one
  --unixsocket PATH       a unix socket to listen on, too
  --dir .                 the data directory
  --requirepass PASSWORD  clients have to authenticate
  --protected-mode yes    without a password, serve only this machine
  --maxclients 10000      connections at a time
  --maxmemory 0           refuse writes from here on, such as 4gb; 0: never
  --timeout 0             close connections idle for so many seconds; 0: never
  --databases 16          how many there are
  --loglevel notice       debug, verbose, notice, warning or nothing
  --logfile PATH          where to log; standard output by default

For example:

\b
  headrace serve --port 7000
  headrace serve /etc/headrace.conf --loglevel verbose
"""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headrace {headrace.__version__}")
        raise typer.Exit


@app.callback()
def start(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Take the options in front of a command."""


@app.command(
    help=_SERVE_HELP,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    options_metavar="[CONFIG] [--SETTING VALUE ...]",
)
def serve(context: typer.Context) -> None:
    """Run a server until it is told to stop."""
    from headrace.server.server import serve as run_server  # noqa: PLC0415 — the other commands do not need it

    run_server(context.args)


def main() -> None:
    """Run the command; what is wrong with it is one sentence."""
    try:
        app(prog_name="headrace")
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(1)


if __name__ == "__main__":
    main()
