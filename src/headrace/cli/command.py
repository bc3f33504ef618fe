"""How our commands are declared: one parameter for the server, and a quiet end when somebody presses Ctrl-C.

    @declared
    def top(*, server: ServerAddress, once: Annotated[bool, typer.Option("--once")] = False) -> None: …

In a declared function a parameter of the type `ServerAddress` becomes the options that name a server (`--url`,
`--host`, `--port`, `--user`, `--password`, `--db`, `--tls`), so that every command has the same and none lists them.
Nothing heavy is imported here: `headrace --help` and `headrace serve` read these declarations, too.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from headrace.cli.address import DEFAULT_URL, ServerAddress

INTERRUPTED: Final = 130  # as shells say it

_PANEL: Final[dict[str, tuple[Any, Any]]] = {
    "url": (
        Annotated[
            str,
            typer.Option(
                "--url",
                envvar="HEADRACE_URL",
                help="The server: redis://[user:password@]host:port/db, rediss:// for TLS, unix:///path.",
            ),
        ],
        DEFAULT_URL,
    ),
    "host": (Annotated[str | None, typer.Option("--host", help="Instead of the url's.", show_default=False)], None),
    "port": (Annotated[int | None, typer.Option("--port", help="Instead of the url's.", show_default=False)], None),
    "user": (Annotated[str | None, typer.Option("--user", help="Who to log in as.", show_default=False)], None),
    "password": (
        Annotated[
            str | None,
            typer.Option("--password", envvar="HEADRACE_PASSWORD", help="What to log in with.", show_default=False),
        ],
        None,
    ),
    "db": (Annotated[int | None, typer.Option("--db", help="Which database.", show_default=False)], None),
    "tls": (Annotated[bool, typer.Option("--tls", help="Encrypt the connection.")], False),
}

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def declared(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function what typer can register; see the module."""
    signature = inspect.signature(function, eval_str=True)
    takes = next((name for name, each in signature.parameters.items() if each.annotation is ServerAddress), None)

    @functools.wraps(function)
    def run(**given: Any) -> None:
        if takes is not None:
            given[takes] = ServerAddress(**{name: given.pop(name) for name in _PANEL})
        try:
            function(**given)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    parameters = [each for name, each in signature.parameters.items() if name != takes]
    if takes is not None:
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for name, (annotation, default) in _PANEL.items()
        ]
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
