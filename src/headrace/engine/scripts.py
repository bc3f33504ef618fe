"""Scripts: their cache, and one of them running.

    EVAL text ──► SHA-1 ──► compiled, kept ──► runs in the sandbox ──► its reply
                                                  │ redis.call
                                                  └──► a client of the script's own: same user and database, no waits

A script is one command: it sees one moment, nothing runs in between, and its effects are those of the commands that it
ran, handed over together. `redis.set_repl` is accepted and changes nothing: what a script wrote must last.

A script that runs longer than `busy-reply-threshold` lets the host have its turn, if it has one, and can be killed as
long as it has written nothing; without a host, nobody could kill it, and it ends itself.

Scripts that only EVAL brought are forgotten when there are too many, the longest unused first; SCRIPT LOAD is for good.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha1
from typing import Any, Final

from headrace.engine.call import Call
from headrace.engine.client import Client
from headrace.engine.command import Flag
from headrace.engine.engine import Engine
from headrace.engine.errors import OUT_OF_MEMORY, CommandError
from headrace.engine.lua_sandbox import LuaSandbox, ScriptFailed, ScriptKilled, ScriptRefusal
from headrace.engine.lua_values import ReplyReader
from headrace.engine.version import REDIS_VERSION

_PASSING: Final = 500  # scripts of EVAL that are kept
_FLAGS: Final = {b"allow-oom", b"allow-stale", b"no-cluster", b"no-writes", b"allow-cross-slot-keys"}

KILLED: Final = b"ERR Script killed by user with SCRIPT KILL..."
_TOO_LONG: Final = (
    b"ERR the script ran longer than busy-reply-threshold, and nobody could have killed it here: it was ended"
)
_UNKILLABLE: Final = (
    b"UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the script "
    b"termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
)
_NEEDS_MEMORY: Final = b"OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"
_NO_ARGUMENTS: Final = b"ERR Please specify at least one argument for this redis lib call"
_BAD_ARGUMENTS: Final = b"ERR Lua redis lib command arguments must be strings or integers"
_BAD_TEXT: Final = b"ERR wrong number or type of arguments"


@dataclass(frozen=True)
class Script:
    """A compiled script; `flags` is None where it does not begin with a line of them."""

    sha: bytes
    function: Any
    flags: frozenset[bytes] | None


class Scripts:
    """The scripts of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sandbox: LuaSandbox | None = None
        self._kept: dict[bytes, Script] = {}
        self._passing: OrderedDict[bytes, None] = OrderedDict()  # of those, the ones that only EVAL brought
        self.evicted = 0
        self.running: Run | None = None
        self.log: Callable[[int, bytes], None] | None = None  # the host's: takes a level, 0 to 3, and a text

    # --- the cache ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, sha: bytes) -> bool:
        return sha.lower() in self._kept

    @property
    def memory(self) -> int:
        """How many bytes Lua holds."""
        return self._sandbox.memory if self._sandbox is not None else 0

    def find(self, sha: bytes) -> Script | None:
        """Return a script that was loaded before."""
        script = self._kept.get(sha.lower())
        if script is not None and script.sha in self._passing:
            self._passing.move_to_end(script.sha)
        return script

    def load(self, source: bytes, *, keep: bool) -> Script:
        """Compile a script, unless it is known; `keep` it for good."""
        sha = sha1(source, usedforsecurity=False).hexdigest().encode()
        script = self.find(sha)
        if script is None:
            script = self._kept[sha] = self._compile(sha, source)
            self._passing[sha] = None
            if len(self._passing) > _PASSING:
                forgotten, _ = self._passing.popitem(last=False)
                del self._kept[forgotten]
                self.evicted += 1
        if keep:
            self._passing.pop(sha, None)
        return script

    def flush(self) -> None:
        """Forget every script, and the Lua that they were compiled for."""
        self._kept.clear()
        self._passing.clear()
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def _compile(self, sha: bytes, source: bytes) -> Script:
        flags = None
        if source.startswith(b"#!"):
            first, end, _ = source.partition(b"\n")
            if not end:
                raise CommandError(b"ERR Invalid script shebang")
            flags = _read_flags(first)
            source = source[len(first) :]  # the line itself stays, so that errors count lines as the author does
        try:
            return Script(sha, self._lua.compile(source), flags)
        except ScriptFailed as mistake:
            raise CommandError(b"ERR Error compiling script (new function): " + mistake.text) from None

    @property
    def _lua(self) -> LuaSandbox:
        if self._sandbox is None:
            self._sandbox = LuaSandbox(
                self._redis_table(),
                look_at_clock=lambda *_: self._run.look_at_clock(),
                has_booleans=lambda: self._run.client.reply.protocol == 3,
                note_bug=lambda bug: self._engine.failure_hook(b"eval", bug),
            )
        return self._sandbox

    # --- running -----------------------------------------------------------------------------------------------

    @property
    def _run(self) -> "Run":
        """The script that runs; only what a script calls asks for it."""
        assert self.running is not None  # noqa: S101
        return self.running

    def run(self, call: Call, script: Script, keys: list[bytes], arguments: list[bytes], *, read_only: bool) -> None:
        """Run a script as a command of a client, and reply what it returns."""
        flags = script.flags
        if flags is not None:
            if read_only and b"no-writes" not in flags:
                raise CommandError(b"ERR Can not execute a script with write flag using *_ro command.")
            read_only = b"no-writes" in flags
            if self._engine.over_memory and not read_only and b"allow-oom" not in flags:
                raise CommandError(_NEEDS_MEMORY)
        call.emit_nothing()
        may_grow = flags is not None and b"allow-oom" in flags
        run = self.running = Run(self._engine, call, read_only=read_only, may_grow=may_grow)
        try:
            reply = self._lua.run(script.function, keys, arguments, call.reply.protocol)
        except ScriptFailed as failure:
            error = failure.text
            place = b"" if failure.place is None else b" script: %s, on %s." % (script.sha, failure.place)
            call.reply.error(error + place)
        else:
            error = reply[1:-2] if reply.startswith(b"-") else b""
            call.reply.errors += bool(error)
            call.reply.raw(reply)
        finally:
            self.running = None
        if error and error != run.last_error:  # that one was counted when the command failed
            self._engine.stats.count_error(error)

    @property
    def has_written(self) -> bool:
        """Whether a script that is not over has changed data, or may have."""
        return self.running is not None and self.running.has_written

    def kill(self) -> None:
        """Let the script that runs end at its next look at the clock."""
        if self.running is None:
            raise CommandError(b"NOTBUSY No scripts in execution right now.")
        if self.has_written:
            raise CommandError(_UNKILLABLE)
        self.running.killed = True

    # --- the table `redis` of scripts --------------------------------------------------------------------------

    def _redis_table(self) -> dict[bytes, Any]:
        return {
            b"call": self._call,
            b"pcall": self._pcall,
            b"error_reply": self._error_reply,
            b"status_reply": self._status_reply,
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

    def _call(self, *words: object) -> Any:
        data = self._run.execute(_arguments(words))
        if data.startswith(b"-"):
            raise ScriptRefusal(data[1:-2])
        return ReplyReader(data, self._lua.table).read()

    def _pcall(self, *words: object) -> Any:
        try:
            data = self._run.execute(_arguments(words))
        except ScriptKilled:
            raise
        except ScriptRefusal as refusal:
            return self._lua.table({b"err": refusal.text})
        return ReplyReader(data, self._lua.table).read()

    def _error_reply(self, *words: object) -> Any:
        if len(words) != 1 or not isinstance(words[0], bytes):
            return self._lua.table({b"err": _BAD_TEXT})
        text = words[0].removeprefix(b"-")
        return self._lua.table({b"err": text if b" " in text else b"ERR " + text})

    def _status_reply(self, *words: object) -> Any:
        if len(words) != 1 or not isinstance(words[0], bytes):
            return self._lua.table({b"err": _BAD_TEXT})
        return self._lua.table({b"ok": words[0]})

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
        argv = _arguments(words)
        command = self._engine.command_of(argv)
        if command is None or not command.accepts(len(argv)):
            raise ScriptRefusal(b"ERR Invalid command passed to redis.acl_check_cmd()")
        user = self._run.client.user
        return user is None or user.denial(command, argv) is None


class Run:
    """One script that runs, and the client that it is to the commands."""

    def __init__(self, engine: Engine, call: Call, *, read_only: bool, may_grow: bool) -> None:
        caller = call.client
        self._engine = engine
        self._read_only = read_only
        self._may_grow = may_grow
        self._began = time.monotonic()
        self.has_written = False
        self.killed = False
        self.last_error = b""  # of the commands that it ran
        self.client = client = Client(caller.id, call.db, caller.channel, call.engine.steady_now_ms)
        client.user = caller.user
        client.authenticated = True
        client.executing = True  # nothing waits in here
        client.name, client.address, client.local_address = caller.name, caller.address, caller.local_address
        client.no_touch = caller.no_touch

    def look_at_clock(self) -> None:
        """End the script where that is due, or let the host have its turn; asked now and then while Lua runs."""
        limit_ms = self._engine.config["busy-reply-threshold"]
        if limit_ms and (time.monotonic() - self._began) * 1000 >= limit_ms:
            runs = self._engine.long_runs
            if runs is not None and runs.current is not None:
                runs.current.pause()
            elif not self.has_written:
                raise ScriptKilled(_TOO_LONG)
        if self.killed:
            raise ScriptKilled(KILLED)

    def execute(self, argv: list[bytes]) -> bytes:
        """Run a command for the script and return its reply; raises ScriptRefusal where it may not."""
        engine, client = self._engine, self.client
        command = engine.command_of(argv)
        if command is None:
            raise ScriptRefusal(b"ERR Unknown Redis command called from script")
        if not command.accepts(len(argv)):
            raise ScriptRefusal(b"ERR Wrong number of args calling Redis command from script")
        if command.flags & Flag.NO_SCRIPT:
            raise ScriptRefusal(b"ERR This Redis command is not allowed from script")
        if client.user is not None and not client.user.unlimited:
            refusal = engine.users.refuse(client, command, argv, context=b"lua")
            if refusal is not None:
                raise ScriptRefusal(b"NOPERM ACL failure in script: " + refusal.removeprefix(b"NOPERM "))
        if command.flags & Flag.WRITE:
            if self._read_only:
                raise ScriptRefusal(b"ERR Write commands are not allowed from read-only scripts.")
            if engine.write_refusal is not None and not engine.loading:
                raise ScriptRefusal(engine.write_refusal)
        grows = command.flags & Flag.DENY_OOM and not self._may_grow and not self.has_written
        if grows and engine.over_memory and not engine.loading:
            raise ScriptRefusal(OUT_OF_MEMORY)
        self.has_written = self.has_written or bool(command.flags & Flag.WRITE)
        engine.run_found(client, command, argv)
        reply = b"".join(client.reply.take())
        if reply.startswith(b"-"):
            self.last_error = reply[1:-2]
        return reply


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


def _arguments(words: tuple[Any, ...]) -> list[bytes]:
    """Make arguments of a command of what a script gave; numbers with all the digits that they have."""
    if not words:
        raise ScriptRefusal(_NO_ARGUMENTS)
    if not all(map(_is_text, words)):
        raise ScriptRefusal(_BAD_ARGUMENTS)
    return [word if isinstance(word, bytes) else b"%.17g" % word for word in words]


def _sha1hex(*words: object) -> bytes:
    if len(words) != 1:
        raise ScriptRefusal(b"ERR wrong number of arguments")
    return sha1(_text(words[0]) if _is_text(words[0]) else b"", usedforsecurity=False).hexdigest().encode()


def _set_replication(*words: object) -> None:
    if len(words) != 1:
        raise ScriptRefusal(b"ERR redis.set_repl() requires two arguments.")
    if _number(words[0]) not in (0, 1, 2, 3):
        raise ScriptRefusal(b"ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")


def _read_flags(first: bytes) -> frozenset[bytes]:
    """Read the line `#!lua flags=no-writes,allow-oom` that a script may begin with."""
    engine, *options = first.split()
    if engine != b"#!lua":
        raise CommandError(b"ERR Unexpected engine in script shebang: " + engine)
    flags: set[bytes] = set()
    for option in options:
        if not option.startswith(b"flags="):
            raise CommandError(b"ERR Unknown lua shebang option: " + option)
        for flag in option.removeprefix(b"flags=").split(b","):
            if flag and flag not in _FLAGS:
                raise CommandError(b"ERR Unexpected flag in script shebang: " + flag)
            flags.add(flag)
    return frozenset(flags - {b""})
