"""A durable stream store that speaks the Redis Streams protocol."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import os

    from headrace.api.consumer import Consumer as Consumer
    from headrace.api.database import Database as Database
    from headrace.api.errors import CannotConnect as CannotConnect
    from headrace.api.errors import CannotOpen as CannotOpen
    from headrace.api.errors import ConnectionLost as ConnectionLost
    from headrace.api.errors import DatabaseBusy as DatabaseBusy
    from headrace.api.errors import DatabaseClosed as DatabaseClosed
    from headrace.api.errors import HeadraceError as HeadraceError
    from headrace.api.errors import MissingLibrary as MissingLibrary
    from headrace.api.errors import NotSupported as NotSupported
    from headrace.api.errors import Refused as Refused
    from headrace.api.group import Group as Group
    from headrace.api.message import Message as Message
    from headrace.api.pending import Pending as Pending
    from headrace.api.scheduled import ScheduledMessage as ScheduledMessage
    from headrace.api.scheduled import Ticket as Ticket
    from headrace.api.stream import Stream as Stream
    from headrace.api.stream import Tail as Tail
    from headrace.core.stream_id import StreamID as StreamID
    from headrace.remote.connecting import Connecting

__version__ = "0.2.0"  # the one place; asking importlib.metadata for it took two fifths of `headrace --help`'s imports

_HOMES: Final = {
    **dict.fromkeys(("CannotConnect", "CannotOpen", "ConnectionLost", "DatabaseBusy"), "headrace.api.errors"),
    **dict.fromkeys(("DatabaseClosed", "HeadraceError", "MissingLibrary"), "headrace.api.errors"),
    **dict.fromkeys(("NotSupported", "Refused"), "headrace.api.errors"),
    **dict.fromkeys(("ScheduledMessage", "Ticket"), "headrace.api.scheduled"),
    **dict.fromkeys(("Stream", "Tail"), "headrace.api.stream"),
    "Consumer": "headrace.api.consumer",
    "Database": "headrace.api.database",
    "Group": "headrace.api.group",
    "Message": "headrace.api.message",
    "Pending": "headrace.api.pending",
    "StreamID": "headrace.core.stream_id",
}


def open(path: str | os.PathLike[str] | None, **settings: object) -> Database:  # noqa: A001 — as gzip.open and others
    """Open a database in this process: in a directory, which is made where it is missing, or with None in memory only.

    It is durable as a server is: what a call has returned from is on disk. Settings have the names of redis.conf with
    underscores: `headrace.open("data", appendfsync="everysec")`. With `memory="512 MB"`, entries of streams that take
    more are on disk only, the oldest first. One process at a time has a directory open.
    """
    from headrace.embedded.opening import open_database  # noqa: PLC0415 — the engine is loaded by those who use it

    return open_database(path, settings)


def connect(url: str, *, timeout: float = 10, patience: float = 30) -> Database:
    """Connect to a Headrace, a Redis from 7.0 on, or a Valkey: the same database as `open` gives, on a server.

    The url is redis://host:port, rediss:// for TLS, unix:///path, or sentinel://host:port,host:port/name. A reply may
    take `timeout` seconds, beside what a command waits itself. A server that is away is tried again for `patience`
    seconds; what a server lacks raises NotSupported.
    """
    from headrace.remote.connecting import connect as make  # noqa: PLC0415 — loaded by those who use it

    return make(url, timeout=timeout, patience=patience)


def connect_async(url: str, *, timeout: float = 10, patience: float = 30) -> Connecting:
    """Connect as `connect` does, from a coroutine: `async with headrace.connect_async(url) as db`, or `await` it."""
    from headrace.remote.connecting import Connecting  # noqa: PLC0415 — loaded by those who use it

    return Connecting(url, timeout=timeout, patience=patience)


def __getattr__(name: str) -> Any:
    """Load what a program annotates with, or catches, when it is first named."""
    if name not in _HOMES:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted((*globals(), *_HOMES))
