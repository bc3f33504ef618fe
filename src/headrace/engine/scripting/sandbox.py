"""Lua, and the sandbox that scripts and functions run in: `lua/sandbox.lua` says what they see.

What crosses the border is plain: strings as `bytes`, numbers, booleans, and tables that are made for Lua. A script
never holds a Python object; that no attribute of one could be read is the second lock on that door.

A function of ours refuses by raising. `ScriptRefusal` is an error that a script may catch, as the table {err=…};
`ScriptKilled` it may not, nor anything that ends the process. Any other exception is a mistake of ours.

The memory of Lua is limited from `arm` to `disarm`, which is while Lua runs. Whatever of ours runs in between must not
need memory that Lua would refuse: it would take that for an error of its own, and jump over our frames.
"""

import struct
from collections.abc import Callable
from importlib.resources import files
from secrets import randbits
from typing import Any, Final, NamedTuple, NoReturn

from headrace.engine.errors import INTERNAL_ERROR, CommandError
from headrace.engine.scripting.command_gate import CommandGate
from headrace.engine.scripting.errors import NO_MEMORY, ScriptFailed, ScriptKilled, ScriptRefusal
from headrace.engine.scripting.lua_api import load_api
from headrace.engine.scripting.lua_bits import BITS, NotANumber
from headrace.engine.scripting.script_run import ScriptRun

FLAGS: Final = (b"no-writes", b"allow-oom", b"allow-stale", b"no-cluster", b"allow-cross-slot-keys")
"""What a script or a function may say of itself."""

_NAME: Final = b"=headrace"
_NO_LUA: Final = b"ERR scripts need the Python package lupa with Lua 5.1 (pip install 'headrace[lua]'): %s"


class RegisteredFunction(NamedTuple):
    """What a library registered."""

    callback: Any
    description: bytes | None
    flags: frozenset[bytes]


def _no_attribute(_value: object, _name: object, _setting: bool) -> NoReturn:
    raise AttributeError("scripts see no attributes")


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of numbers refuse what is no number, or too few of them."""

    def call(*arguments: object) -> Any:
        try:
            return function(*arguments)
        except (NotANumber, TypeError):
            raise ScriptRefusal(b"ERR bad argument to a function of bit (number expected)") from None

    return call


def _pack_float(number: float) -> bytes:
    """Write a number as MessagePack does, in four bytes if that is all of it."""
    short = _float_bytes(number, 4)
    if struct.unpack(">f", short)[0] == number:
        return b"\xca" + short
    return b"\xcb" + struct.pack(">d", number)


def _float_bytes(number: float, size: int) -> bytes:
    """Write a number in four or eight bytes, the highest first; one that is too large for four is infinite."""
    if size == 8:
        return struct.pack(">d", number)
    try:
        return struct.pack(">f", number)
    except OverflowError:
        return struct.pack(">f", float("inf") if number > 0 else float("-inf"))


class LuaSandbox:
    """One Lua. `redis` are the functions and constants of the table of that name; all of them take any arguments.

    `limit` tells how many bytes Lua may hold while something runs (0: any number), `run` what runs.
    """

    def __init__(
        self,
        redis: dict[bytes, Any],
        *,
        limit: Callable[[], int],
        look_at_clock: Callable[[], None],
        note_bug: Callable[[Exception], None],
    ) -> None:
        try:
            from lupa import lua51  # noqa: PLC0415 — only who runs scripts needs it

            load_api(lua51.__file__)
        except ImportError as error:
            raise CommandError(_NO_LUA % str(error).encode()) from None
        self._limit = limit
        self._look = look_at_clock
        self._note_bug = note_bug
        self._fatal: BaseException | None = None
        self._lua_error = lua51.LuaError
        self._lua = lua51.LuaRuntime(
            encoding=None,
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=False,
            attribute_filter=_no_attribute,
            max_memory=0,
        )
        table = self.table = self._lua.table_from
        gate = self._gate = CommandGate(self._lua.get_memory_used, self._lua.set_max_memory)

        def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
            def call(*arguments: object) -> Any:
                gate.check_room()
                return function(*arguments)

            return call

        bridge = {
            b"explain": self._explain,
            b"look_at_clock": self._look_at_clock,
            b"has_booleans": lambda: gate.run is not None and gate.run.client.reply.protocol == 3,
            b"arm": self._arm,
            b"disarm": self._disarm,
            b"install": gate.install,
            b"raise_pending": gate.raise_pending,
            b"seed": randbits(31),
            b"flags": b" ".join(FLAGS),
            b"redis": table({name: guarded(value) if callable(value) else value for name, value in redis.items()}),
            b"bit": table({name: guarded(_checked(function)) for name, function in BITS.items()}),
            b"pack_float": guarded(_pack_float),
            b"float_bytes": guarded(_float_bytes),
            b"unpack_float": guarded(lambda data: struct.unpack(">d" if len(data) == 8 else ">f", data)[0]),
        }
        self._compile, self._run, self._load, self._leave = self._chunk("sandbox")(
            table(bridge), self._chunk("cjson"), self._chunk("cmsgpack"), self._chunk("struct")
        )

    def _chunk(self, name: str) -> Any:
        source = files("headrace.engine.scripting").joinpath("lua", f"{name}.lua").read_bytes()
        return self._lua.compile(source, name=_NAME)

    def close(self) -> None:
        """Give the memory back: Lua holds functions of ours, and they hold it."""
        self._gate.close()
        self._lua = self._compile = self._run = self._load = self._leave = self.table = self._gate = None  # type: ignore[assignment]

    @property
    def memory(self) -> int:
        """How many bytes Lua holds."""
        return int(self._lua.get_memory_used(total=True))

    # --- ways into Lua -----------------------------------------------------------------------------------------

    def compile(self, source: bytes) -> Any:
        """Make a function of a script's text; raises ScriptFailed where it is no Lua."""
        compiled = self._enter(None, self._compile, source)
        if isinstance(compiled, tuple):
            raise ScriptFailed(compiled[1], None)
        return compiled

    def run(
        self,
        run: ScriptRun,
        function: Any,
        keys: list[bytes],
        arguments: list[bytes],
        *,
        protocol: int,
        last_return: int,
    ) -> bytes:
        """Run a script, or a function, and return its reply in RESP; raises ScriptFailed where it has none."""
        tables = self.table(keys), self.table(arguments)
        how = protocol == 3, run.is_function, last_return
        return bytes(self._result(self._enter(run, self._run, function, *tables, *how)))

    def load_library(self, source: bytes) -> dict[bytes, RegisteredFunction]:
        """Run the code of a library and return the functions that it registers; raises ScriptFailed."""
        told = self._enter(None, self._load, source)
        if told[0] is None:
            raise ScriptFailed(b"ERR Error compiling function: " + told[1], None)
        try:
            functions = self._result(told)
        except ScriptFailed as failure:
            raise ScriptFailed(b"ERR Error registering functions: " + failure.text, None) from None
        return {
            name: RegisteredFunction(entry[1], entry[2] or None, frozenset(entry[3].split()))
            for name, entry in functions.items()
        }

    def _enter(self, run: ScriptRun | None, function: Any, *arguments: Any) -> Any:
        limit = self._limit()
        self._gate.begin(run, limit)
        try:
            return function(*arguments, limit)
        except self._lua_error as error:
            # Memory was too short even for the end of it.
            self._disarm()
            self._leave()
            text = str(error).encode("latin-1", "replace").partition(b"\n")[0]
            no_memory = not text or b"not enough memory" in text
            raise ScriptFailed(NO_MEMORY if no_memory else b"ERR " + text, None) from None
        finally:
            self._gate.begin(None, 0)
            if self._fatal is not None:
                fatal, self._fatal = self._fatal, None
                raise fatal

    def _result(self, told: tuple[Any, ...]) -> Any:
        done, *told_more = told
        if done:
            return told_more[0]
        text, source, line = (*told_more, None, None)[:3]
        raise ScriptFailed(text, None if source is None else b"%s:%d" % (source, line))

    # --- what Lua calls ----------------------------------------------------------------------------------------

    def _arm(self) -> None:
        self._lua.set_max_memory(self._gate.limit)

    def _disarm(self) -> None:
        self._lua.set_max_memory(0)

    def _look_at_clock(self) -> None:
        try:
            self._look()
        except BaseException:
            self._disarm()  # the script ends, and the exception needs memory on its way
            raise

    def _explain(self, error: object, at_the_end: bool) -> bytes | None:
        """Say what an error value of ours means; None: it must not be caught."""
        if at_the_end:
            self._disarm()
        elif not self._has_room():
            return None
        if isinstance(error, ScriptKilled):
            return error.text if at_the_end else None
        if isinstance(error, ScriptRefusal):
            return error.text
        if isinstance(error, Exception):
            self._note_bug(error)
            return INTERNAL_ERROR
        if isinstance(error, BaseException):
            self._fatal = error
            return b"ERR the process is about to end" if at_the_end else None
        return INTERNAL_ERROR

    def _has_room(self) -> bool:
        try:
            self._gate.check_room()
        except ScriptKilled:
            return False
        return True
