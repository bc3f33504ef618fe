"""What runs scripts and functions: one of them at a time, as one command.

    EVAL, FCALL ──► runs in a sandbox ──► its reply
                       │ redis.call
                       └──► a client of its own: same user and database, no waits

It sees one moment, nothing runs in between, and its effects are those of the commands that it ran, handed over
together. `redis.set_repl` is accepted and changes nothing: what a script wrote must last.

One that runs longer than `busy-reply-threshold` lets the host have its turn, if it has one, and can be killed as long
as it has written nothing; without a host, no client could kill it, and it ends itself.
"""

import time
from collections.abc import Callable
from hashlib import sha1
from typing import Any, Final

from headrace.engine import REDIS_VERSION
from headrace.engine.call import Call
from headrace.engine.engine import Engine
from headrace.engine.errors import BUSY, BUSY_FUNCTION, CommandError
from headrace.engine.scripting.errors import ScriptFailed, ScriptKilled, ScriptRefusal
from headrace.engine.scripting.sandbox import LuaSandbox
from headrace.engine.scripting.script_run import ScriptRun

_UNKILLABLE: Final = (
    b"UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script "
    b"termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
)
_NEEDS_MEMORY: Final = b"OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"
_KILLED: Final = b"ERR Script killed by user with SCRIPT KILL..."  # whichever of the two commands it was
_LOAD_S: Final = 0.5  # that the code of a library may take to register its functions …
_RELOAD_S: Final = 30.0  # … and where it did so before, and comes from a file


class ScriptHost:
    """Runs the scripts and functions of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.running: ScriptRun | None = None
        self._load_until: float | None = None
        self.log: Callable[[int, bytes], None] | None = None  # the host's: takes a level, 0 to 3, and a text

    def make_sandbox(self, *, for_functions: bool) -> LuaSandbox:
        """Start a Lua for scripts, or one for functions, whose table `redis` has less."""
        redis = self._redis_table()
        if for_functions:
            for name in (b"breakpoint", b"debug", b"replicate_commands"):
                del redis[name]
        return LuaSandbox(
            redis,
            limit=lambda: self._engine.config["lua-memory-limit"],
            look_at_clock=self._look_at_clock,
            note_bug=lambda bug: self._engine.hooks.failure(b"fcall" if for_functions else b"eval", bug),
        )

    # --- running -----------------------------------------------------------------------------------------------

    @property
    def _run(self) -> ScriptRun:
        """The script that runs; only what a script calls asks for it."""
        assert self.running is not None  # noqa: S101
        return self.running

    def run(
        self,
        call: Call,
        sandbox: LuaSandbox,
        function: Any,
        flags: frozenset[bytes] | None,
        *,
        name: bytes,
        keys: int,
        read_only: bool,
        last_return: int = 0,
        is_function: bool,
    ) -> None:
        """Run a script or a function as a command of a client, and reply what it returns.

        `flags` is None where it does not say any, `keys` is how many of the arguments are keys, `last_return` the line
        of a script that errors name where Lua does not know it.
        """
        if flags is not None:
            if read_only and b"no-writes" not in flags:
                raise CommandError(b"ERR Can not execute a script with write flag using *_ro command.")
            read_only = b"no-writes" in flags
            if self._engine.refusals.over_memory and not read_only and b"allow-oom" not in flags:
                raise CommandError(_NEEDS_MEMORY)
            if not read_only and self._engine.refusals.writes is not None and not self._engine.applying:
                raise CommandError(self._engine.refusals.writes)
        stale = self._engine.refusals.stale
        if stale is not None and not self._engine.applying and b"allow-stale" not in (flags or ()):
            raise CommandError(stale)
        call.emit_nothing()
        may_grow = flags is not None and b"allow-oom" in flags
        run = self.running = ScriptRun(call, name, is_function=is_function, read_only=read_only, may_grow=may_grow)
        try:
            arguments = call.argv[3:]
            reply = sandbox.run(
                run, function, arguments[:keys], arguments[keys:], protocol=call.reply.protocol, last_return=last_return
            )
        except ScriptFailed as failure:
            if run.missed is not None:
                raise run.missed from None
            error = failure.text
            place = b"" if failure.place is None else b" script: %s, on %s." % (name, failure.place)
            call.reply.error(error + place)
        else:
            error = reply[1:-2] if reply.startswith(b"-") else b""
            call.reply.errors += bool(error)
            call.reply.raw(reply)
        finally:
            self.running = None
        if error and error != run.last_error:  # that one was counted when the command failed
            self._engine.stats.count_error(error)

    def load_library(self, sandbox: LuaSandbox, source: bytes) -> dict[bytes, Any]:
        """Run the code of a library, which may take only so long, and return what it registers."""
        self._load_until = time.monotonic() + (_RELOAD_S if self._engine.applying else _LOAD_S)
        try:
            return sandbox.load_library(source)
        except ScriptFailed as failure:
            raise CommandError(failure.text) from None
        finally:
            self._load_until = None

    def _look_at_clock(self) -> None:
        if self.running is not None:
            self.running.look_at_clock()
        elif self._load_until is not None and time.monotonic() > self._load_until:
            raise ScriptKilled(b"ERR FUNCTION LOAD timeout")

    @property
    def has_written(self) -> bool:
        """Whether a script that is not over has changed data, or may have."""
        return self.running is not None and self.running.has_written

    def kill(self, *, function: bool) -> None:
        """Let the script, or the function, that runs end at its next look at the clock."""
        run = self.running
        if run is None:
            raise CommandError(b"NOTBUSY No scripts in execution right now.")
        if run.has_written:
            raise CommandError(_UNKILLABLE)
        if run.is_function != function:
            raise CommandError(BUSY_FUNCTION if run.is_function else BUSY)
        run.killed = _KILLED

    # --- the table `redis` of scripts --------------------------------------------------------------------------

    def _redis_table(self) -> dict[bytes, Any]:
        return {
            b"sha1hex": _sha1hex,
            b"log": self._log,
            b"setresp": self._set_protocol,
            b"set_repl": _set_replication,
            b"replicate_commands": lambda *_: True,
            b"breakpoint": lambda *_: False,
            b"debug": lambda *_: None,
            b"acl_check_cmd": self._check_permission,
            b"LOG_DEBUG": 0,
            b"LOG_VERBOSE": 1,
            b"LOG_NOTICE": 2,
            b"LOG_WARNING": 3,
            b"REPL_NONE": 0,
            b"REPL_AOF": 1,
            b"REPL_SLAVE": 2,
            b"REPL_REPLICA": 2,
            b"REPL_ALL": 3,
            b"REDIS_VERSION": REDIS_VERSION,
            b"REDIS_VERSION_NUM": int.from_bytes(bytes(map(int, REDIS_VERSION.split(b"."))), "big"),
        }

    def _log(self, *words: object) -> None:
        if len(words) < 2:
            raise ScriptRefusal(b"ERR redis.log() requires two arguments or more.")
        level = _number(words[0])
        if level is None:
            raise ScriptRefusal(b"ERR First argument must be a number (log level).")
        if not 0 <= level <= 3:
            raise ScriptRefusal(b"ERR Invalid debug level.")
        if self.log is not None:
            self.log(int(level), b" ".join(_text(word) for word in words[1:] if _is_text(word)))

    def _set_protocol(self, *words: object) -> None:
        if len(words) != 1:
            raise ScriptRefusal(b"ERR redis.setresp() requires one argument.")
        version = _number(words[0])
        if version not in (2, 3):
            raise ScriptRefusal(b"ERR RESP version must be 2 or 3.")
        self._run.client.reply.protocol = int(version)

    def _check_permission(self, *words: object) -> bool:
        if not words:
            raise ScriptRefusal(b"ERR Please specify at least one argument for this redis lib call")
        if not all(map(_is_text, words)):
            raise ScriptRefusal(b"ERR Lua redis lib command arguments must be strings or integers")
        argv = [_digits(word) for word in words]
        command = self._engine.commands.named_by(argv)
        if command is None or not command.accepts(len(argv)):
            raise ScriptRefusal(b"ERR Invalid command passed to redis.acl_check_cmd()")
        user = self._run.client.user
        return user is None or user.denial(command, argv) is None


# --- arguments of functions --------------------------------------------------------------------------------------


def _is_text(word: object) -> bool:
    return isinstance(word, bytes | int | float) and not isinstance(word, bool)


def _text(word: Any) -> bytes:
    """Print a number as Lua does."""
    return word if isinstance(word, bytes) else b"%.14g" % word


def _number(word: object) -> float | None:
    """Read a number as Lua does."""
    if isinstance(word, bool) or not isinstance(word, bytes | int | float):
        return None
    try:
        return float(word)
    except ValueError:
        return None


def _sha1hex(*words: object) -> bytes:
    if len(words) != 1:
        raise ScriptRefusal(b"ERR wrong number of arguments")
    return sha1(_text(words[0]) if _is_text(words[0]) else b"", usedforsecurity=False).hexdigest().encode()


def _set_replication(*words: object) -> None:
    if len(words) != 1:
        raise ScriptRefusal(b"ERR redis.set_repl() requires two arguments.")
    if _number(words[0]) not in (0, 1, 2, 3):
        raise ScriptRefusal(b"ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")


def _digits(word: Any) -> bytes:
    """Print a number as an argument of a command, with all the digits that it has."""
    return word if isinstance(word, bytes) else b"%.17g" % word
