"""Requests that need entries which are on disk: they wait beside the event loop, and nobody else does.

    a command ─► ColdMiss ─► postpone: the client runs no other request
                               └─► a thread reads ─► the cache takes it ─► the command runs again, from its beginning

Clients that miss the same are served by one read. A request may have so much read for it as the cache holds; one that
needs more, so that what was read is forgotten before it runs, reads the rest for itself. What cannot be read is for the
command to say.

    DUMP      its reply is made by the thread (ColdWork), of the data of the moment when the command began
    EXEC      before it runs what was queued, each command says what it needs: see `Engine.rehearse_queued`
    scripts   one that has only read so far is ended, and runs again from its beginning; one that has done more reads
              for itself, because nobody may see what is half done
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headrace.core.cold import ColdCache, ColdMiss, ColdRun, Loaded, fetch
from headrace.core.errors import ColdReadError

if TYPE_CHECKING:
    from headrace.engine.client import Client
    from headrace.engine.engine import Engine

# Calls the first in another thread, and then the second, with what the first returned, in the engine's.
Beside = Callable[[Callable[[], Any], Callable[[Any], None]], None]

_AHEAD_BYTES: Final = 1 << 20
_LEAST_READ: Final = 2 << 20  # bytes that may be read for a request, however small the cache is
_LEAST_COST: Final = 128 << 10  # bytes that a read counts for
_EVERYTHING: Final = 1 << 62  # what a read counts for that has failed


class ColdWork(ColdMiss):
    """A command whose reply takes much reading: `work` makes it in a thread, and then the command runs again."""

    def __init__(self, work: Callable[[], bytes]) -> None:
        Exception.__init__(self, work)
        self.work = work


class History:
    """See the module. `beside` is None where nobody can wait: everything is read at once then."""

    def __init__(self, engine: "Engine") -> None:
        self.cache = ColdCache(0)
        self.beside: Beside | None = None
        self._engine = engine
        self._read: dict[Client, int] = {}  # how many bytes, for the request that waits
        self._waiting: dict[tuple[ColdRun, int], list[Client]] = {}
        self._missing: set[Client] = set()  # who waits for a read
        self._working: set[Client] = set()
        self._done: dict[Client, bytes | ColdReadError] = {}  # what the commands that run again reply

    @property
    def waiting(self) -> int:
        """How many clients wait for the disk."""
        return len(self._missing) + len(self._working)

    def can_wait(self, client: "Client") -> bool:
        """Tell whether the request of a client may be put off, which has not begun to change anything."""
        if self.beside is None or client.retrying:
            return False
        return not self._read or self._read.get(client, 0) < max(self.cache.limit, _LEAST_READ)

    def postpone(self, client: "Client", argv: list[bytes], miss: ColdMiss) -> None:
        """Run a request again when what it missed was read."""
        client.postponed = argv
        assert self.beside is not None  # noqa: S101 - else nobody waits
        if isinstance(miss, ColdWork):
            work = miss.work
            self._working.add(client)
            self.beside(lambda: _attempt(work), lambda result: self._end_work(client, result))
            return
        self._missing.add(client)
        self._read.setdefault(client, 0)
        place = (miss.run, miss.node)
        clients = self._waiting.get(place)
        if clients is not None:
            clients.append(client)
            return
        self._waiting[place] = [client]
        self.beside(lambda: _read(miss), lambda found: self._end_wait(place, found))

    def take_work(self, client: "Client") -> bytes | None:
        """Return what was made for a command that runs again; None: it runs for the first time."""
        made = self._done.pop(client, None)
        if isinstance(made, ColdReadError):
            raise made
        return made

    def _end_work(self, client: "Client", made: bytes | ColdReadError) -> None:
        self._working.discard(client)
        if client.postponed is not None and client.id in self._engine.clients:
            self._done[client] = made
            self._resume(client, client.postponed)
            self._done.pop(client, None)
            self._engine.flush_clients()

    def _end_wait(self, place: tuple[ColdRun, int], found: list[Loaded] | None) -> None:
        if found is not None:
            self.cache.admit(found)
        cost = max(sum(map(len, found)), _LEAST_COST) if found is not None else _EVERYTHING
        for client in self._waiting.pop(place):
            argv = client.postponed
            if argv is None or client.id not in self._engine.clients:
                self._missing.discard(client)
                self._read.pop(client, None)
                continue
            self._missing.discard(client)
            self._read[client] += cost
            self._resume(client, argv)
            if client not in self._missing:  # it has run, or waits for the end of a pause now
                del self._read[client]
        self._engine.flush_clients()

    def _resume(self, client: "Client", argv: list[bytes]) -> None:
        client.postponed = None
        self._engine.execute(client, argv)
        if client.postponed is None:
            client.channel.resume()


def _attempt(work: Callable[[], bytes]) -> bytes | ColdReadError:
    try:
        return work()
    except ColdReadError as error:
        return error


def _read(miss: ColdMiss) -> list[Loaded] | None:
    try:
        return fetch(miss.run, miss.node, _AHEAD_BYTES)
    except Exception:  # noqa: BLE001 — the command meets it again, and says it
        return None
