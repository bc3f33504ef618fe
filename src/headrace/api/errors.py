"""What can go wrong between a program and a database, in its own process or on a server."""

from headrace.core.errors import HeadraceError
from headrace.protocol.errors import Refused

__all__ = [
    "CannotConnect",
    "CannotOpen",
    "ConnectionLost",
    "DatabaseBusy",
    "DatabaseClosed",
    "HeadraceError",
    "MissingLibrary",
    "NotSupported",
    "Refused",
]


class CannotOpen(HeadraceError):
    """The database cannot be opened as it was asked for; the text is one sentence for a person."""


class DatabaseClosed(HeadraceError):
    """The database was closed, or belongs to the process that this one was forked from."""


class DatabaseBusy(HeadraceError):
    """A signal handler or a finalizer used the database while its thread was already inside of it."""


class CannotConnect(HeadraceError, ConnectionError):
    """No server was reached, or it refused the login; nothing of what was asked for was done."""


class ConnectionLost(HeadraceError, ConnectionError):
    """The connection broke, or no reply came in time; what was asked for may be done or not."""


class NotSupported(Refused):
    """The server lacks what a method needs; its version is too old, or it is no Headrace."""


class MissingLibrary(HeadraceError, ImportError):
    """A library that only some methods need is not installed."""
