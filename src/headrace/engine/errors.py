"""The refusals of commands, in the words that clients know."""


class CommandError(Exception):
    """A refusal; `text` is the error line without its dash: a code, then a sentence."""

    def __init__(self, text: bytes) -> None:
        super().__init__(text.decode("latin-1"))
        self.text = text


SYNTAX = b"ERR syntax error"
NOT_AN_INTEGER = b"ERR value is not an integer or out of range"
WRONG_TYPE = b"WRONGTYPE Operation against a key holding the wrong kind of value"
NO_SUCH_KEY = b"ERR no such key"
INTERNAL_ERROR = b"ERR internal error: the server's log says what went wrong"
OUT_OF_MEMORY = b"OOM command not allowed when used memory > 'maxmemory'."
WRONG_PASSWORD = b"WRONGPASS invalid username-password pair or user is disabled."
BUSY = b"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
SHUTDOWN_FAILED = b"ERR Errors trying to SHUTDOWN. Check logs."
BUSY_FUNCTION = b"BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
DEBUG_NOT_ALLOWED = (
    b'ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a local '
    b"connection, otherwise you need to set this option in the configuration file, and then restart the server."
)


def quoted(text: bytes) -> bytes:
    """User data as it may stand in an error line: cut at the first NUL, as a C string is."""
    return text.split(b"\0", 1)[0]


def wrong_arity(name: bytes) -> CommandError:
    """Refuse a number of arguments; `name` is the full one, such as `xgroup|create`."""
    return CommandError(b"ERR wrong number of arguments for '%s' command" % name)
