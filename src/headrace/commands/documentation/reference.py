"""docs/commands.md, written from the table; `make docs` runs this."""

import sys
from typing import Final

from headrace.commands.all import TABLE
from headrace.commands.declaration.table import Handler, documentation
from headrace.engine.command import Command

# In the order of the pages.
TITLES: Final = {
    "stream": "Streams",
    "headrace": "Packed streams",
    "generic": "Keys",
    "string": "Strings",
    "bitmap": "Bits",
    "hyperloglog": "Counting about",
    "list": "Lists",
    "set": "Sets",
    "sorted-set": "Sorted sets",
    "hash": "Hashes",
    "geo": "Places on the earth",
    "pubsub": "Publishing and subscribing",
    "transactions": "Transactions",
    "connection": "Connections",
    "server": "The server",
    "scripting": "Scripts",
    "cluster": "The cluster",
}
_HEAD: Final = """\
# Commands

Every command that Headrace knows, in the words of its source; `make docs` writes this page.
Names and options may be written in any case. `[…]` may be left out, `a|b` is a choice, `...` repeats.
*Since* is the version of Redis that brought the command, or of Headrace for those of its own.
"""


def page() -> str:
    """Write the page."""
    parts = [_HEAD]
    groups = sorted({command.group for command in TABLE.values()}, key=list(TITLES).index)
    for group in groups:
        parts.append(f"## {TITLES[group]}\n")
        parts += [_entry(command) for _, command in sorted(TABLE.items()) if command.group == group]
    return "\n".join(parts)


def _entry(command: Command) -> str:
    """Write the sections of a command and its subcommands; one that only its subcommands run has none of its own."""
    inner = [each for _, each in sorted(command.subcommands.items())]
    return "\n".join(_section(each, each.handler) for each in (command, *inner) if each.handler is not None)


def _section(command: Command, handler: Handler) -> str:
    name, _, arguments = command.syntax.partition(" ")
    shown = name.upper().replace("|", " ")
    syntax = f"{shown} {arguments}".rstrip()
    return f"### {shown}\n\n    {syntax}\n\n{documentation(handler)}\n\n*Since {command.since}.*\n"


if __name__ == "__main__":
    sys.stdout.write(page())
