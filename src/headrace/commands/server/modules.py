"""MODULE: what is loaded into the server, which is nothing."""

from headrace.commands.declaration.help import reply_help
from headrace.commands.declaration.table import command, container
from headrace.engine.call import Call
from headrace.engine.command import Flag

container("module", since="4.0.0", group="server", summary="Look at modules, of which there are none.")


@command("module|list", arity=2, flags=Flag.ADMIN | Flag.NO_SCRIPT, since="4.0.0", group="server")
def module_list(call: Call) -> None:
    """Reply the modules that are loaded: none."""
    call.reply.array(0)


@command("module|help", arity=2, flags=Flag.LOADING | Flag.STALE, since="5.0.0", group="server")
def module_help(call: Call) -> None:
    """Reply what MODULE can do."""
    reply_help(call)
