"""The declaration of `headrace console`."""

from pathlib import Path
from typing import Annotated, Final

import typer

from headrace.cli.address import DEFAULT_URL
from headrace.cli.command import declared
from headrace.cli.errors import CommandFailed

CONSOLE_HELP: Final = """Show a server in the browser: streams, entries, groups, dead letters, what is slow.

Works for Headrace, Redis 7 and Valkey. One logs in as a user of the server, and everything runs as that user, so that
the server's ACL rules are the console's. Needs the packages of `pip install 'headrace[console]'`.

For example:

\b
  headrace console
  headrace console --url redis://example:6379 --read-only
  headrace console --bind 0.0.0.0 --host-name console.example --tls-cert-file c.pem --tls-key-file k.pem
"""


@declared
def console(
    *,
    url: Annotated[
        str,
        typer.Option(
            envvar="HEADRACE_URL", help="The server: redis://host:port/db, rediss:// for TLS, or unix:///path."
        ),
    ] = DEFAULT_URL,
    port: Annotated[int, typer.Option(help="Where the console listens; 0: the system chooses.")] = 8080,
    bind: Annotated[str, typer.Option(help="The address; from other machines only with a password.")] = "127.0.0.1",
    host_name: Annotated[
        list[str] | None, typer.Option(help="A further name under which browsers reach it.", show_default=False)
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Show, and change nothing.")] = False,
    tls_cert_file: Annotated[Path | None, typer.Option(help="Serve by TLS.", show_default=False)] = None,
    tls_key_file: Annotated[Path | None, typer.Option(help="The key of it.", show_default=False)] = None,
) -> None:
    """Serve the console until it is told to stop."""
    try:
        from headrace.console.running import Place, run_console  # noqa: PLC0415 - its packages are an extra
    except ModuleNotFoundError as error:
        if error.name not in {"starlette", "uvicorn"}:
            raise
        raise CommandFailed(
            f"The console needs {error.name}, which is not installed: pip install 'headrace[console]'."
        ) from None
    place = Place(bind, port, tuple(host_name or ()), tls_cert_file, tls_key_file)
    run_console(url, place, read_only=read_only)
