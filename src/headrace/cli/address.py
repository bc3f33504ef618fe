"""The server and the streams that a command line names. `connecting` makes a client of the former.

The shell completes names of streams, if the server answers at once.
"""

from dataclasses import dataclass
from typing import Annotated, Final

import typer

DEFAULT_URL: Final = "redis://127.0.0.1:6379"

_COMPLETION_S: Final = 0.5
_MOST_NAMES: Final = 200


@dataclass(frozen=True)
class ServerAddress:
    """A url, and single options, which count more than the url."""

    url: Annotated[
        str,
        typer.Option(
            envvar="HEADRACE_URL",
            help="The server: redis://[user:password@]host:port/db, rediss:// for TLS, unix:///path, or "
            "sentinel://host:port,host:port/name.",
        ),
    ] = DEFAULT_URL
    host: Annotated[str | None, typer.Option(help="Instead of the url's.", show_default=False)] = None
    port: Annotated[int | None, typer.Option(help="Instead of the url's.", show_default=False)] = None
    user: Annotated[str | None, typer.Option(help="Who to log in as.", show_default=False)] = None
    password: Annotated[
        str | None, typer.Option(envvar="HEADRACE_PASSWORD", help="What to log in with.", show_default=False)
    ] = None
    db: Annotated[int | None, typer.Option(help="Which database.", show_default=False)] = None
    tls: Annotated[bool, typer.Option("--tls", help="Encrypt the connection.")] = False


def stream_names(context: typer.Context, incomplete: str) -> list[str]:
    """List the streams whose names begin with a text; none where no server answers."""
    from headrace.cli.connecting import connected, stream_keys  # noqa: PLC0415 — only when Tab is pressed
    from headrace.core.errors import HeadraceError  # noqa: PLC0415

    given = {name: context.params.get(name) for name in ("host", "port", "user", "password", "db")}
    address = ServerAddress(context.params.get("url") or DEFAULT_URL, tls=bool(context.params.get("tls")), **given)
    pattern = "".join(f"[{letter}]" if letter in "*?[\\" else letter for letter in incomplete) + "*"
    try:
        with connected(address, patience_s=_COMPLETION_S) as client:
            return sorted(key.decode("utf-8", "backslashreplace") for key in stream_keys(client, pattern, _MOST_NAMES))
    except HeadraceError:
        return []
