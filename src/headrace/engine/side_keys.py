"""Keys that the server keeps beside streams: ordinary data, which also means something to the server.

    headrace:{key}:scheduled ─► kind "scheduled" of the stream `key`

The server's knowledge of such a key in memory must follow every change of it: a command of ours, ZADD by hand, a
script, a load, a master, expiry, FLUSHALL, RENAME, SWAPDB. Databases and the keyspace therefore report each change of
a key with this form here, and the watcher that is registered for its kind looks at the key again. Other keys cost one
comparison.
"""

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from headrace.engine.database import Database
    from headrace.engine.due_keys import DueKeys

_BEGIN: Final = b"headrace:{"


def side_key(key: bytes, kind: bytes) -> bytes:
    """Return the key of a kind beside a stream; both have the same hash tag."""
    return b"%s%s}:%s" % (_BEGIN, key, kind)


class SideKeyWatcher(Protocol):
    """An object that knows something of the keys of one kind."""

    def changed(self, db: "Database", side: bytes, key: bytes) -> None:
        """Look at a side key of a stream again: it was made, changed or removed."""

    def cleared(self, db: "Database") -> None:
        """Forget a database: it has no keys any more."""

    def swapped(self, db: "Database", other: "Database") -> None:
        """Exchange what is known of two databases."""


class SideKeys:
    """See the module."""

    def __init__(self) -> None:
        self.due: dict[bytes, DueKeys] = {}  # kind -> those of them at which something is due by time
        self._watchers: dict[bytes, SideKeyWatcher] = {}

    def watch(self, kind: bytes, watcher: SideKeyWatcher) -> None:
        """Report changes of keys of a kind from now on; a watcher of several kinds is registered for each."""
        self._watchers[kind] = watcher

    def changed(self, db: "Database", side: bytes) -> None:
        """Report that a key was made, changed or removed, if its kind is watched."""
        key, _, kind = side[len(_BEGIN) :].rpartition(b"}:")
        watcher = self._watchers.get(kind)
        if watcher is not None:
            watcher.changed(db, side, key)

    def cleared(self, db: "Database") -> None:
        """Report that a database has no keys any more."""
        for watcher in set(self._watchers.values()):
            watcher.cleared(db)

    def swapped(self, db: "Database", other: "Database") -> None:
        """Report that two databases have exchanged their keys."""
        for watcher in set(self._watchers.values()):
            watcher.swapped(db, other)
