"""Functions: libraries of Lua that stay, in memory and in the files.

    #!lua name=shop                                  the metadata line: engine and name
    redis.register_function('buy', function …)       runs once, when the library is loaded

A library is its code: that is what is journaled, written to snapshots and dumped. What it registered is made again from
it. Its functions share the locals of their library, which live as long as it, and one Lua with all other libraries.

Loading replaces nothing before the new code has run: a library that is refused leaves everything as it was. The names
of functions are one space, and are found in any case of letters.
"""

from typing import Any, Final, NamedTuple

from headrace.engine.call import Call
from headrace.engine.errors import CommandError
from headrace.engine.scripting.sandbox import LuaSandbox
from headrace.engine.scripting.script_host import ScriptHost
from headrace.protocol.inline import split_words

ENGINE: Final = b"LUA"
_BAD_NAME: Final = (
    b"ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"
)
_NAME_CHARACTERS: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


class Function(NamedTuple):
    """What FCALL runs."""

    name: bytes
    callback: Any
    description: bytes | None
    flags: frozenset[bytes]


class Library(NamedTuple):
    """A library and the functions that it registered, by name."""

    name: bytes
    code: bytes
    functions: dict[bytes, Function]


class Functions:
    """The libraries of an engine."""

    def __init__(self, host: ScriptHost) -> None:
        self._host = host
        self._sandbox: LuaSandbox | None = None
        self.libraries: dict[bytes, Library] = {}
        self._functions: dict[bytes, Function] = {}  # by name in lower case

    @property
    def count(self) -> int:
        """How many functions there are."""
        return len(self._functions)

    @property
    def memory(self) -> int:
        """How many bytes Lua holds for them."""
        return self._sandbox.memory if self._sandbox is not None else 0

    def load(self, code: bytes, *, replace: bool) -> bytes:
        """Load a library and return its name."""
        library = self._make(code, self.libraries, replace=replace)
        self._take_over({**self.libraries, library.name: library})
        return library.name

    def delete(self, name: bytes) -> None:
        """Remove a library."""
        if name not in self.libraries:
            raise CommandError(b"ERR Library not found")
        self._take_over({other: library for other, library in self.libraries.items() if other != name})

    def flush(self) -> None:
        """Remove every library, and the Lua that they were loaded in."""
        self._take_over({})
        if self._sandbox is not None and self._host.running is None:
            self._sandbox.close()
            self._sandbox = None

    def restore(self, codes: list[bytes], policy: bytes) -> None:
        """Load libraries, all or none: `flush` others first, `append` and refuse known names, or `replace` those."""
        libraries = {} if policy == b"flush" else dict(self.libraries)
        for code in codes:
            name, _ = _read_metadata(code)
            if name in libraries and policy != b"replace":
                raise CommandError(b"ERR Library %s already exists" % name)
            library = self._make(code, libraries, replace=True)
            libraries[library.name] = library
        self._take_over(libraries)

    def run(self, call: Call, name: bytes, keys: int, *, read_only: bool) -> None:
        """Run a function as a command of a client, whose words from the third on are keys and arguments."""
        function = self._functions[name.lower()]
        self._host.run(
            call,
            self._lua,
            function.callback,
            function.flags,
            name=function.name,
            keys=keys,
            read_only=read_only,
            is_function=True,
        )

    def flags_of(self, name: bytes) -> frozenset[bytes]:
        """Return the flags of a function; none where there is no such function."""
        function = self._functions.get(name.lower())
        return function.flags if function is not None else frozenset()

    def __contains__(self, name: bytes) -> bool:
        return name.lower() in self._functions

    def _make(self, code: bytes, libraries: dict[bytes, Library], *, replace: bool) -> Library:
        """Run the code of a library that is to come to others."""
        name, source = _read_metadata(code)
        if name in libraries and not replace:
            raise CommandError(b"ERR Library '%s' already exists" % name)
        registered = self._host.load_library(self._lua, source)
        if not registered:
            raise CommandError(b"ERR No functions registered")
        known = {
            function.lower() for library in libraries.values() if library.name != name for function in library.functions
        }
        for function in registered:
            if function.lower() in known:
                raise CommandError(b"ERR Function %s already exists" % function)
        return Library(name, code, {title: Function(title, *what) for title, what in registered.items()})

    def _take_over(self, libraries: dict[bytes, Library]) -> None:
        self.libraries = libraries
        self._functions = {
            name.lower(): function for library in libraries.values() for name, function in library.functions.items()
        }

    @property
    def _lua(self) -> LuaSandbox:
        if self._sandbox is None:
            self._sandbox = self._host.make_sandbox(for_functions=True)
        return self._sandbox


def _read_metadata(code: bytes) -> tuple[bytes, bytes]:
    """Read the first line, `#!lua name=…`: the name, and the code with that line empty, so that errors count lines."""
    if not code.startswith(b"#!"):
        raise CommandError(b"ERR Missing library metadata")
    first, end, _ = code.partition(b"\n")
    words = split_words(first)
    if not end or not words:
        raise CommandError(b"ERR Invalid library metadata")
    name = None
    for word in words[1:]:
        if not word.lower().startswith(b"name="):
            raise CommandError(b"ERR Invalid metadata value given: " + word)
        if name is not None:
            raise CommandError(b"ERR Invalid metadata value, name argument was given multiple times")
        name = word[len(b"name=") :]
    if name is None:
        raise CommandError(b"ERR Library name was not given")
    if not name or not _NAME_CHARACTERS.issuperset(name):
        raise CommandError(_BAD_NAME)
    engine = words[0][2:]
    if engine.upper() != ENGINE:
        raise CommandError(b"ERR Engine '%s' not found" % engine)
    return name, code[len(first) :]
