"""HELP of a container command, from the table; and the refusal that points to it."""

import textwrap

from headrace.commands.declaration.table import TABLE
from headrace.engine.call import Call
from headrace.engine.errors import CommandError, quoted


def reply_help(call: Call) -> None:
    """Reply what the container can do: each subcommand's syntax, and what it is for."""
    name = call.command.name.partition(b"|")[0]
    lines = [f"{name.decode().upper()} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"]
    for inner, command in sorted(TABLE[name].subcommands.items()):
        if inner == b"help":
            continue
        _, _, arguments = command.syntax.partition(" ")
        lines.append(f"{inner.decode().upper()} {arguments}".rstrip())
        lines += textwrap.wrap(command.summary, 76, initial_indent="    ", subsequent_indent="    ")
    lines += ["HELP", "    Print this help."]
    call.reply.array(len(lines))
    for line in lines:
        call.reply.simple(line.encode())


def bad_subcommand(call: Call) -> CommandError:
    """Refuse arguments that a subcommand does not take, where the arity alone did not."""
    container = call.command.name.partition(b"|")[0]
    return CommandError(
        b"ERR unknown subcommand or wrong number of arguments for '%s'. Try %s HELP."
        % (quoted(call.argv[1])[:128], container.upper())
    )
