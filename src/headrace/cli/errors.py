"""The error that a command fails with."""

from headrace.core.errors import HeadraceError


class CommandFailed(HeadraceError):
    """The command cannot do what was asked for and exits with status 1; the text is a sentence that says what to do."""
