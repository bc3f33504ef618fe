"""Functions: FCALL, and FUNCTION, which loads and manages the libraries that they are in.

What a library is, is told in `headrace.engine.scripting.functions`.
"""

from typing import Final

from headrace.commands.declaration.help import bad_subcommand, reply_help
from headrace.commands.declaration.table import command, container
from headrace.commands.scripting.scripts import count_keys, runs
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import CommandError
from headrace.engine.glob import matcher
from headrace.engine.scripting.functions import ENGINE
from headrace.engine.scripting.sandbox import FLAGS
from headrace.formats.errors import CorruptPayload, UnsupportedVersion, WrongChecksum
from headrace.formats.function_payload import dump_libraries, read_libraries

_WRITES: Final = Flag.WRITE | Flag.NO_SCRIPT
_POLICIES: Final = (b"flush", b"append", b"replace")


# --- running -----------------------------------------------------------------------------------------------------


def _run(call: Call, *, read_only: bool) -> None:
    functions = call.engine.functions
    if call.argv[1] not in functions:
        raise CommandError(b"ERR Function not found")
    try:
        call.integer(2)
    except CommandError:
        raise CommandError(b"ERR Bad number of keys provided") from None
    functions.run(call, call.argv[1], count_keys(call), read_only=read_only)


@runs("fcall function", since="7.0.0")
def fcall(call: Call) -> None:
    """Run a function of a library, as one command, and reply what it returns."""
    _run(call, read_only=False)


@runs("fcall_ro function", since="7.0.0", read_only=True)
def fcall_ro(call: Call) -> None:
    """Run a function that says of itself that it does not write."""
    _run(call, read_only=True)


# --- libraries ---------------------------------------------------------------------------------------------------

container("function", since="7.0.0", group="scripting", summary="Manage the libraries of functions.")


@command(
    "function|load [REPLACE] function-code",
    arity=-3,
    flags=_WRITES | Flag.DENY_OOM,
    since="7.0.0",
    group="scripting",
)
def function_load(call: Call) -> None:
    """Load a library, or replace one, and reply its name."""
    replace = False
    for word in call.argv[2:-1]:
        if word.lower() != b"replace":
            raise CommandError(b"ERR Unknown option given: " + word)
        replace = True
    name = call.engine.functions.load(call.argv[-1], replace=replace)
    call.changed()
    call.reply.bulk(name)


@command("function|delete library-name", arity=3, flags=_WRITES, since="7.0.0", group="scripting")
def function_delete(call: Call) -> None:
    """Delete a library and its functions."""
    call.engine.functions.delete(call.argv[2])
    call.changed()
    call.reply.ok()


@command("function|flush [ASYNC|SYNC]", arity=-2, flags=_WRITES, since="7.0.0", group="scripting")
def function_flush(call: Call) -> None:
    """Delete every library."""
    if call.argc > 3:
        raise bad_subcommand(call)
    if call.argc == 3 and call.argv[2].lower() not in (b"async", b"sync"):
        raise CommandError(b"ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
    call.engine.functions.flush()
    call.changed()
    call.reply.ok()


@command(
    "function|list [LIBRARYNAME library-name-pattern] [WITHCODE]",
    arity=-2,
    flags=Flag.NO_SCRIPT,
    since="7.0.0",
    group="scripting",
)
def function_list(call: Call) -> None:
    """Reply the libraries and their functions."""
    pattern, with_code = _read_list_options(call)
    wanted = matcher(b"*" if pattern is None else pattern, ignore_case=True)
    libraries = [library for library in call.engine.functions.libraries.values() if wanted(library.name)]
    reply = call.reply
    reply.array(len(libraries))
    for library in libraries:
        reply.map(4 if with_code else 3)
        reply.bulk(b"library_name")
        reply.bulk(library.name)
        reply.bulk(b"engine")
        reply.bulk(ENGINE)
        reply.bulk(b"functions")
        reply.array(len(library.functions))
        for function in library.functions.values():
            reply.map(3)
            reply.bulk(b"name")
            reply.bulk(function.name)
            reply.bulk(b"description")
            if function.description is None:
                reply.null()
            else:
                reply.bulk(function.description)
            reply.bulk(b"flags")
            reply.set(len(function.flags))
            for flag in sorted(function.flags, key=FLAGS.index):
                reply.simple(flag)
        if with_code:
            reply.bulk(b"library_code")
            reply.bulk(library.code)


def _read_list_options(call: Call) -> tuple[bytes | None, bool]:
    pattern, with_code = None, False
    words = iter(call.argv[2:])
    for word in words:
        if word.lower() == b"withcode" and not with_code:
            with_code = True
        elif word.lower() == b"libraryname" and pattern is None:
            pattern = next(words, None)
            if pattern is None:
                raise CommandError(b"ERR library name argument was not given")
        else:
            raise CommandError(b"ERR Unknown argument " + word)
    return pattern, with_code


@command("function|stats", arity=2, flags=Flag.NO_SCRIPT | Flag.ALLOW_BUSY, since="7.0.0", group="scripting")
def function_stats(call: Call) -> None:
    """Reply which function runs, and how many there are."""
    functions, run, reply = call.engine.functions, call.engine.script_host.running, call.reply
    reply.map(2)
    reply.bulk(b"running_script")
    if run is None or not run.is_function:
        reply.null()
    else:
        reply.map(3)
        reply.bulk(b"name")
        reply.bulk(run.name)
        reply.bulk(b"command")
        reply.array(len(run.argv))
        for word in run.argv:
            reply.bulk(word)
        reply.bulk(b"duration_ms")
        reply.integer(run.took_ms)
    reply.bulk(b"engines")
    reply.map(1)
    reply.bulk(ENGINE)
    reply.map(2)
    reply.bulk(b"libraries_count")
    reply.integer(len(functions.libraries))
    reply.bulk(b"functions_count")
    reply.integer(functions.count)


@command("function|kill", arity=2, flags=Flag.NO_SCRIPT | Flag.ALLOW_BUSY, since="7.0.0", group="scripting")
def function_kill(call: Call) -> None:
    """End the function that runs, if it has written nothing."""
    call.engine.script_host.kill(function=True)
    call.reply.ok()


@command("function|dump", arity=2, flags=Flag.NO_SCRIPT, since="7.0.0", group="scripting")
def function_dump(call: Call) -> None:
    """Reply all libraries in a form that FUNCTION RESTORE takes."""
    codes = [library.code for library in call.engine.functions.libraries.values()]
    call.reply.bulk(dump_libraries(codes, compress=call.engine.config["rdbcompression"]))


@command(
    "function|restore serialized-value [FLUSH|APPEND|REPLACE]",
    arity=-3,
    flags=_WRITES | Flag.DENY_OOM,
    since="7.0.0",
    group="scripting",
)
def function_restore(call: Call) -> None:
    """Load the libraries of a dump, all or none; by default beside those that are there."""
    if call.argc > 4:
        raise bad_subcommand(call)
    policy = call.argv[3].lower() if call.argc == 4 else b"append"
    if policy not in _POLICIES:
        raise CommandError(b"ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.")
    try:
        codes = read_libraries(call.argv[2])
    except (UnsupportedVersion, WrongChecksum):
        raise CommandError(b"ERR DUMP payload version or checksum are wrong") from None
    except CorruptPayload:
        raise CommandError(b"ERR given type is not a function") from None
    call.engine.functions.restore(codes, policy)
    call.changed()
    call.reply.ok()


@command("function|help", arity=2, flags=Flag.LOADING | Flag.STALE, since="7.0.0", group="scripting")
def function_help(call: Call) -> None:
    """Reply what FUNCTION can do."""
    reply_help(call)
