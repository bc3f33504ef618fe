"""What can go wrong between a program and the database that it has opened in its own process."""

from headrace.core.errors import HeadraceError


class CannotOpen(HeadraceError):
    """The database cannot be opened as it was asked for; the text is one sentence for a person."""


class DatabaseClosed(HeadraceError):
    """The database was closed, or belongs to the process that this one was forked from."""


class DatabaseBusy(HeadraceError):
    """A signal handler or a finalizer used the database while its thread was already inside of it."""


class Refused(HeadraceError):
    """The engine refused a command; `code` is the first word of its answer, such as WRONGTYPE."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = text.split(" ", 1)[0]


class MissingLibrary(HeadraceError, ImportError):
    """A library that only some methods need is not installed."""
