"""Replies that wait for replicas: `min-replicas-to-confirm`.

    effects ─► own disk ─┐
            ─► replicas: their disks ─► REPLCONF ACK … FACK ─┴─► replies leave

The journal holds replies until its own disk and so many replicas have their effects; one acknowledgement of a
replica covers all that waits for less. Where too few replicas are there, writes are refused before they change
anything. A reply that waits longer than `repl-confirm-timeout` is ended with an error: nobody knows whether the write
lasts. So what a client was told is on several disks, and a failover to the replica that has most loses nothing of it.
"""

from math import inf
from time import monotonic
from typing import Final

from headrace.engine.engine import Engine
from headrace.engine.standing_refusals import Cause
from headrace.replication.followers import Followers
from headrace.storage.journal import Journal
from headrace.storage.log import Log

TOO_FEW: Final = b"NOREPLICAS Not enough replicas that keep a journal to confirm writes (min-replicas-to-confirm)."
UNCONFIRMED: Final = (
    b"NOREPLICAS The replicas have not confirmed this in time (repl-confirm-timeout): whether it lasts is not known."
)
DEMOTED: Final = b"NOREPLICAS This server is a replica now: whether the last writes to it last is not known."


class Confirmation:
    """See the module."""

    def __init__(self, engine: Engine, journal: Journal, followers: Followers, log: Log) -> None:
        self._engine = engine
        self._config = engine.config
        self._journal = journal
        self._followers = followers
        self._log = log
        self._config.watch("min-replicas-to-confirm", lambda _: self.decide())

    @property
    def _needed(self) -> int:
        return 0 if self._engine.is_replica else int(self._config["min-replicas-to-confirm"])

    def start(self) -> None:
        """Begin; it is unknown which data of the directory was confirmed, so that replicas must say it anew."""
        self._journal.await_replicas(bool(self._needed))

    def decide(self) -> None:
        """Follow a change of the role, of the settings, or of the followers."""
        needed = self._needed
        if self._journal.confirms != bool(needed):
            if self._engine.is_replica:
                self._journal.give_up(inf, DEMOTED)
            else:
                self._journal.drain()  # what is here counts as confirmed: as a replica it may not have been on disk yet
            self._journal.await_replicas(bool(needed), self._engine.effects.offset)
        enough = self._followers.confirming_count(self._config["min-replicas-max-lag"]) >= needed
        self._engine.refusals.refuse_writes(Cause.CONFIRMATION, None if enough else TOO_FEW)

    def acknowledged(self) -> None:
        """Send the replies whose effects enough replicas have on disk."""
        if self._journal.confirms:
            self._journal.confirm(self._followers.offset_synced_by(self._needed))

    def tick(self) -> None:
        """End the waits that have lasted too long."""
        if self._journal.confirms:
            ended = self._journal.give_up(monotonic() - self._config["repl-confirm-timeout"], UNCONFIRMED)
            if ended:
                self._log.warning(
                    f"{ended} clients were told that the fate of their writes is unknown: replicas did not confirm "
                    "them within repl-confirm-timeout."
                )
