"""What a command of the command line refuses; every text is a sentence that says what to do."""

from headrace.core.errors import HeadraceError


class CommandFailed(HeadraceError):
    """The command cannot do what was asked for; it leaves with 1."""
