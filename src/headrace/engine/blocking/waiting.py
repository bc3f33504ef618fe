"""Clients that wait: for keys, with or without a deadline. No polling, and no task for each.

    database.waiting   key ─► { client: None, … }       first come, first served
    chores             deadlines, keys to look at again, and the room itself: the engine rings for its own sake
    disk_waits         positions of the effects that clients wait for, the first to be reached on top

A write marks its key ready; when its command is over, the engine lets the waiting clients of that key run their command
again, each once. One that finds nothing waits on, behind the others, but with the deadline that it had.

Every time here is of the steady clock (`engine.clocks.steady_ms`), which nobody can set. A client that is served or
leaves takes its timers with it.
"""

from typing import TypeAlias

from headrace.engine.chores import Chores
from headrace.engine.client import Client, Wait
from headrace.engine.database import Database
from headrace.engine.timers import Timer, TimerHeap

# What WAIT and WAITAOF wait for; every other kind but the next two is a type of value.
REPLICAS = b"replicas"
DISK = b"disk"
# What a client waits for that logs in from where others have failed: its turn.
LOGIN = b"login"
# What SYNC waits for: a snapshot that is written and sent to it.
SNAPSHOT = b"snapshot"
# What SHUTDOWN waits for: that replicas have everything.
END = b"end"
# Waits that CLIENT UNBLOCK does not end, because Redis has none of these.
NOT_UNBLOCKED = (LOGIN, SNAPSHOT)

KeyOfDatabase: TypeAlias = tuple[Database, bytes]


class WaitingRoom:
    """Which client waits for what. The engine decides when to serve; this keeps the order and the time."""

    def __init__(self, chores: Chores) -> None:
        self.clients: dict[Client, None] = {}
        self.disk_waits = TimerHeap()  # of clients
        self._for_disk: dict[Client, None] = {}
        self._for_replicas: dict[Client, None] = {}
        self._chores = chores
        self._reminders: dict[KeyOfDatabase, Timer] = {}
        self._engine_timer: Timer | None = None

    # --- coming and going ------------------------------------------------------------------------------------------

    def enter(self, client: Client, wait: Wait) -> None:
        """Queue a client at the end of each of its keys; one that waits already keeps its deadline."""
        former = client.wait
        if former is not None:
            self._unqueue(client, former)
            wait.timer, former.timer = former.timer, None
        elif wait.deadline:
            wait.timer = self._chores.add(wait.deadline, client)
        client.wait = wait
        self.clients[client] = None
        if wait.kind == DISK:
            self._for_disk[client] = None
        elif wait.kind == REPLICAS:
            self._for_replicas[client] = None
        for key in wait.keys:
            wait.db.waiting.setdefault(key, {})[client] = None

    def await_disk(self, client: Client, position: int) -> None:
        """Have a client that waits run its command again when the disk has the effects up to a position."""
        if client.wait is not None:
            client.wait.disk_timer = self.disk_waits.add(position, client)

    def reached_by_disk(self, position: int) -> list[Client]:
        """Take the clients whose effects are on disk, now that those up to a position are."""
        clients: list[Client] = []
        while (client := self.disk_waits.pop_due(position)) is not None:
            clients.append(client)
        return clients

    def awaiting_disk(self) -> list[Client]:
        """List all clients that wait for the disk, whatever else they wait for."""
        return list(self._for_disk)

    def awaiting_replicas(self) -> list[Client]:
        """List all clients that wait for replicas, to have effects or to have them on disk."""
        return [*self._for_replicas, *self._for_disk]

    def leave(self, client: Client) -> None:
        """Let a client go, served or not."""
        wait = client.wait
        if wait is not None:
            self._unqueue(client, wait)
            if wait.timer is not None:
                self._chores.remove(wait.timer)
                wait.timer = None
            client.wait = None
            self.clients.pop(client, None)
            self._for_disk.pop(client, None)
            self._for_replicas.pop(client, None)

    def _unqueue(self, client: Client, wait: Wait) -> None:
        if wait.disk_timer is not None:
            self.disk_waits.remove(wait.disk_timer)
            wait.disk_timer = None
        for key in wait.keys:
            queue = wait.db.waiting.get(key)
            if queue is not None:
                queue.pop(client, None)
                if not queue:
                    del wait.db.waiting[key]
                    reminder = self._reminders.pop((wait.db, key), None)
                    if reminder is not None:
                        self._chores.remove(reminder)

    # --- time ------------------------------------------------------------------------------------------------------

    def remind(self, db: Database, key: bytes, when_ms: int) -> None:
        """Have a key that somebody waits for looked at again at a time; the earliest one asked for counts."""
        known = self._reminders.get((db, key))
        if known is None or when_ms < known.due:
            if known is not None:
                self._chores.remove(known)
            self._reminders[db, key] = self._chores.add(when_ms, (db, key))

    def forget_reminder(self, reminder: KeyOfDatabase) -> None:
        """Note that a key is looked at, because its time has come."""
        self._reminders.pop(reminder, None)

    def take_reminders(self) -> list[KeyOfDatabase]:
        """Take all keys to be looked at again, whatever their time."""
        for timer in self._reminders.values():
            self._chores.remove(timer)
        keys = list(self._reminders)
        self._reminders.clear()
        return keys

    def wake_at(self, when_ms: int) -> None:
        """Have the engine run what is due at a time; the last one asked for counts."""
        if self._engine_timer is not None:
            self._chores.remove(self._engine_timer)
        self._engine_timer = self._chores.add(when_ms, self)

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
