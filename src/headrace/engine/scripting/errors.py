"""How a script or a function ends without a reply."""

from typing import Final

NO_MEMORY: Final = b"ERR not enough memory: the script needs more than lua-memory-limit"


class ScriptRefusal(Exception):
    """What a script did wrong, which it may catch as the table {err=…}; `text` begins with a code."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text.decode("latin-1"))
        self.text = text


class ScriptKilled(ScriptRefusal):
    """The script must end now, and cannot catch this."""


class ScriptFailed(Exception):
    """A script ended with an error; `place` is where, as `source:line`, if that is known."""

    def __init__(self, text: bytes, place: bytes | None) -> None:
        super().__init__(text.decode("latin-1"))
        self.text = text
        self.place = place
