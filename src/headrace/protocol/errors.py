"""What goes wrong on the wire: bytes that are no request, and replies that refuse one."""

from headrace.core.errors import HeadraceError


class ProtocolError(HeadraceError):
    """The bytes are no request; nothing after them can be understood, so the connection has to end.

    `text` is what `ReplyWriter.error` takes; `line` is the whole reply as Redis sends it.
    """

    def __init__(self, reason: bytes) -> None:
        super().__init__(f"Protocol error: {reason.decode('ascii', 'backslashreplace')}")
        self.text = b"ERR Protocol error: " + reason

    @property
    def line(self) -> bytes:
        """The reply to send before the connection is closed."""
        return b"-" + self.text.translate(ON_ONE_LINE) + b"\r\n"


class Refused(HeadraceError):
    """The database refused a command; `code` is the first word of its answer, such as WRONGTYPE."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = text.split(" ", 1)[0]


ON_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")
