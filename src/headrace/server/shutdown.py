"""The end of the server: by SIGTERM, SIGINT or SHUTDOWN.

    saved        as `save` or the command asks; where that fails, the server stays unless it is forced
    no more      connections are accepted, and a master is followed no longer
    the last     requests that have arrived are run, their effects are synced, their replies leave
    replicas     have `shutdown-timeout` seconds to take everything
    the end      when every client has read its replies, or after ten seconds

A second SIGINT ends at once. SIGHUP and SIGUSR1, by which other servers open their logs anew, change nothing: the log
is opened for each line.
"""

import asyncio
import signal
from typing import Final

from headrace.engine.errors import CommandError
from headrace.replication.node import ReplicationNode
from headrace.server.connections import Connections
from headrace.server.ports import Ports
from headrace.server.supervision import Supervisor
from headrace.storage.store import Store

_LEAVING_S: Final = 10  # how long a client may take to read its last replies


class Shutdown:
    """See the module. It ends by stopping the event loop."""

    def __init__(
        self,
        store: Store,
        supervisor: Supervisor,
        loop: asyncio.AbstractEventLoop,
        connections: Connections,
        *,
        ports: Ports,
        node: ReplicationNode,
    ) -> None:
        self._store = store
        self._engine = store.engine
        self._config = store.config
        self._log = store.log
        self._supervisor = supervisor
        self._loop = loop
        self._connections = connections
        self._ports = ports
        self._node = node
        self._stopping = False
        self._stopped_by_interrupt = False
        store.engine.shutdown_hook = self.begin

    def follow_signals(self) -> None:
        """End by signals; those of a terminal that closes and of logrotate are ignored."""
        for number in (signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        self._loop.add_signal_handler(signal.SIGTERM, self._signalled, signal.SIGTERM)
        self._loop.add_signal_handler(signal.SIGINT, self._signalled, signal.SIGINT)

    def _signalled(self, number: signal.Signals) -> None:
        if self._stopping:
            if number == signal.SIGINT and self._stopped_by_interrupt:
                self._log.warning("You insist... exiting now.")
                self._loop.stop()
            return
        self._stopped_by_interrupt = number == signal.SIGINT
        self._log.warning(f"Received {number.name} scheduling shutdown...")
        asked_for = self._config[f"shutdown-on-{number.name.lower()}"]
        save = True if "save" in asked_for else False if "nosave" in asked_for else None
        try:
            self.begin(save, now="now" in asked_for)
        except CommandError:
            if "force" in asked_for:
                self._log.warning("Error trying to save the DB, but shutdown-on-… says force: exiting.")
                self._stop(now="now" in asked_for)
            else:
                self._log.warning("Error trying to save the DB, can't exit.")

    def begin(self, save: bool | None, *, now: bool = False) -> None:
        """Save where asked for, or where there are save points and nothing else was asked for, and stop.

        With `now`, replicas may miss what was written last.
        """
        if self._stopping:
            return
        self._store.stop_jobs()
        half_done = self._engine.busy is not None and self._engine.script_host.has_written
        if not self._engine.loading and not half_done and (save or (save is None and self._config["save"])):
            self._store.save()
        self._stop(now=now)

    def _stop(self, *, now: bool) -> None:
        self._stopping = True
        self._supervisor.stopping()
        self._log.warning("User requested shutdown...")
        self._ports.close()
        self._node.stop()
        self._loop.create_task(self._leave(0 if now else self._config["shutdown-timeout"]))

    async def _leave(self, replicas_s: float) -> None:
        """Let the event loop read what has arrived, run it, send the replies, and end every connection.

        Replicas have so many seconds to take what they miss.
        """
        for _ in range(3):
            await asyncio.sleep(0)
        self._store.journal.drain()
        if replicas_s:
            await self._node.drain(replicas_s)
        self._loop.call_later(_LEAVING_S, self._loop.stop)
        self._connections.end_all(then=self._loop.stop)
