"""DEBUG, for test suites; `enable-debug-command` decides who may run it."""

import logging
import re
import time
from collections.abc import Callable
from typing import Final

from headrace.commands.declaration.help import bad_subcommand
from headrace.commands.declaration.table import command
from headrace.core.stream import Stream
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import NO_SUCH_KEY, CommandError
from headrace.engine.values import kind_of

_LOG = logging.getLogger(__name__)
_NUMBER: Final = re.compile(rb"\s*[+-]?\d*\.?\d+")

_ANY: Final = -1  # as many arguments as the action itself accepts

_HELP: Final = (
    b"DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    b"ERROR <string>",
    b"    Return a Redis protocol error with <string> as message.",
    b"LOADAOF",
    b"    Flush the append-only files to disk, and load the data from them.",
    b"LOG <message>",
    b"    Write <message> to the server log.",
    b"OBJECT <key>",
    b"    Show low level info about `key` and associated value.",
    b"RELOAD [NOSAVE]",
    b"    Save the data as a snapshot, unless told not to, and load it again.",
    b"SET-ACTIVE-EXPIRE <0|1>",
    b"    Setting it to 0 disables expiring keys in background when they are not accessed.",
    b"SLEEP <seconds>",
    b"    Stop the server for <seconds>. Decimals allowed.",
    b"HELP",
    b"    Print this help.",
)


@command(
    "debug subcommand [argument ...]",
    arity=-2,
    flags=Flag.ADMIN | Flag.NO_SCRIPT | Flag.LOADING | Flag.STALE | Flag.PROTECTED,
    since="1.0.0",
    group="server",
)
def debug(call: Call) -> None:
    """Do things that only tests need; DEBUG HELP lists them."""
    action, arguments = _ACTIONS.get(call.argv[1].lower(), (None, 0))
    if action is None or (call.argc != 2 + arguments and arguments != _ANY):
        raise bad_subcommand(call)
    action(call)


def _load_append_files(call: Call) -> None:
    call.engine.persistence.reload_append_files(in_transaction=call.client.executing)
    call.reply.ok()


def _reload(call: Call) -> None:
    options = [word.lower() for word in call.argv[2:]]
    if options not in ([], [b"nosave"]):
        raise CommandError(b"ERR DEBUG RELOAD only supports the NOSAVE option.")
    call.engine.persistence.reload(save=not options)
    call.reply.ok()


def _error(call: Call) -> None:
    raise CommandError(call.argv[2])


def _help(call: Call) -> None:
    call.reply.array(len(_HELP))
    for line in _HELP:
        call.reply.simple(line)


def _log(call: Call) -> None:
    _LOG.warning("DEBUG LOG: %s", call.argv[2].decode(errors="backslashreplace"))
    call.reply.ok()


def _object(call: Call) -> None:
    value = call.value(2)
    if value is None:
        raise CommandError(NO_SUCH_KEY)
    encoding = b"stream" if isinstance(value, Stream) else kind_of(value)
    call.reply.simple(b"Value at:0x%x refcount:1 encoding:%s" % (id(value), encoding))


def _set_active_expire(call: Call) -> None:
    call.engine.keyspace.active_expiry = call.argv[2] != b"0"
    call.reply.ok()


def _sleep(call: Call) -> None:
    number = _NUMBER.match(call.argv[2])
    time.sleep(max(float(number[0]), 0.0) if number is not None else 0.0)
    call.reply.ok()


# By name: what it does, and how many arguments it takes.
_ACTIONS: Final[dict[bytes, tuple[Callable[[Call], None], int]]] = {
    b"error": (_error, 1),
    b"help": (_help, 0),
    b"loadaof": (_load_append_files, 0),
    b"log": (_log, 1),
    b"object": (_object, 1),
    b"reload": (_reload, _ANY),
    b"set-active-expire": (_set_active_expire, 1),
    b"sleep": (_sleep, 1),
}
