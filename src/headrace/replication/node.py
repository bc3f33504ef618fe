"""The node: which part this server has in replication, and what commands ask about it.

    master      writes are accepted, where enough replicas are there; followers get the effects
    replica     the link brings the effects of a master; followers of our own get them, too, byte for byte

A change of the part happens at once, inside the command that asks for it. As a replica, the server keeps its data until
the link has something to put in its place. Which server it follows is the setting `replicaof`, so that CONFIG REWRITE
keeps it.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from time import monotonic
from typing import Final

from headrace.engine.blocking.pausing import NO_END_MS, Purpose
from headrace.engine.blocking.waiting import NOT_UNBLOCKED
from headrace.engine.blocking.waking import release, replicas_have_more
from headrace.engine.client import Client
from headrace.engine.engine import Engine
from headrace.engine.errors import CommandError
from headrace.engine.replication import FailoverRequest, Replication, RoleReply
from headrace.engine.standing_refusals import Cause
from headrace.replication.confirmation import Confirmation
from headrace.replication.failover import Failover
from headrace.replication.parts import Followers, MasterLink
from headrace.storage.log import Log

READ_ONLY: Final = b"READONLY You can't write against a read only replica."
TOO_FEW_REPLICAS: Final = b"NOREPLICAS Not enough good replicas to write."
MASTER_DOWN: Final = b"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
_NOW_REPLICA: Final = b"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
_POLL_S: Final = 0.01
_REFUSAL_SETTINGS: Final = (
    "min-replicas-to-write",
    "min-replicas-max-lag",
    "replica-read-only",
    "replica-serve-stale-data",
)


class ReplicationNode(Replication):
    """See the module. `call_soon` calls a function in the next turn of the event loop."""

    def __init__(
        self,
        engine: Engine,
        followers: Followers,
        link: MasterLink,
        confirmation: Confirmation,
        log: Log,
        *,
        call_soon: Callable[[Callable[[], None]], object],
    ) -> None:
        super().__init__(engine)
        self.followers = followers
        self.link = link
        self._confirmation = confirmation
        self._config = engine.config
        self._log = log
        self._call_soon = call_soon
        self._failover = Failover(engine, followers, log, hand_over=self._hand_over, take_back=self._become_master)
        self._acks_wanted = False
        self._known: object = None  # what followers have learnt: the history of the effects, and the servers above us
        followers.on_acknowledged = self._acknowledged
        link.on_up = self._link_up
        link.on_down = self._decide_refusals
        link.on_full_sync = followers.disconnect_all
        link.on_circle = self._let_followers_learn
        link.on_takeover = self._failover.answered
        for name in _REFUSAL_SETTINGS:
            self._config.watch(name, lambda _: self._decide_refusals())
        engine.replication = self
        if self._config["replicaof"]:
            engine.begin_following()
        self._decide_refusals()

    def start(self) -> None:
        """Connect to the master, where this is a replica; the data of the directory is there."""
        if self._engine.is_replica:
            host, port = self._config["replicaof"]
            self.followers.keep_backlog()
            self._start_link(host, int(port))
        else:
            self._engine.effects.tell_place()
            self._engine.effects.lose_track()
            self._confirmation.start()

    def stop(self) -> None:
        """End the link, because the server ends."""
        self.link.stop()

    async def drain(self, most_s: float) -> None:
        """Let no more be written, and wait until all followers that are online have everything, or the time is over."""
        self.hold_writes()
        target, deadline = self._engine.effects.offset, monotonic() + most_s
        if self.count_behind(target) and self._engine.busy is None:
            self.followers.request_acks()
            while self.count_behind(target) and monotonic() < deadline:
                await asyncio.sleep(_POLL_S)
            self._name_behind(target)

    def hold_writes(self) -> None:
        """Let writes wait, because the server is about to end."""
        self._engine.pauses.begin(NO_END_MS, writes_only=True, purpose=Purpose.SHUTDOWN)

    def resume_writes(self) -> None:
        """Run the writes that waited, because the server goes on."""
        self._engine.pauses.end(Purpose.SHUTDOWN)

    def count_behind(self, offset: int) -> int:
        """How many followers that are online have not acknowledged an offset."""
        return sum(each.state == "online" and each.offset < offset for each in self.followers)

    def _name_behind(self, offset: int) -> None:
        online = [each for each in self.followers if each.state == "online"]
        for each in online:
            if each.offset < offset:
                self._log.warning(
                    f"Lagging replica {each.address}:{each.port} reported offset {offset - each.offset} behind master, "
                    f"lag={each.lag_s}, state={each.state}."
                )
        in_sync = len(online) - self.count_behind(offset)
        self._log.notice(f"{in_sync} of {len(online)} replicas are in sync when shutting down.")

    def tick(self) -> None:
        """Do what is due; the host calls it some ten times a second."""
        self._decide_refusals()
        self._confirmation.tick()
        if self._engine.busy is None:
            self._failover.tick()
            self._ask_followers()

    # --- the role of this server -----------------------------------------------------------------------------------

    def follow(self, client: Client, host: str, port: int) -> bytes:
        """Become a replica of a server, as a client wants it; the line that is answered."""
        self._refuse_while_failing_over()
        if self._engine.is_replica and self._master() == (host.lower(), port):
            self._log.notice("REPLICAOF would result into synchronization with the master we are already connected to.")
            return b"OK Already connected to specified master"
        self._become_replica(host, port)
        self._log.notice(f"REPLICAOF {host}:{port} enabled (user request from '{_shown(client)}')")
        return b"OK"

    def stop_following(self, client: Client) -> None:
        """Become a master, as a client wants it; nothing where this is one."""
        self._refuse_while_failing_over()
        if self._engine.is_replica:
            self._become_master()
            self._log.notice(f"MASTER MODE enabled (user request from '{_shown(client)}')")

    def _refuse_while_failing_over(self) -> None:
        if self._failover.is_on:
            raise CommandError(b"ERR REPLICAOF not allowed while failing over.")

    def _master(self) -> tuple[str, int]:
        host, port = self._config["replicaof"]
        return host.lower(), int(port)

    def _become_replica(self, host: str, port: int) -> None:
        was_master = not self._engine.is_replica
        self._engine.begin_following()
        self.followers.keep_backlog()
        self._config.put("replicaof", (host, str(port)))
        if was_master:
            self._end_waits()
        self._start_link(host, port)

    def _start_link(self, host: str, port: int) -> None:
        self._known = (self._engine.effects.history, ())
        self.link.start(host, port)
        self._decide_refusals()

    def _become_master(self, asked_by: Client | None = None) -> None:
        self.link.stop()
        self.link.takes_over = False
        self._config.put("replicaof", ())
        self._engine.effects.branch()
        self._engine.end_following()
        self.followers.disconnect_all(but=asked_by)
        self._decide_refusals()

    def _end_waits(self) -> None:
        """Let clients go that wait for what only a master does."""
        for client in list(self._engine.waiting.clients):
            if client.wait is not None and client.wait.kind not in NOT_UNBLOCKED:
                client.closing = True
                release(self._engine, client, _NOW_REPLICA)

    def _link_up(self) -> None:
        if self.link.master_client is not None:
            self.link.master_client.is_master = True
        self._let_followers_learn()
        self._decide_refusals()

    def _let_followers_learn(self) -> None:
        """Let followers come again, and ask, where the history has another name now, or there are others above us."""
        known = (self._engine.effects.history, self.link.chain)
        if self._known != known:
            self._known = known
            self.followers.disconnect_all()

    def _decide_refusals(self) -> None:
        """Refuse what this server cannot do now."""
        engine, config = self._engine, self._config
        refusals = engine.refusals
        refusals.refuse_writes(
            Cause.READ_ONLY, READ_ONLY if engine.is_replica and config["replica-read-only"] else None
        )
        refusals.refuse_writes(Cause.REPLICAS, None if self._has_enough_replicas() else TOO_FEW_REPLICAS)
        stale = engine.is_replica and not config["replica-serve-stale-data"] and self.link.state != "connected"
        engine.refusals.stale = MASTER_DOWN if stale else None
        self._confirmation.decide()

    def _has_enough_replicas(self) -> bool:
        needed, max_lag_s = self._config["min-replicas-to-write"], self._config["min-replicas-max-lag"]
        if self._engine.is_replica or not needed or not max_lag_s:
            return True
        return self.followers.good_count(max_lag_s) >= int(needed)

    # --- handing over ----------------------------------------------------------------------------------------------

    def fail_over(self, request: FailoverRequest) -> None:
        """Make a replica the master, and become its replica."""
        self._failover.start(request)

    def abort_failover(self) -> None:
        """Remain the master."""
        self._failover.abort("Failover manually aborted")

    def _hand_over(self, host: str, port: int) -> None:
        self.link.takes_over = True
        self._become_replica(host, port)

    # --- clients that follow this server ---------------------------------------------------------------------------

    @property
    def is_followed(self) -> bool:
        """Whether there are followers, to which messages of PUBLISH must be sent."""
        return len(self.followers) > 0

    def note_option(self, client: Client, option: bytes, value: bytes) -> None:
        """Take what REPLCONF says of a client."""
        self.followers.said(client, option, value)

    def attach(self, client: Client, history: bytes, offset: int, *, takes_over: bool) -> None:
        """Answer PSYNC."""
        if client.is_follower:
            return
        if takes_over:
            self._take_over(client, history)
        self._check_can_be_followed()
        self._welcome(client)
        self.followers.attach(client, history, offset)

    def _welcome(self, client: Client) -> None:
        """Treat a connection as that of a follower from now on."""
        client.is_follower = True
        if self._config["repl-disable-tcp-nodelay"]:
            with suppress(OSError), socket.socket(fileno=os.dup(client.channel.figures().descriptor)) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)

    def _take_over(self, client: Client, history: bytes) -> None:
        """Become the master of our own master, which has held back all writes until we had everything."""
        shown = history.decode("utf-8", "backslashreplace")
        self._log.warning(f"Failover request received for replid {shown}.")
        if not self._engine.is_replica:
            raise CommandError(b"ERR PSYNC FAILOVER can't be sent to a master.")
        if history.lower() != self._engine.effects.history:
            raise CommandError(b"ERR PSYNC FAILOVER replid must match my replid.")
        self._become_master(asked_by=client)
        self._log.notice(f"MASTER MODE enabled (failover request from '{_shown(client)}')")

    def sync(self, client: Client) -> None:
        """Answer SYNC."""
        if not client.is_follower:
            self._check_can_be_followed()
            self._welcome(client)
            self.followers.sync(client)

    def _check_can_be_followed(self) -> None:
        if self._failover.is_on:
            raise CommandError(b"NOMASTERLINK Can't SYNC while failing over")
        if self._engine.is_replica and self.link.state != "connected":
            raise CommandError(b"NOMASTERLINK Can't SYNC while not connected with my master")

    def acknowledge(self, client: Client, offset: int, synced: int | None) -> None:
        """Note how far a follower has applied effects, and how far it has them on disk."""
        self.followers.acknowledged(client, offset, synced)

    def request_acknowledgements(self) -> None:
        """Ask all followers how far they are, once for all callers in this turn of the event loop."""
        if not self._acks_wanted:
            self._acks_wanted = True
            self._call_soon(self._ask_followers)

    def _ask_followers(self) -> None:
        """Write the question into the effect log.

        Not below a command that is not over, which writes there, too; nor in a failover, for which the log must stand.
        """
        if self._acks_wanted and self._engine.busy is None and not self._failover.is_on:
            self._acks_wanted = False
            self.followers.request_acks()

    def _acknowledged(self) -> None:
        self._confirmation.acknowledged()
        replicas_have_more(self._engine)
        refusals = self._engine.refusals
        if refusals[Cause.REPLICAS] is not None or refusals[Cause.CONFIRMATION] is not None:
            self._decide_refusals()

    def count_acknowledged(self, offset: int) -> int:
        """Count the followers that have applied everything up to an offset."""
        return self.followers.count_at(offset)

    def count_synced(self, offset: int) -> int:
        """Count the followers that have everything up to an offset on disk."""
        return self.followers.count_synced_at(offset)

    # --- looking ---------------------------------------------------------------------------------------------------

    def role(self) -> RoleReply:
        """Return what ROLE replies."""
        offset = self._engine.effects.offset
        if self._engine.is_replica:
            host, port = self._config["replicaof"]
            connected = self.link.state == "connected"
            return [b"slave", host.encode(), int(port), self.link.state.encode(), offset if connected else -1]
        online: RoleReply = [
            [each.address.encode(), b"%d" % each.port, b"%d" % each.offset]
            for each in self.followers
            if each.state == "online"
        ]
        return [b"master", offset, online]

    @property
    def sync_counts(self) -> tuple[int, int, int]:
        """How often followers got a snapshot, could continue, and could not."""
        return self.followers.sync_counts

    @property
    def masters(self) -> tuple[str, ...]:
        """The run IDs of the servers above this one: its master, then the master of that, and so on."""
        return self.link.chain

    def fields(self) -> Iterator[tuple[str, object]]:
        """Give the fields of INFO replication."""
        config = self._config
        yield "role", "slave" if self._engine.is_replica else "master"
        if self._engine.is_replica:
            yield "master_host", config["replicaof"][0]
            yield "master_port", config["replicaof"][1]
            yield from self.link.fields()
            yield "slave_priority", config["replica-priority"]
            yield "slave_read_only", int(config["replica-read-only"])
            yield "replica_announced", int(config["replica-announced"])
        yield "connected_slaves", len(self.followers)
        if config["min-replicas-to-write"] and config["min-replicas-max-lag"]:
            yield "min_slaves_good_slaves", self.followers.good_count(config["min-replicas-max-lag"])
        for number, each in enumerate(self.followers):
            yield (
                f"slave{number}",
                f"ip={each.address},port={each.port},state={each.state},offset={each.offset},lag={each.lag_s}",
            )
        yield "master_failover_state", self._failover.state
        yield from self.history_fields()
        yield from self.followers.backlog_fields()


def _shown(client: Client) -> str:
    """Name a client in the log."""
    return f"id={client.id} addr={client.address.decode()} name={client.name.decode(errors='replace')}"
