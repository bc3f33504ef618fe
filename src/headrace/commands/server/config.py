"""CONFIG: the settings, seen and changed while the server runs."""

import os

from headrace.commands.declaration.help import reply_help
from headrace.commands.declaration.table import command, container
from headrace.engine.acl.rules import Reason
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.configuration.config import ChangeRefused, UnknownSetting
from headrace.engine.errors import SYNTAX, CommandError

_FLAGS = Flag.ADMIN | Flag.NO_SCRIPT | Flag.LOADING | Flag.STALE

container("config", since="2.0.0", group="server", summary="See and change the configuration.")


@command("config|get parameter [parameter ...]", arity=-3, flags=_FLAGS, since="2.0.0", group="server")
def config_get(call: Call) -> None:
    """Reply the settings whose names match the patterns, and their values."""
    found = call.engine.config.shown(map(os.fsdecode, call.argv[2:]))
    call.reply.map(len(found))
    for name, value in found.items():
        call.reply.bulk(os.fsencode(name))
        call.reply.bulk(os.fsencode(value))


@command("config|set parameter value [parameter value ...]", arity=-4, flags=_FLAGS, since="2.0.0", group="server")
def config_set(call: Call) -> None:
    """Change settings, all of them or, where one is refused, none."""
    if call.argc % 2:
        raise CommandError(SYNTAX)
    config = call.engine.config
    words = list(map(os.fsdecode, call.argv[2:]))
    changes = list(zip(words[::2], words[1::2], strict=True))
    for at, (name, _) in enumerate(changes):
        setting = config.settings.get(name.lower())
        if setting is not None and setting.secret:
            call.argv[3 + 2 * at] = b"(redacted)"  # the slow log must not show it
    permission = config["enable-protected-configs"]
    try:
        config.set_many(changes, guarded=permission == "yes" or (permission == "local" and call.client.is_local))
    except UnknownSetting as unknown:
        raise CommandError(
            b"ERR Unknown option or number of arguments for CONFIG SET - '%s'" % os.fsencode(unknown.name)
        ) from None
    except ChangeRefused as refusal:
        raise CommandError(
            b"ERR CONFIG SET failed (possibly related to argument '%s') - %s"
            % (os.fsencode(refusal.name), os.fsencode(refusal.reason))
        ) from None
    call.reply.ok()


@command("config|resetstat", arity=2, flags=_FLAGS, since="2.0.0", group="server")
def config_resetstat(call: Call) -> None:
    """Set back what INFO counts."""
    call.engine.stats.reset()
    call.engine.users.log.denied = dict.fromkeys(Reason, 0)
    for declared in call.engine.commands.table.values():
        declared.forget_calls()
        for inner in declared.subcommands.values():
            inner.forget_calls()
    call.reply.ok()


@command("config|rewrite", arity=2, flags=_FLAGS, since="2.8.0", group="server")
def config_rewrite(call: Call) -> None:
    """Write the settings in force into the file that the server was started with; comments and order stay."""
    rewrite = call.engine.config.rewrite_file
    if rewrite is None:
        raise CommandError(b"ERR The server is running without a config file")
    try:
        rewrite()
    except OSError as error:
        raise CommandError(b"ERR Rewriting config file: %s" % os.fsencode(error.strerror or str(error))) from None
    call.reply.ok()


@command("config|help", arity=2, flags=Flag.LOADING | Flag.STALE, since="5.0.0", group="server")
def config_help(call: Call) -> None:
    """Reply what CONFIG can do."""
    reply_help(call)
