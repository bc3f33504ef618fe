"""The commands of `headrace`: the server, and the tools for servers and their files.

Each is declared in a module that imports nothing heavy: `cli/serve.py`, or `command.py` of a package where more
belongs to the command.
"""

from typing import Annotated

import typer

import headrace
from headrace.cli.bench import BENCH_HELP, bench
from headrace.cli.check.command import CHECK_HELP, check
from headrace.cli.console import CONSOLE_HELP, console
from headrace.cli.convert.command import CONVERT_HELP, convert
from headrace.cli.dead.command import dead_app
from headrace.cli.demo import DEMO_HELP, demo
from headrace.cli.group.command import group_app
from headrace.cli.inspect.command import INSPECT_HELP, inspect
from headrace.cli.migrate.command import MIGRATE_HELP, migrate
from headrace.cli.pipeline.command import pipeline_app
from headrace.cli.policy.command import policy_app
from headrace.cli.serve import SERVE_HELP, serve
from headrace.cli.tail.command import TAIL_HELP, tail
from headrace.cli.top.command import TOP_HELP, top
from headrace.cli.transfer.command import EXPORT_HELP, LOAD_HELP, export, load

app = typer.Typer(
    name="headrace",
    help="A durable stream store that speaks the Redis Streams protocol.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


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


app.command(
    help=SERVE_HELP,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    options_metavar="[CONFIG] [--SETTING VALUE ...]",
)(serve)
app.command(help=DEMO_HELP, short_help="Show the way of messages, with two kills.")(demo)
app.command(help=TOP_HELP, short_help="Watch the streams of a server.")(top)
app.command(help=CONSOLE_HELP, short_help="Show a server in the browser.")(console)
app.command(help=TAIL_HELP, short_help="Print the end of streams, and what comes.")(tail)
app.add_typer(group_app, name="group")
app.add_typer(policy_app, name="policy")
app.add_typer(dead_app, name="dead")
app.command(help=INSPECT_HELP, short_help="Draw a stream as it is stored.")(inspect)
app.command(help=CHECK_HELP, short_help="Check the files of a data directory.")(check)
app.command(help=LOAD_HELP, short_help="Add the rows of a file to a stream.")(load)
app.command(help=EXPORT_HELP, short_help="Write a stream to a file.")(export)
app.command(help=CONVERT_HELP, short_help="Convert data on disk from one form to another.")(convert)
app.command(help=MIGRATE_HELP, short_help="Move from one server to another while clients write.")(migrate)
app.add_typer(pipeline_app)
app.command(help=BENCH_HELP, short_help="Measure how fast a stream server is.")(bench)
