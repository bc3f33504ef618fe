"""The scripts of EVAL and their cache: a text, known by its SHA-1, and what it was compiled to.

Scripts that only EVAL brought are forgotten when there are too many, the longest unused first; SCRIPT LOAD is for good.
How one runs is told in `headrace.engine.scripting.script_host`.
"""

from collections import OrderedDict
from hashlib import sha1
from typing import Any, Final, NamedTuple

from headrace.engine.call import Call
from headrace.engine.errors import CommandError
from headrace.engine.scripting.errors import ScriptFailed
from headrace.engine.scripting.sandbox import FLAGS, LuaSandbox
from headrace.engine.scripting.script_host import ScriptHost

_PASSING: Final = 500  # scripts of EVAL that are kept


class Script(NamedTuple):
    """A compiled script; `flags` is None where it does not begin with a line of them."""

    sha: bytes
    function: Any
    flags: frozenset[bytes] | None
    last_return: int  # the line of it


class Scripts:
    """The scripts of an engine."""

    def __init__(self, host: ScriptHost) -> None:
        self._host = host
        self._sandbox: LuaSandbox | None = None
        self._kept: dict[bytes, Script] = {}
        self._passing: OrderedDict[bytes, None] = OrderedDict()  # of those, the ones that only EVAL brought
        self.evicted = 0

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

    def run(self, call: Call, script: Script, keys: int, *, read_only: bool) -> None:
        """Run a script as a command of a client, whose words from the third on are keys and arguments."""
        self._host.run(
            call,
            self._lua,
            script.function,
            script.flags,
            name=script.sha,
            keys=keys,
            read_only=read_only,
            last_return=script.last_return,
            is_function=False,
        )

    def _compile(self, sha: bytes, source: bytes) -> Script:
        flags = None
        if source.startswith(b"#!"):
            first, end, _ = source.partition(b"\n")
            if not end:
                raise CommandError(b"ERR Invalid script shebang")
            flags = _read_flags(first)
            source = source[len(first) :]  # the line itself stays, so that errors count lines as the author does
        try:
            last_return = source.count(b"\n", 0, max(source.rfind(b"return"), 0)) + 1
            return Script(sha, self._lua.compile(source), flags, last_return)
        except ScriptFailed as mistake:
            raise CommandError(b"ERR Error compiling script (new function): " + mistake.text) from None

    @property
    def _lua(self) -> LuaSandbox:
        if self._sandbox is None:
            self._sandbox = self._host.make_sandbox(for_functions=False)
        return self._sandbox


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
            if flag and flag not in FLAGS:
                raise CommandError(b"ERR Unexpected flag in script shebang: " + flag)
            flags.add(flag)
    return frozenset(flags - {b""})
