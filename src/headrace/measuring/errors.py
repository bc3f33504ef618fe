"""What can go wrong while something is measured, one small exception for each mistake."""

from headrace.core.errors import HeadraceError


class LoadFailed(HeadraceError):
    """A server did not answer as a server does, or refused what a workload asks."""


class NoSuchTarget(HeadraceError):
    """The server to measure is not there, or cannot be spoken to."""


class NoSuchWorkload(HeadraceError):
    """A workload of that name does not exist."""
