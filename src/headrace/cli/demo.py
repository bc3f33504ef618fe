"""The declaration of `headrace demo`."""

from pathlib import Path
from typing import Annotated, Final

import typer

DEMO_HELP: Final = """Show the whole road, with two kills on the way, and count every message at the end.

Devices send telemetry to a server on a fresh directory. A group of three workers processes it, and one of them is
killed; Spark archives it in Parquet and computes windows per device; the server is killed with -9, and comes back. It
takes about two minutes, and exits with status 1 where a message is lost or counted twice.

For example:

\b
  headrace demo
  headrace demo --messages 20000 --seconds 10 --no-spark
"""


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
    from headrace.demo.running import run_demo  # noqa: PLC0415 — the other commands do not need it

    raise typer.Exit(run_demo(messages, seconds, devices, directory, spark=spark, as_json=as_json))
