"""Lua, and the sandbox that scripts run in: `lua/sandbox.lua` says what they see.

What crosses the border is plain: strings as `bytes`, numbers, booleans, and tables that are made for Lua. A script
never holds a Python object; that no attribute of one could be read is the second lock on that door.

A function of ours refuses by raising. `ScriptRefusal` is an error that a script may catch, as the table {err=…};
`ScriptKilled` it may not, nor anything that ends the process. Any other exception is a mistake of ours.
"""

import struct
from collections.abc import Callable
from importlib.resources import files
from secrets import randbits
from typing import Any, Final, NoReturn

from headrace.engine.errors import INTERNAL_ERROR, CommandError
from headrace.engine.lua_bits import BITS, NotANumber

_NAME: Final = b"=headrace"
_NO_LUA: Final = b"ERR scripts need the Python package lupa with Lua 5.1, which cannot be imported here: %s"


class ScriptRefusal(Exception):
    """What a script did wrong; `text` begins with a code."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text.decode("latin-1"))
        self.text = text


class ScriptKilled(ScriptRefusal):
    """The script must end now."""


class ScriptFailed(Exception):
    """A script ended with an error; `place` is where, as `source:line`, if that is known."""

    def __init__(self, text: bytes, place: bytes | None) -> None:
        super().__init__(text.decode("latin-1"))
        self.text = text
        self.place = place


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
    try:
        short = struct.pack(">f", number)
    except OverflowError:
        return b"\xcb" + struct.pack(">d", number)
    return b"\xca" + short if struct.unpack(">f", short)[0] == number else b"\xcb" + struct.pack(">d", number)


class LuaSandbox:
    """One Lua. `redis` are the functions and constants of the table of that name; all of them take any arguments."""

    def __init__(
        self,
        redis: dict[bytes, Any],
        *,
        look_at_clock: Callable[..., None],
        has_booleans: Callable[[], bool],
        note_bug: Callable[[Exception], None],
    ) -> None:
        try:
            from lupa import lua51  # noqa: PLC0415 — only who runs scripts needs it
        except ImportError as error:
            raise CommandError(_NO_LUA % str(error).encode()) from None
        self._note_bug = note_bug
        self._fatal: BaseException | None = None
        self._lua = lua51.LuaRuntime(
            encoding=None,
            register_eval=False,
            register_builtins=False,
            unpack_returned_tuples=False,
            attribute_filter=_no_attribute,
        )
        table = self.table = self._lua.table_from
        bridge = {
            b"explain": self._explain,
            b"look_at_clock": look_at_clock,
            b"has_booleans": has_booleans,
            b"seed": randbits(31),
            b"redis": table(redis),
            b"bit": table({name: _checked(function) for name, function in BITS.items()}),
            b"pack_float": _pack_float,
            b"unpack_float": lambda data: struct.unpack(">d" if len(data) == 8 else ">f", data)[0],
        }
        self._compile, self._run, self._memory = self._chunk("sandbox")(
            table(bridge), self._chunk("cjson"), self._chunk("cmsgpack")
        )

    def _chunk(self, name: str) -> Any:
        source = files("headrace.engine").joinpath("lua", f"{name}.lua").read_bytes()
        return self._lua.compile(source, name=_NAME)

    def close(self) -> None:
        """Give the memory back: Lua holds functions of ours, and they hold it."""
        self._lua = self._compile = self._run = self._memory = self.table = None

    @property
    def memory(self) -> int:
        """How many bytes Lua holds."""
        return int(self._memory())

    def compile(self, source: bytes) -> Any:
        """Make a function of a script's text; raises ScriptFailed where it is no Lua."""
        compiled = self._compile(source)
        if isinstance(compiled, tuple):
            raise ScriptFailed(compiled[1], None)
        return compiled

    def run(self, function: Any, keys: list[bytes], arguments: list[bytes], protocol: int) -> bytes:
        """Run a script and return its reply in RESP; raises ScriptFailed where it did not get to one."""
        done, *told = self._run(function, self.table(keys), self.table(arguments), protocol == 3)
        if self._fatal is not None:
            fatal, self._fatal = self._fatal, None
            raise fatal
        if done:
            return bytes(told[0])
        text, source, line = (*told, None, None)[:3]
        raise ScriptFailed(text, None if source is None else b"%s:%d" % (source, line))

    def _explain(self, error: object, at_the_end: bool = False) -> bytes | bool | None:
        """Say what an error value of ours means; None: it must not be caught, False: it is none of ours."""
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
        return False
