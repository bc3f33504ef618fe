"""Requests that need entries which are on disk: they wait beside the event loop, and nobody else does.

    a command ─► ColdMiss ─► postpone: the client runs no other request
                               └─► a thread reads ─► the cache takes it ─► the command runs again, from its beginning

Clients that miss the same are served by one read. A request that meets a cache too small for it, so that what was read
is forgotten before it runs, reads for itself after some tries. What cannot be read is for the command to say.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headrace.core.cold import ColdCache, ColdMiss, ColdRun, Loaded, fetch

if TYPE_CHECKING:
    from headrace.engine.client import Client
    from headrace.engine.engine import Engine

# Calls the first in another thread, and then the second, with what the first returned, in the engine's.
Beside = Callable[[Callable[[], Any], Callable[[Any], None]], None]

_AHEAD_BYTES: Final = 1 << 20
_MOST_TRIES: Final = 8


class History:
    """See the module. `beside` is None where nobody can wait: everything is read at once then."""

    def __init__(self, engine: "Engine") -> None:
        self.cache = ColdCache(0)
        self.beside: Beside | None = None
        self._engine = engine
        self._tries: dict[Client, int] = {}
        self._waiting: dict[tuple[ColdRun, int], list[Client]] = {}

    @property
    def waiting(self) -> int:
        """How many clients wait for the disk."""
        return sum(map(len, self._waiting.values()))

    def can_wait(self, client: "Client") -> bool:
        """Tell whether the request of a client may be put off, which has not begun to change anything."""
        return self.beside is not None and not client.retrying and self._tries.get(client, 0) < _MOST_TRIES

    def postpone(self, client: "Client", argv: list[bytes], miss: ColdMiss) -> None:
        """Run a request again when what it missed was read."""
        client.postponed = argv
        self._tries[client] = self._tries.get(client, 0) + 1
        place = (miss.run, miss.node)
        clients = self._waiting.get(place)
        if clients is not None:
            clients.append(client)
            return
        self._waiting[place] = [client]
        assert self.beside is not None  # noqa: S101 - else nobody waits
        self.beside(lambda: _read(miss), lambda found: self._end_wait(place, found))

    def _end_wait(self, place: tuple[ColdRun, int], found: list[Loaded] | None) -> None:
        engine = self._engine
        if found is not None:
            self.cache.admit(found)
        for client in self._waiting.pop(place):
            argv = client.postponed
            if argv is None or client.id not in engine.clients:
                self._tries.pop(client, None)
                continue
            client.postponed = None
            if found is None:
                self._tries[client] = _MOST_TRIES
            tries = self._tries[client]
            engine.execute(client, argv)
            if self._tries[client] == tries:  # it has missed nothing more, or waits for the end of a pause now
                del self._tries[client]
            if client.postponed is None:
                client.channel.resume()
        engine.flush_clients()


def _read(miss: ColdMiss) -> list[Loaded] | None:
    try:
        return fetch(miss.run, miss.node, _AHEAD_BYTES)
    except Exception:  # noqa: BLE001 — the command meets it again, and says it
        return None
