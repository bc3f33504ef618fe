"""A durable stream store that speaks the Redis Streams protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from headrace.embedded.database import Database

__version__ = "0.2.0"  # the one place; asking importlib.metadata for it took two fifths of `headrace --help`'s imports


def open(path: str | os.PathLike[str] | None, **settings: object) -> Database:  # noqa: A001 — as gzip.open and others
    """Open a database in this process: in a directory, which is made where it is missing, or with None in memory only.

    It is durable as a server is: what a call has returned from is on disk. Settings have the names of redis.conf with
    underscores: `headrace.open("data", appendfsync="everysec")`. With `memory="512 MB"`, entries of streams that take
    more are on disk only, the oldest first. One process at a time has a directory open.
    """
    from headrace.embedded.opening import open_database  # noqa: PLC0415 — the engine is loaded by those who use it

    return open_database(path, settings)
