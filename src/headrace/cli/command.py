"""How our commands are declared: options that belong together are one parameter, and Ctrl-C ends a command quietly.

    @declared
    def top(*, once: Annotated[bool, typer.Option("--once")] = False, server: ServerAddress) -> None: …

In a declared function a parameter whose type is a dataclass becomes the options that its fields are annotated with, in
its place: `ServerAddress` is `--url`, `--host`, `--port` and so on, so that every command has the same and none lists
them. Nothing heavy is imported here: `headrace --help` reads these declarations, too.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, get_type_hints

import typer

INTERRUPTED: Final = 130  # by Ctrl-C, as shells say it
ENDED: Final = 143  # by SIGTERM

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def declared(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function what typer can register; see the module."""
    signature = inspect.signature(function, eval_str=True)
    panels = {name: each.annotation for name, each in signature.parameters.items() if _is_panel(each)}

    @functools.wraps(function)
    def run(**given: Any) -> None:
        for name, panel in panels.items():
            given[name] = panel(**{field.name: given.pop(field.name) for field in dataclasses.fields(panel)})
        try:
            function(**given)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    parameters = [
        option
        for each in signature.parameters.values()
        for option in (_options(each.annotation) if _is_panel(each) else [each])
    ]
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _is_panel(parameter: inspect.Parameter) -> bool:
    return dataclasses.is_dataclass(parameter.annotation)


def _options(panel: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(panel, include_extras=True)
    for field in dataclasses.fields(panel):
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
