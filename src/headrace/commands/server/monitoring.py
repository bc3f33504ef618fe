"""Commands that have run: MONITOR shows all, SLOWLOG those that took longer than `slowlog-log-slower-than`."""

from itertools import islice

from headrace.commands.declaration.help import bad_subcommand, reply_help
from headrace.commands.declaration.table import command, container
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import CommandError

_FLAGS = Flag.ADMIN | Flag.LOADING | Flag.STALE
_DEFAULT_COUNT = 10
_BAD_COUNT = b"ERR count should be greater than or equal to -1"


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


container("slowlog", since="2.2.12", group="server", summary="See which commands were slow.")


@command("slowlog|get [count]", arity=-2, flags=_FLAGS, since="2.2.12", group="server")
def slowlog_get(call: Call) -> None:
    """Reply the newest slow commands, 10 or so many, -1 for all.

    Of each its number, when it began, how many microseconds it took, its arguments, and the address and name of its
    client.
    """
    count: int | None = _DEFAULT_COUNT
    if call.argc > 3:
        raise bad_subcommand(call)
    if call.argc == 3:
        count = call.integer(2, _BAD_COUNT)
        if count < -1:
            raise CommandError(_BAD_COUNT)
    slow = list(islice(call.engine.stats.slow_log, None if count == -1 else count))
    call.reply.array(len(slow))
    for number, second, microseconds, arguments, address, name in slow:
        call.reply.array(6)
        call.reply.integer(number)
        call.reply.integer(second)
        call.reply.integer(microseconds)
        call.reply.array(len(arguments))
        for argument in arguments:
            call.reply.bulk(argument)
        call.reply.bulk(address)
        call.reply.bulk(name)


@command("slowlog|len", arity=2, flags=_FLAGS, since="2.2.12", group="server")
def slowlog_len(call: Call) -> None:
    """Reply how many slow commands are kept."""
    call.reply.integer(len(call.engine.stats.slow_log))


@command("slowlog|reset", arity=2, flags=_FLAGS, since="2.2.12", group="server")
def slowlog_reset(call: Call) -> None:
    """Forget all slow commands."""
    call.engine.stats.slow_log.clear()
    call.reply.ok()


@command("slowlog|help", arity=2, flags=Flag.LOADING | Flag.STALE, since="6.2.0", group="server")
def slowlog_help(call: Call) -> None:
    """Reply what SLOWLOG can do."""
    reply_help(call)
