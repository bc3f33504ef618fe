"""The declaration of `headrace inspect`."""

from pathlib import Path
from typing import Annotated, Final

import typer

from headrace.cli.address import ServerAddress, stream_names
from headrace.cli.command import AsJson, declared

INSPECT_HELP: Final = """Draw a stream as it is stored: its rax, its nodes, and one listpack byte by byte.

The stream is one of a live server (Headrace or Redis), which DUMP brings over, or of a file: a DUMP payload, an RDB
file, an append-only file, a segment, or a data directory. Nothing is changed.

For example:

\b
  headrace inspect devmsg
  headrace inspect devmsg --node 1526919030474-55
  headrace inspect --file dump.rdb devmsg
  headrace inspect --file data devmsg --json
  headrace inspect devmsg --payload --all
"""


@declared
def inspect(
    *,
    key: Annotated[
        str | None,
        typer.Argument(
            help="The stream; may be left out where a file has only one.",
            show_default=False,
            autocompletion=stream_names,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", help="Take it from a file or directory, not a server.", show_default=False),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option("--node", help="Draw the node that this ID is or would be in; the first one.", show_default=False),
    ] = None,
    payload: Annotated[bool, typer.Option("--payload", help="Draw the whole DUMP payload, not one node.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Leave nothing out, however long it gets.")] = False,
    as_json: AsJson = False,
    server: ServerAddress,
) -> None:
    """Draw a stream."""
    from headrace.cli.inspect.inspecting import run_inspect  # noqa: PLC0415 — only when it runs

    run_inspect(server, key, file, node, payload=payload, everything=everything, as_json=as_json)
