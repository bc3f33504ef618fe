"""What commands ask of replication, and what they are told where there is none.

Followers and masters are above the commands, so they know them by this class only; `engine.replication` is one of
these.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from headrace.engine.errors import CommandError

if TYPE_CHECKING:
    from headrace.engine.client import Client
    from headrace.engine.engine import Engine

ALONE: Final = b"ERR this engine has no network, so that it neither follows a server nor has replicas"


class Replication:
    """Stands alone: an engine in a program's own process."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    def follow(self, host: str, port: int) -> bytes:  # noqa: ARG002
        """Become a replica of a server; the line that is answered."""
        raise CommandError(ALONE)

    def stop_following(self) -> None:
        """Become a master, where this is a replica."""
        raise CommandError(ALONE)

    def attach(self, client: "Client", history: bytes, offset: int) -> None:  # noqa: ARG002
        """Answer PSYNC: the client has a history up to an offset, and becomes a follower."""
        raise CommandError(ALONE)

    def fields(self) -> Iterator[tuple[str, object]]:
        """Give the fields of INFO replication."""
        effects = self._engine.effects
        yield "role", "master"
        yield "connected_slaves", 0
        yield "master_failover_state", "no-failover"
        yield "master_replid", effects.history.decode()
        yield "master_replid2", "0" * 40
        yield "master_repl_offset", effects.offset
        yield "second_repl_offset", -1
        yield "repl_backlog_active", 0
