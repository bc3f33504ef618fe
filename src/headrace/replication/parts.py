"""What a node asks of its two sides: the followers of this server, and the link to its master."""

from collections.abc import Callable, Iterator
from typing import Protocol

from headrace.engine.client import Client


class Follower(Protocol):
    """A replica of this server."""

    client: Client

    @property
    def address(self) -> str:
        """The host by which others reach it."""

    @property
    def port(self) -> int:
        """The port that it listens on."""

    @property
    def state(self) -> str:
        """How far it is: `wait_bgsave`, `send_bulk` or `online`."""

    @property
    def offset(self) -> int:
        """How far it has applied effects, as it said last."""

    @property
    def lag_s(self) -> int:
        """How long ago that was, in seconds."""


class Followers(Protocol):
    """All of them."""

    on_acknowledged: Callable[[], None]

    def __iter__(self) -> Iterator[Follower]: ...

    def __len__(self) -> int: ...

    def said(self, client: Client, option: bytes, value: bytes) -> None:
        """Take what REPLCONF says of a client."""

    def attach(self, client: Client, history: bytes, offset: int) -> None:
        """Answer PSYNC."""

    def sync(self, client: Client) -> None:
        """Answer SYNC."""

    def acknowledged(self, client: Client, offset: int, synced: int | None) -> None:
        """Note how far one is."""

    @property
    def sync_counts(self) -> tuple[int, int, int]:
        """How often one got a snapshot, could continue, and could not."""

    def keep_backlog(self) -> None:
        """Keep what followers may miss, although there is none yet."""

    def request_acks(self) -> None:
        """Ask all how far they are."""

    def count_at(self, offset: int) -> int:
        """Count those that have applied everything up to an offset."""

    def count_synced_at(self, offset: int) -> int:
        """Count those that have everything up to an offset on disk."""

    def good_count(self, max_lag_s: int) -> int:
        """Count those that are online and have acknowledged within so many seconds."""

    def disconnect_all(self, *, but: Client | None = None) -> None:
        """End their connections; they come again."""

    def backlog_fields(self) -> Iterator[tuple[str, object]]:
        """Give the fields of INFO replication about what is kept for followers."""


class MasterLink(Protocol):
    """The connection to the master."""

    state: str
    takes_over: bool
    on_up: Callable[[], None]
    on_down: Callable[[], None]
    on_full_sync: Callable[[], None]
    on_takeover: Callable[[bool], None]
    on_circle: Callable[[], None]
    chain: tuple[str, ...]
    master_client: Client | None

    def start(self, host: str, port: int) -> None:
        """Follow a server."""

    def stop(self) -> None:
        """Follow nobody."""

    def fields(self) -> Iterator[tuple[str, object]]:
        """Give the fields of INFO replication that are about the master."""
