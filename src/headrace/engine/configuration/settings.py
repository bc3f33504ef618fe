"""The kinds of setting: how the text of each is read and printed, in the words and units of redis-server.

A setting is read from words: those behind its name in a redis.conf, or the one value of CONFIG SET, which for a setting
of several words is cut at its spaces. What `read` returns, `show` prints so that it can be read again.

A setting that names a feature which Headrace does not have accepts the one value that says so; `because` tells why. A
setting that changes nothing here, whatever its value, is `inert`, and says why.
Text is str with surrogate escapes, so that any bytes come back as they were.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from typing import Any, Final, dataclass_transform

from headrace.core.errors import HeadraceError
from headrace.engine.pubsub.notifications import read_classes, show_classes

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
ULONG_MAX: Final = 2**64 - 1
MEGABYTE: Final = 1024 * 1024

_UNITS: Final = {"": 1, "b": 1, "k": 1000, "kb": 1024, "m": 1000**2, "mb": 1024**2, "g": 1000**3, "gb": 1024**3}
_BAD_OUTPUT_LIMIT: Final = "Error in hard, soft or soft_seconds setting in buffer limit configuration."


class SettingRefused(HeadraceError, ValueError):
    """A value that a setting cannot have; the text says why."""


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _Declared:
    """To type checkers, what is derived is a frozen dataclass. Making 19 real ones would be a tenth of a start."""

    def __init__(self, **properties: Any) -> None:
        self.__dict__.update(properties)


class Setting(_Declared, ABC):
    """What can be set, and by whom."""

    name: str
    default: Any
    alias: str | None = None  # an older name
    fixed: bool = False  # only at the start
    guarded: bool = False  # only where enable-protected-configs allows it
    secret: bool = False  # not for logs
    only: Any = None  # the one value that it can have so far, or a tuple of some …
    because: str = ""  # … and why
    inert: str = ""  # why no value of it changes anything

    def read(self, words: Sequence[str], current: Any) -> Any:
        """Return the value that the words stand for, or refuse them; `current` is the value so far."""
        value = self._merge(self._parse(words), current)
        if self.because and value not in (self.only if isinstance(self.only, tuple) else (self.only,)):
            raise SettingRefused(self.because)
        return value

    def read_line(self, words: Sequence[str], current: Any) -> Any:
        """Return the value after one more line of a redis.conf; for most settings the last line counts."""
        return self.read(words, current)

    def words(self, text: str) -> list[str]:
        """Cut the value of CONFIG SET into words."""
        return [text]

    def _merge(self, parsed: Any, _current: Any) -> Any:
        return parsed

    @abstractmethod
    def _parse(self, words: Sequence[str]) -> Any: ...

    def show(self, value: Any) -> str:
        """Print a value as CONFIG GET does."""
        return str(value)

    def lines(self, value: Any) -> list[str]:
        """Write the lines of a redis.conf that give this value."""
        return [f"{self.name} {self.show(value)}"]


def quote(text: str) -> str:
    """Write a text as one word between double quotes."""
    shown = []
    for byte in os.fsencode(text):
        character = chr(byte)
        if character in '\\"':
            shown.append("\\" + character)
        elif 0x20 <= byte < 0x7F:
            shown.append(character)
        else:
            shown.append(f"\\x{byte:02x}")
    return f'"{"".join(shown)}"'


def read_memory(text: str) -> int:
    """Read a size such as `64mb`; like redis-server, without digits it is 0, and it wraps at 2^64."""
    digits = text.rstrip("bkmgBKMG")
    unit = _UNITS.get(text[len(digits) :].lower())
    if unit is None or (digits and not (digits.isascii() and digits.isdigit())):
        raise SettingRefused("argument must be a memory value")
    return min(int(digits or "0"), ULONG_MAX) * unit % 2**64


def read_integer(text: str) -> int:
    """Read a signed 64-bit integer in its canonical spelling."""
    try:
        value = int(text) if text.isascii() else None
    except ValueError:
        value = None
    if value is None or str(value) != text or not -LONG_MAX - 1 <= value <= LONG_MAX:
        raise SettingRefused("argument couldn't be parsed into an integer")
    return value


def _one(words: Sequence[str]) -> str:
    if len(words) != 1:
        raise SettingRefused("wrong number of arguments")
    return words[0]


class Integer(Setting):
    """A whole number within bounds; with `clamp`, one outside of those two is moved to the nearer."""

    default: int
    least: int = 0
    most: int = INT_MAX
    clamp: tuple[int, int] | None = None

    def _parse(self, words: Sequence[str]) -> int:
        value = self._number(_one(words))
        if not self.least <= value <= self.most:
            raise SettingRefused(f"argument must be between {self.least} and {self.most} inclusive")
        return min(max(value, self.clamp[0]), self.clamp[1]) if self.clamp else value

    def _number(self, text: str) -> int:
        return read_integer(text)


class Memory(Integer):
    """A number of bytes, with or without a unit."""

    most: int = LONG_MAX

    def _number(self, text: str) -> int:
        return read_memory(text)

    def lines(self, value: Any) -> list[str]:
        """Write the size in the largest unit that divides it."""
        for unit in ("gb", "mb", "kb"):
            if value and value % _UNITS[unit] == 0:
                return [f"{self.name} {value // _UNITS[unit]}{unit}"]
        return [f"{self.name} {value}"]


class YesNo(Setting):
    """Yes or no."""

    default: bool

    def _parse(self, words: Sequence[str]) -> bool:
        word = _one(words).lower()
        if word not in ("yes", "no"):
            raise SettingRefused("argument must be 'yes' or 'no'")
        return word == "yes"

    def show(self, value: Any) -> str:
        """Print yes or no."""
        return "yes" if value else "no"


class Choice(Setting):
    """One of a few words."""

    default: str
    choices: tuple[str, ...]

    def _parse(self, words: Sequence[str]) -> str:
        word = _one(words).lower()
        if word not in self.choices:
            raise SettingRefused(f"argument(s) must be one of the following: {', '.join(self.choices)}")
        return word


class Text(Setting):
    """Any text."""

    default: str = ""

    def _parse(self, words: Sequence[str]) -> str:
        return _one(words)

    def lines(self, value: Any) -> list[str]:
        """Write the text between quotes."""
        return [f"{self.name} {quote(self.show(value))}"]


class FileName(Text):
    """The name of a file or directory inside the data directory."""

    what: str = "filename"

    def _parse(self, words: Sequence[str]) -> str:
        name = _one(words)
        if "/" in name:
            raise SettingRefused(f"{self.name} can't be a path, just a {self.what}")
        return name


class Directory(Text):
    """A directory that exists."""

    default: str = "."

    def _parse(self, words: Sequence[str]) -> str:
        path = Path(_one(words)).absolute()
        if not path.is_dir():
            raise SettingRefused("Not a directory" if path.exists() else "No such file or directory")
        return str(path)

    def show(self, value: Any) -> str:
        """Print the whole path."""
        return str(Path(value).absolute())


class Secret(Text):
    """A password: its bytes."""

    default: Any = b""
    secret: bool = True

    def _parse(self, words: Sequence[str]) -> Any:
        return os.fsencode(_one(words))

    def show(self, value: Any) -> str:
        """Print the password."""
        return os.fsdecode(value)


class EventClasses(Text):
    """Classes of keyspace events, by their letters."""

    default: Any = 0

    def _parse(self, words: Sequence[str]) -> Any:
        classes = read_classes(_one(words))
        if classes is None:
            raise SettingRefused("Invalid event class character. Use 'Ag$lshzxeKEtmdnoc'.")
        return classes

    def show(self, value: Any) -> str:
        """Print the letters."""
        return show_classes(value)


class Permissions(Setting):
    """The permissions of a file, in octal; 0 for what the system gives."""

    default: int = 0

    def _parse(self, words: Sequence[str]) -> int:
        word = _one(words)
        if not word or word.strip("01234567"):
            raise SettingRefused("argument couldn't be parsed as an octal number")
        value = int(word, 8)
        if value > 0o777:
            raise SettingRefused("argument must be between 0 and 777 inclusive")
        return value

    def show(self, value: Any) -> str:
        """Print octal digits."""
        return f"{value:o}"


class Words(Setting):
    """Several words."""

    default: tuple[str, ...]

    def words(self, text: str) -> list[str]:
        """Cut the text at its spaces."""
        return text.split(" ") if text else []

    def _parse(self, words: Sequence[str]) -> Any:
        return tuple(word for word in words if word)

    def show(self, value: Any) -> str:
        """Print the words."""
        return " ".join(value)

    def lines(self, value: Any) -> list[str]:
        """Write the words, or that there are none."""
        return [f"{self.name} {self.show(value) or quote('')}"]


class SavePoints(Words):
    """Pairs of seconds and changes after which a snapshot is due; lines add up, and an empty one starts anew."""

    def read_line(self, words: Sequence[str], current: Any) -> Any:
        """Add the points of one more line."""
        points = self.read(words, current)
        return (*current, *points) if points else ()

    def _parse(self, words: Sequence[str]) -> Any:
        if len(words) == 1:
            words = words[0].split(" ")  # --save "3600 1 300 100"
        if list(words) in ([], [""]):
            return ()
        if len(words) % 2 or not all(word.isascii() and word.isdigit() for word in words):
            raise SettingRefused("Invalid save parameters")
        if any(int(seconds) < 1 for seconds in words[::2]):
            raise SettingRefused("Invalid save parameters")
        return tuple(words)


class ShutdownFlags(Words):
    """What a signal that ends the server asks for, as the words behind SHUTDOWN do."""

    default: tuple[str, ...] = ("default",)

    def _parse(self, words: Sequence[str]) -> Any:
        known = ("default", "save", "nosave", "now", "force")
        asked = {word.lower() for word in words}
        if not asked or not asked.issubset(known):
            raise SettingRefused(f"argument(s) must be one of the following: {', '.join(known)}")
        if {"save", "nosave"} <= asked:
            raise SettingRefused("shutdown options SAVE and NOSAVE can't be used simultaneously")
        return tuple(word for word in known[1:] if word in asked) or ("default",)


class Percentiles(Words):
    """Shares of a hundred, as many as one likes."""

    default: Any

    def _parse(self, words: Sequence[str]) -> Any:
        try:
            shares = tuple(float(word) for word in words)
        except ValueError:
            shares = (nan,)
        if any(isnan(share) for share in shares):
            raise SettingRefused(f"Invalid {self.name} parameters")
        if not all(0 <= share <= 100 for share in shares):
            raise SettingRefused(f"{self.name} parameters should sit between [0.0,100.0]")
        return shares

    def show(self, value: Any) -> str:
        """Print them without needless digits."""
        return " ".join(show_share(share) for share in value)


def show_share(share: float) -> str:
    """Print a share of a hundred as INFO and CONFIG GET do."""
    return f"{share:.6f}".rstrip("0").rstrip(".")


class OomScores(Words):
    """How readily the system ends a master, a replica and a child when it is out of memory."""

    def _parse(self, words: Sequence[str]) -> Any:
        if len(words) != 3:
            raise SettingRefused("wrong number of arguments")
        if not all(word.removeprefix("-").isdecimal() and abs(int(word)) <= 2000 for word in words):
            raise SettingRefused(f"Invalid {self.name}, elements must be between -2000 and 2000.")
        return tuple(words)


@dataclass(frozen=True)
class OutputLimit:
    """How much a client may leave unread: never more than `hard` bytes, nor more than `soft` for `seconds`; 0: any."""

    hard: int
    soft: int
    seconds: int

    def __str__(self) -> str:
        return f"{self.hard} {self.soft} {self.seconds}"


class OutputLimits(Words):
    """An output limit for each class of client; a change names the classes that it changes."""

    default: Any

    def _parse(self, words: Sequence[str]) -> Any:
        if len(words) % 4:
            raise SettingRefused("Wrong number of arguments in buffer limit configuration.")
        limits: dict[str, OutputLimit] = {}
        for at in range(0, len(words), 4):
            kind, hard, soft, seconds = words[at : at + 4]
            kind = "slave" if kind.lower() == "replica" else kind.lower()
            if kind not in self.default:
                raise SettingRefused("Invalid client class specified in buffer limit configuration.")
            try:
                limits[kind] = OutputLimit(read_memory(hard), read_memory(soft), read_integer(seconds))
            except SettingRefused:
                raise SettingRefused(_BAD_OUTPUT_LIMIT) from None
            if limits[kind].seconds < 0:
                raise SettingRefused(_BAD_OUTPUT_LIMIT)
        return limits

    def _merge(self, parsed: Any, current: Any) -> Any:
        return {**current, **parsed}

    def show(self, value: Any) -> str:
        """Print every class."""
        return " ".join(f"{kind} {limit}" for kind, limit in value.items())

    def lines(self, value: Any) -> list[str]:
        """Write a line for each class that differs from the default."""
        changed = {kind: limit for kind, limit in value.items() if limit != self.default[kind]}
        return [f"{self.name} {kind} {limit}" for kind, limit in (changed or value).items()]
