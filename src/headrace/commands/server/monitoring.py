"""MONITOR: seeing every command that runs."""

from headrace.commands.declaration.table import command
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import CommandError


@command(
    "monitor",
    arity=1,
    flags=Flag.ADMIN | Flag.NO_SCRIPT | Flag.LOADING | Flag.STALE,
    since="1.0.0",
    group="server",
)
def monitor(call: Call) -> None:
    """Send this connection a line for every command from now on, but none of administration; RESET ends it."""
    if call.client.executing:
        raise CommandError(b"ERR MONITOR isn't allowed for DENY BLOCKING client")
    if call.client in call.engine.observers.monitors.clients:
        return
    call.engine.observers.monitors.add(call.client)
    call.reply.ok()
