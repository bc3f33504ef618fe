"""Clients that wait: for keys, with or without a deadline. No polling, and no task for each.

    database.waiting   key ─► { client: None, … }       first come, first served
    alarms             heap of (when, number, what)     deadlines, keys to look at again, and None: the engine's own

A write marks its key ready; when its command is over, the engine lets the waiting clients of that key run their command
again, each once. One that finds nothing waits on, behind the others, but with the deadline that it had. The host is
told through `set_alarm` when the next moment is at which something is due, and calls `ring` then.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias

from headrace.engine.client import Client, Wait
from headrace.engine.keyspace import Database

# What WAIT and WAITAOF wait for; every other kind but the next is a type of value.
REPLICAS = b"replicas"
DISK = b"disk"
# What a client waits for that has not found its password several times: the answer.
FAILED_LOGIN = b"failed-login"

Alarmed: TypeAlias = Client | tuple[Database, bytes] | None


class WaitingRoom:
    """Who waits for what. The engine decides when to serve; this keeps the order and the time."""

    def __init__(self) -> None:
        self.clients: dict[Client, None] = {}
        self.set_alarm: Callable[[int], None] = lambda _: None
        self._alarms: list[tuple[int, int, Alarmed]] = []
        self._numbers = count()
        self._next_alarm = 0
        self._key_alarms: dict[tuple[Database, bytes], int] = {}

    # --- coming and going ------------------------------------------------------------------------------------------

    def enter(self, client: Client, wait: Wait) -> None:
        """Queue a client at the end of each of its keys."""
        again = client.wait is not None
        self._unqueue(client)
        client.wait = wait
        self.clients[client] = None
        for key in wait.keys:
            wait.db.waiting.setdefault(key, {})[client] = None
        if wait.deadline and not again:
            self._push(wait.deadline, client)

    def leave(self, client: Client) -> None:
        """Let a client go, served or not."""
        if client.wait is not None:
            self._unqueue(client)
            client.wait = None
            self.clients.pop(client, None)

    def _unqueue(self, client: Client) -> None:
        wait = client.wait
        if wait is None:
            return
        for key in wait.keys:
            queue = wait.db.waiting.get(key)
            if queue is not None:
                queue.pop(client, None)
                if not queue:
                    del wait.db.waiting[key]

    # --- time ------------------------------------------------------------------------------------------------------

    def remind(self, db: Database, key: bytes, when_ms: int) -> None:
        """Have a key looked at again at a time; the earliest one asked for counts."""
        known = self._key_alarms.get((db, key))
        if known is None or when_ms < known:
            self._key_alarms[db, key] = when_ms
            self._push(when_ms, (db, key))

    def wake_at(self, when_ms: int) -> None:
        """Have the engine ring at a time, whoever waits."""
        self._push(when_ms, None)

    def _push(self, when_ms: int, what: Alarmed) -> None:
        heappush(self._alarms, (when_ms, next(self._numbers), what))
        self._arm()

    def _arm(self) -> None:
        when = self._alarms[0][0] if self._alarms else 0
        if when != self._next_alarm:
            self._next_alarm = when
            if when:
                self.set_alarm(when)

    def due(self, now_ms: int) -> tuple[list[Client], list[tuple[Database, bytes]]]:
        """Take what is due: clients whose time is up, and keys to look at again."""
        clients: list[Client] = []
        keys: list[tuple[Database, bytes]] = []
        while self._alarms and self._alarms[0][0] <= now_ms:
            when, _, what = heappop(self._alarms)
            if isinstance(what, Client):
                if what.wait is not None and what.wait.deadline == when:
                    clients.append(what)
            elif what is not None and self._key_alarms.get(what) == when:
                del self._key_alarms[what]
                keys.append(what)
        self._next_alarm = 0
        self._arm()
        return clients, keys

    # --- figures ---------------------------------------------------------------------------------------------------

    @property
    def timed(self) -> int:
        """How many clients wait with a deadline."""
        return sum(1 for client in self.clients if client.wait is not None and client.wait.deadline)

    def blocked_keys(self, databases: list[Database]) -> tuple[int, int]:
        """Count the keys that clients wait for, and those where one waits for the key to vanish, too."""
        keys = vanishing = 0
        for db in databases:
            keys += len(db.waiting)
            vanishing += sum(any(c.wait.without_key for c in queue if c.wait) for queue in db.waiting.values())
        return keys, vanishing
