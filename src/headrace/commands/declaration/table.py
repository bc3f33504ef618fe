"""The one table of commands: it executes, answers COMMAND, and documents.

A command is declared where it is written. Its syntax begins with its name (`xgroup|create` for a subcommand); what may
stand there is told in `headrace.commands.declaration.syntax`. Its docstring says what it does and replies; the first
paragraph is its summary.
"""

import inspect
from collections.abc import Callable
from typing import Final

from headrace.commands.declaration.client_hints import key_access
from headrace.engine.call import Call
from headrace.engine.command import Command

Handler = Callable[[Call], None]

TABLE: Final[dict[bytes, Command]] = {}

# Where the keys of most commands stand: first, last, step.
FIRST: Final = (1, 1, 1)
FIRST_TWO: Final = (1, 2, 1)
ALL: Final = (1, -1, 1)
SECOND: Final = (2, 2, 1)


def command(
    syntax: str,
    *,
    arity: int,
    flags: int,
    since: str,
    group: str,
    keys: tuple[int, int, int] | None = None,
    find_keys: Callable[[list[bytes]], list[bytes]] | None = None,
    reading: frozenset[bytes] | None = None,
) -> Callable[[Handler], Handler]:
    """Declare the function below as a command; `reading` are words behind a subcommand with which it only reads."""

    def declare(handler: Handler) -> Handler:
        name = syntax.split(" ", 1)[0].encode()
        declared = Command(
            name,
            handler,
            syntax=syntax,
            arity=arity,
            flags=int(flags),
            keys=keys,
            find_keys=find_keys,
            reading=reading,
            since=since,
            group=group,
            summary=" ".join(documentation(handler).split("\n\n", 1)[0].split()),
        )
        declared.access = key_access(declared)
        container, _, inner = name.partition(b"|")
        if inner:
            TABLE[container].subcommands[inner] = declared
        else:
            TABLE[name] = declared
        return handler

    return declare


def documentation(handler: Handler) -> str:
    """Return what a handler's docstring says; a compiled one begins with its signature."""
    text = inspect.cleandoc(handler.__doc__ or "")
    name = getattr(handler, "__name__", "")
    return text.partition("\n\n")[2] if text.startswith(f"{name}(") else text


def container(name: str, *, since: str, group: str, summary: str) -> None:
    """Declare a command that only its subcommands run."""
    TABLE[name.encode()] = Command(
        name.encode(), None, syntax=f"{name} subcommand", arity=-2, flags=0, since=since, group=group, summary=summary
    )
