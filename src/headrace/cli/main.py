"""`headrace`: the server, and what there is for its files, from the command line."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

import headrace
from headrace.cli.convert.command import CONVERT_HELP, convert
from headrace.cli.group.command import group_app
from headrace.cli.inspect.command import INSPECT_HELP, inspect
from headrace.cli.pipeline import app as pipeline_app
from headrace.cli.tail.command import TAIL_HELP, tail
from headrace.cli.top.command import TOP_HELP, top
from headrace.cli.transfer.command import EXPORT_HELP, LOAD_HELP, export, load
from headrace.core.errors import HeadraceError

app = typer.Typer(
    name="headrace",
    help="A durable stream store that speaks the Redis Streams protocol.",
    no_args_is_help=True,
    add_completion=True,
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
  --appendonly yes        write everything to disk before it is acknowledged; no: keep it in memory
  --appendfsync always    or everysec, or no: how much a crash of the machine may take
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


_CHECK_HELP = """Check the files of a data directory, of Headrace or of Redis.

Reads the manifest, every value of the snapshots and every command of the append-only files, says what is wrong and
where, and leaves with 1 where something is. With --fix it writes a copy without the damage and says what is not in it.

For example:

\b
  headrace check data
  headrace check data --fix --output repaired
  headrace check data/dump.rdb --json
"""


_BENCH_HELP = """Measure how fast a stream server is.

Without --url it starts this Headrace on a port of its own, in memory, and stops it afterwards; --compare measures it
side by side with this machine's redis-server, or with the server at --url, in rounds that alternate. On a server at a
URL only keys that begin with headrace:bench: are written, and they are deleted at the end; it needs memory for
--messages messages and for what XADD writes in a round.

For example:

\b
  headrace bench --compare xadd xrange consume --pipeline 16
  headrace bench --url redis://:password@host:6379/0 xadd --fields 10 --value-size 100 --seconds 5
  headrace bench --compare --appendfsync always xadd --json > always.json
"""


_DEMO_HELP = """Show the whole road, with two kills on the way, and count every message at the end.

Devices send telemetry to a server on a fresh directory. A group of three workers processes it, and one of them is
killed; Spark archives it in Parquet and computes windows per device; the server is killed with -9, and comes back. It
takes about two minutes, and leaves with 1 where a message is lost or counted twice.

For example:

\b
  headrace demo
  headrace demo --messages 20000 --seconds 10 --no-spark
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


@app.command(help=_CHECK_HELP, short_help="Check the files of a data directory.")
def check(
    path: Annotated[Path, typer.Argument(help="A data directory, or one file of it.", show_default=False)],
    fix: Annotated[bool, typer.Option("--fix", help="Write a repaired copy; the original is only read.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Where the copy goes; PATH.fixed by default.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Verify a data directory."""
    from headrace.cli.check import run_check  # noqa: PLC0415 — the other commands do not need it

    raise typer.Exit(run_check(path, fix=fix, output=output, as_json=as_json))


@app.command(help=_BENCH_HELP)
def bench(  # noqa: PLR0917 — typer takes options from parameters
    workloads: Annotated[
        list[str] | None,
        typer.Argument(help="Which workloads, all by default; xrange is all that begin so.", show_default=False),
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", help="A server that runs: redis://… or unix://….", show_default=False)
    ] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Measure Headrace beside redis-server or --url.")] = False,
    appendfsync: Annotated[
        Literal["always", "everysec", "no"] | None,
        typer.Option("--appendfsync", help="Write to disk, in servers that are started.", show_default=False),
    ] = None,
    clients: Annotated[int, typer.Option("--clients", min=1, max=10_000, help="Connections at a time.")] = 50,
    pipeline: Annotated[int, typer.Option("--pipeline", min=1, max=10_000, help="Requests of XADD at a time.")] = 1,
    fields: Annotated[int, typer.Option("--fields", min=1, max=10_000, help="Fields of a message.")] = 1,
    value_size: Annotated[int, typer.Option("--value-size", min=1, max=1 << 20, help="Bytes of a value.")] = 10,
    messages: Annotated[
        int, typer.Option("--messages", min=1_000, help="Length of the streams that are read.")
    ] = 100_000,
    seconds: Annotated[float, typer.Option("--seconds", min=0.01, help="Length of a round.")] = 1.0,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Rounds of each workload and server.")] = 3,
    chart: Annotated[Path | None, typer.Option("--chart", help="Write a chart, as SVG.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print every round as JSON.")] = False,
    show_list: Annotated[bool, typer.Option("--list", help="List the workloads and leave.")] = False,
) -> None:
    """Measure a server."""
    from headrace.cli.bench import BenchOptions, list_workloads, run_bench  # noqa: PLC0415 — others do not need it

    options = BenchOptions(
        url=url,
        compare=compare,
        appendfsync=appendfsync,
        clients=clients,
        pipeline=pipeline,
        fields=fields,
        value_size=value_size,
        messages=messages,
        seconds=seconds,
        rounds=rounds,
        workloads=tuple(workloads or ()),
        as_json=as_json,
        chart=chart,
    )
    if show_list:
        list_workloads(options)
        return
    raise typer.Exit(run_bench(options))


@app.command(help=_DEMO_HELP)
def demo(
    *,
    messages: Annotated[int, typer.Option(min=1000, help="How many messages are sent.")] = 100_000,
    seconds: Annotated[float, typer.Option(min=5, max=3600, help="In how many seconds.")] = 40,
    devices: Annotated[int, typer.Option(min=1, max=100, help="By how many devices.")] = 8,
    directory: Annotated[
        Path | None,
        typer.Option(help="Where everything goes, new or empty; a temporary one by default.", show_default=False),
    ] = None,
    spark: Annotated[bool, typer.Option(help="With the part that needs Spark and Java.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON, and the rest as errors.")] = False,
) -> None:
    """Show the whole road."""
    from headrace.cli.demo import run_demo  # noqa: PLC0415 — the other commands do not need it

    raise typer.Exit(run_demo(messages, seconds, devices, directory, spark=spark, as_json=as_json))


app.command(help=TOP_HELP, short_help="Watch the streams of a server.")(top)
app.command(help=TAIL_HELP, short_help="Print the end of streams, and what comes.")(tail)
app.command(help=INSPECT_HELP, short_help="Draw a stream as it is stored.")(inspect)
app.command(help=LOAD_HELP, short_help="Add the rows of a file to a stream.")(load)
app.command(help=EXPORT_HELP, short_help="Write a stream to a file.")(export)
app.add_typer(pipeline_app)
app.add_typer(group_app, name="group")
app.command(help=CONVERT_HELP, short_help="Convert data on disk from one form to another.")(convert)


def main() -> None:
    """Run the command; what is wrong with it is one sentence."""
    try:
        app(prog_name="headrace")
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(1)


if __name__ == "__main__":
    main()
