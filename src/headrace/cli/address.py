"""Where a server is, as a person names it. `connecting` makes a client of it."""

from dataclasses import dataclass
from typing import Annotated, Final

import typer

DEFAULT_URL: Final = "redis://127.0.0.1:6379"


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
