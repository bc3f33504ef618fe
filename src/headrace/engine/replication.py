"""The replication that commands see: what they ask of it, and what it answers where there is none.

Followers and masters are above the commands, so commands know them by this class only; `engine.replication` is one of
these.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from headrace.engine.errors import CommandError

if TYPE_CHECKING:
    from headrace.engine.client import Client
    from headrace.engine.engine import Engine

ALONE: Final = b"ERR this engine has no network, so that it neither follows a server nor has replicas"
NO_HISTORY: Final = "0" * 40

RoleReply: TypeAlias = "list[bytes | int | RoleReply]"


class FailoverRequest(NamedTuple):
    """What FAILOVER asks for."""

    target: tuple[str, int] | None = None  # address of a replica; None: the first that has everything
    force: bool = False  # make it the master when the time is up, whether it has everything or not
    timeout_ms: int = 0  # 0: no limit


def no_backlog_fields(size: int) -> Iterator[tuple[str, object]]:
    """Give the fields of INFO replication about the backlog, where there is none."""
    yield "repl_backlog_active", 0
    yield "repl_backlog_size", size
    yield "repl_backlog_first_byte_offset", 0
    yield "repl_backlog_histlen", 0


class Replication:
    """Stands alone: an engine in a program's own process."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    # --- the role of this server -----------------------------------------------------------------------------------

    def follow(self, client: "Client", host: str, port: int) -> bytes:  # noqa: ARG002
        """Become a replica of a server, as a client asked; return the line to answer."""
        raise CommandError(ALONE)

    def stop_following(self, client: "Client") -> None:
        """Become a master, as a client asked; does nothing where this is one."""

    def fail_over(self, request: FailoverRequest) -> None:  # noqa: ARG002
        """Make a replica the master, and become its replica."""
        raise CommandError(b"ERR FAILOVER requires connected replicas.")

    def abort_failover(self) -> None:
        """Remain the master."""
        raise CommandError(b"ERR No failover in progress.")

    def role(self) -> RoleReply:
        """Return what ROLE replies."""
        return [b"master", self._engine.effects.offset, []]

    @property
    def sync_counts(self) -> tuple[int, int, int]:
        """How often followers got a snapshot, could continue, and could not."""
        return 0, 0, 0

    def fields(self) -> Iterator[tuple[str, object]]:
        """Give the fields of INFO replication."""
        yield "role", "master"
        yield "connected_slaves", 0
        yield "master_failover_state", "no-failover"
        yield from self.history_fields()
        yield from no_backlog_fields(self._engine.config["repl-backlog-size"])

    def history_fields(self) -> Iterator[tuple[str, object]]:
        """Give those of them that name the history of the data."""
        effects = self._engine.effects
        ancestor, left_at = effects.ancestors[0] if effects.ancestors else (NO_HISTORY.encode(), -2)
        yield "master_replid", effects.history.decode()
        yield "master_replid2", ancestor.decode()
        yield "master_repl_offset", effects.offset
        yield "second_repl_offset", left_at + 1

    @property
    def masters(self) -> tuple[str, ...]:
        """The run IDs of the servers above this one: its master, then the master of that, and so on."""
        return ()

    def lineage_fields(self) -> Iterator[tuple[str, object]]:
        """Give the fields of INFO lineage, from which a replica learns where our data comes from."""
        effects = self._engine.effects
        places = ((effects.history, effects.offset), *effects.ancestors)
        yield "run_id", self._engine.run_id
        yield "masters", ",".join(self.masters)
        yield "histories", ",".join(f"{name.decode()}:{end}" for name, end in places)

    # --- clients that follow this server ---------------------------------------------------------------------------

    @property
    def is_followed(self) -> bool:
        """Whether there are followers, to which messages of PUBLISH must be sent."""
        return False

    def note_option(self, client: "Client", option: bytes, value: bytes) -> None:
        """Take what REPLCONF says of a client."""

    def attach(self, client: "Client", history: bytes, offset: int, *, takes_over: bool) -> None:  # noqa: ARG002
        """Answer PSYNC: the client wants a history from an offset on, and becomes a follower.

        With `takes_over` it was the master of this server, which shall become its master first.
        """
        raise CommandError(ALONE)

    def sync(self, client: "Client") -> None:  # noqa: ARG002
        """Answer SYNC: the client wants a snapshot, and what follows it."""
        raise CommandError(ALONE)

    def acknowledge(self, client: "Client", offset: int, synced: int | None) -> None:
        """Note how far a follower has applied effects, and how far it has them on disk; None: it does not say."""

    def request_acknowledgements(self) -> None:
        """Ask all followers how far they are, once for all callers in this turn of the event loop."""

    def count_acknowledged(self, offset: int) -> int:  # noqa: ARG002
        """Count the followers that have applied everything up to an offset."""
        return 0

    def count_synced(self, offset: int) -> int:  # noqa: ARG002
        """Count the followers that have everything up to an offset on disk."""
        return 0
