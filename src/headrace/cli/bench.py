"""The declaration of `headrace bench`."""

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

BENCH_HELP: Final = """Measure how fast a stream server is.

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
    show_list: Annotated[bool, typer.Option("--list", help="List the workloads and exit.")] = False,
) -> None:
    """Measure a server."""
    from headrace.measuring.running import BenchOptions, list_workloads, run_bench  # noqa: PLC0415 — others do not need it

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
