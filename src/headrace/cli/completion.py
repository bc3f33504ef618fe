"""Completion of stream names in the shell: those of the server, if it answers at once."""

from typing import Final

import typer

_PATIENCE_S: Final = 0.5
_MOST: Final = 200


def stream_names(context: typer.Context, incomplete: str) -> list[str]:
    """List the streams whose names begin with a text; none where no server answers."""
    from headrace.cli.address import DEFAULT_URL, ServerAddress  # noqa: PLC0415 — asked for at a key press only
    from headrace.cli.connecting import connected, stream_keys  # noqa: PLC0415
    from headrace.core.errors import HeadraceError  # noqa: PLC0415

    given = {name: context.params.get(name) for name in ("host", "port", "user", "password", "db")}
    address = ServerAddress(context.params.get("url") or DEFAULT_URL, tls=bool(context.params.get("tls")), **given)
    pattern = "".join(f"[{letter}]" if letter in "*?[\\" else letter for letter in incomplete) + "*"
    try:
        with connected(address, patience_s=_PATIENCE_S) as client:
            return sorted(key.decode("utf-8", "backslashreplace") for key in stream_keys(client, pattern, _MOST))
    except HeadraceError:
        return []
