"""Scripts: EVAL and its kin, and SCRIPT.

How a script runs is told in `headrace.engine.scripting.script_host`.
"""

from collections.abc import Callable
from typing import Final

from headrace.commands.arguments import numbered_keys
from headrace.commands.declaration.help import reply_help
from headrace.commands.declaration.table import Handler, command, container
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import CommandError

_RUNS: Final = (
    Flag.NO_SCRIPT | Flag.STALE | Flag.SKIP_MONITOR | Flag.NO_MANDATORY_KEYS | Flag.MOVABLE_KEYS | Flag.LENGTHY
)
_QUIET: Final = Flag.LOADING | Flag.STALE

# --- running -----------------------------------------------------------------------------------------------------


def runs(name_and_first: str, *, since: str, read_only: bool = False) -> Callable[[Handler], Handler]:
    """Declare the function below as a command that runs a script or a function with keys and arguments."""
    return command(
        f"{name_and_first} numkeys [key [key ...]] [arg [arg ...]]",
        arity=-3,
        flags=_RUNS | (Flag.READ if read_only else Flag.MAY_REPLICATE),
        find_keys=numbered_keys(2),
        since=since,
        group="scripting",
    )


def count_keys(call: Call) -> int:
    """Read how many of the words behind the third are keys."""
    keys = call.integer(2)
    if keys > call.argc - 3:
        raise CommandError(b"ERR Number of keys can't be greater than number of args")
    if keys < 0:
        raise CommandError(b"ERR Number of keys can't be negative")
    return keys


def _run(call: Call, *, by_text: bool, read_only: bool) -> None:
    keys = count_keys(call)
    scripts = call.engine.scripts
    script = scripts.load(call.argv[1], keep=False) if by_text else scripts.find(call.argv[1])
    if script is None:
        raise CommandError(b"NOSCRIPT No matching script. Please use EVAL.")
    scripts.run(call, script, keys, read_only=read_only)


@runs("eval script", since="2.6.0")
def eval_(call: Call) -> None:
    """Run a script in Lua, as one command, and reply what it returns."""
    _run(call, by_text=True, read_only=False)


@runs("evalsha sha1", since="2.6.0")
def evalsha(call: Call) -> None:
    """Run a script that was loaded before, named by the SHA-1 of its text."""
    _run(call, by_text=False, read_only=False)


@runs("eval_ro script", since="7.0.0", read_only=True)
def eval_ro(call: Call) -> None:
    """Run a script in Lua that may not write."""
    _run(call, by_text=True, read_only=True)


@runs("evalsha_ro sha1", since="7.0.0", read_only=True)
def evalsha_ro(call: Call) -> None:
    """Run a script that was loaded before and may not write."""
    _run(call, by_text=False, read_only=True)


# --- the cache ---------------------------------------------------------------------------------------------------

container("script", since="2.6.0", group="scripting", summary="Manage the scripts that the server knows.")


@command("script|load script", arity=3, flags=Flag.NO_SCRIPT | Flag.STALE, since="2.6.0", group="scripting")
def script_load(call: Call) -> None:
    """Compile a script for EVALSHA, without running it, and reply its SHA-1."""
    call.reply.bulk(call.engine.scripts.load(call.argv[2], keep=True).sha)


@command("script|exists sha1 [sha1 ...]", arity=-3, flags=Flag.NO_SCRIPT, since="2.6.0", group="scripting")
def script_exists(call: Call) -> None:
    """Reply for each SHA-1 whether the script is known."""
    call.reply.array(call.argc - 2)
    for sha in call.argv[2:]:
        call.reply.integer(sha in call.engine.scripts)


@command("script|flush [ASYNC|SYNC]", arity=-2, flags=Flag.NO_SCRIPT, since="2.6.0", group="scripting")
def script_flush(call: Call) -> None:
    """Forget every script."""
    if call.argc > 3 or (call.argc == 3 and call.argv[2].lower() not in (b"async", b"sync")):
        raise CommandError(b"ERR SCRIPT FLUSH only support SYNC|ASYNC option")
    call.engine.scripts.flush()
    call.reply.ok()


@command("script|kill", arity=2, flags=Flag.NO_SCRIPT | Flag.ALLOW_BUSY, since="2.6.0", group="scripting")
def script_kill(call: Call) -> None:
    """End the script that runs, if it has written nothing."""
    call.engine.script_host.kill(function=False)
    call.reply.ok()


@command("script|help", arity=2, flags=_QUIET, since="5.0.0", group="scripting")
def script_help(call: Call) -> None:
    """Reply what SCRIPT can do."""
    reply_help(call)
