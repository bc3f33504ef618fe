"""The switch from the old server to the new one.

    old  takes writes ── pause: writes wait ── fence: writes are refused ────────────────────────┬─ unpause: what
    new  follows ─────── has everything ────── compared ─ has everything ─ REPLICAOF NO ONE ─────┘  waited is refused

The pause ends by itself after a time, so that no client waits for ever where this process dies. The fence does not:
from the moment the new server takes writes, a write at the old one would be lost. It is `min-replicas-to-write`, with
more replicas than any server has, because every Redis and every Headrace has that, it holds for scripts, too, and a
restart takes it away. Between fence and promotion there is nothing but one question for the offset.
"""

import time
from collections.abc import Callable
from typing import Final

from headrace.cli.errors import CommandFailed
from headrace.cli.interrupts import undivided
from headrace.cli.migrate.endpoint import Endpoint, Login
from headrace.cli.migrate.following import Following
from headrace.cli.migrate.progress import say
from headrace.cli.migrate.undoing import Changes
from headrace.cli.showing import duration

_FENCE: Final = "min-replicas-to-write"
_FENCE_LAG: Final = "min-replicas-max-lag"
_CLOSED: Final = str(2**31 - 1)
_LINK_S: Final = 60.0


class Switch:
    """See the module."""

    def __init__(self, old: Endpoint, new: Endpoint, changes: Changes, pause_ms: int) -> None:
        self._old = old
        self._new = new
        self._changes = changes
        self._pause_ms = pause_ms
        self._former_fence: dict[str, str] = {}
        self._paused_at = 0.0
        self.is_done = False  # the new server is the master, and nothing is put back any more
        self.paused_ms = 0  # for how long writes waited

    def run(self, following: Following, compare: Callable[[], None]) -> None:
        """Make the new server the master; `compare` raises where both are not equal."""
        self._former_fence = {name: self._old.setting(name) for name in (_FENCE, _FENCE_LAG)}
        self._pause()
        deadline = self._paused_at + self._pause_ms / 1000
        following.catch_up(deadline)
        compare()
        if time.monotonic() > deadline:
            raise CommandFailed(
                f"Comparing took longer than writes may wait ({duration(self._pause_ms)}): let them wait longer with "
                "--longest-pause."
            )
        with undivided():
            self._close_fence()
            following.catch_up(deadline)
            self._promote()
            self._changes.keep()
            self.is_done = True

    @property
    def former_minimum(self) -> str:
        """The setting of the old server that the fence has replaced."""
        return self._former_fence[_FENCE]

    def end_pause(self) -> None:
        """Let the old server answer the clients that waited."""
        self._old.ask("CLIENT", "UNPAUSE")
        self.paused_ms = self.paused_ms or round((time.monotonic() - self._paused_at) * 1000)

    def _pause(self) -> None:
        self._changes.note(
            self.end_pause,
            f"{self._old} lets writes wait for {duration(self._pause_ms)}, or until CLIENT UNPAUSE.",
        )
        self._paused_at = time.monotonic()
        self._old.ask("CLIENT", "PAUSE", self._pause_ms, "WRITE")
        say("Writes to the old server wait.")

    def _close_fence(self) -> None:
        self._changes.note(
            self.open_fence, f"{self._old} refuses writes until CONFIG SET {_FENCE} {self.former_minimum}."
        )
        closed = {_FENCE: _CLOSED}
        if self._former_fence[_FENCE_LAG] == "0":  # which would make the fence count for nothing
            closed[_FENCE_LAG] = "10"
        self._old.change_settings(closed)

    def open_fence(self) -> None:
        """Give the old server the settings that it had."""
        self._old.change_settings(self._former_fence)

    def _promote(self) -> None:
        if self._new.setting(_FENCE) == _CLOSED:  # it was the old server of an earlier move
            self._new.change_settings({_FENCE: "0"})
        try:
            self._new.ask("REPLICAOF", "NO", "ONE")
        except CommandFailed:
            if self._new.info("replication")["role"] != "master":
                raise

    def reverse(self, login: Login) -> None:
        """Let the old server follow the new one; it refuses writes as a replica from then on."""
        following = Following(self._new, self._old, Changes(), int(_LINK_S * 1000))
        following.begin(login, was_empty=False)
        self.open_fence()
        self.end_pause()
        following.await_everything()
