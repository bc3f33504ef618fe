"""The end of the server: by SIGTERM, SIGINT or SHUTDOWN.

    replicas     have `shutdown-timeout` seconds to take everything; writes wait, all else goes on, and SHUTDOWN ABORT
                 lets the server stay
    saved        as `save` or the command asks; where that fails, the server stays unless it is forced
    no more      connections are accepted, and a master is followed no longer
    the last     requests that have arrived are run, their effects are synced, their replies leave
    the end      when every client has read its replies, or after ten seconds

A second SIGINT ends at once. SIGHUP and SIGUSR1, by which other servers open their logs anew, change nothing: the log
is opened for each line. Where a file of policies is given, SIGHUP has it read again.
"""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

from headrace.engine.blocking.waiting import END
from headrace.engine.blocking.waking import release
from headrace.engine.errors import SHUTDOWN_FAILED, CommandError
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
        self.on_hangup: Callable[[], None] | None = None  # what SIGHUP does; None: nothing
        self._stopping = False
        self._stopped_by_interrupt = False
        self._waiting: asyncio.Task[None] | None = None  # until replicas have everything
        self._deadline = 0.0  # monotonic
        store.engine.hooks.server_end = self

    def follow_signals(self) -> None:
        """End on signals; those of a closing terminal and of logrotate are ignored."""
        for number in (signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_IGN)
        if self.on_hangup is not None:
            self._loop.add_signal_handler(signal.SIGHUP, self.on_hangup)
        self._loop.add_signal_handler(signal.SIGTERM, self._signalled, signal.SIGTERM)
        self._loop.add_signal_handler(signal.SIGINT, self._signalled, signal.SIGINT)

    def _signalled(self, number: signal.Signals) -> None:
        if self._stopping or self._waiting is not None:
            if number == signal.SIGINT and self._stopped_by_interrupt:
                self._log.warning("You insist... exiting now.")
                self._loop.stop()
            return
        self._stopped_by_interrupt = number == signal.SIGINT
        self._log.warning(f"Received {number.name} scheduling shutdown...")
        asked_for = self._config[f"shutdown-on-{number.name.lower()}"]
        save = True if "save" in asked_for else False if "nosave" in asked_for else None
        with suppress(CommandError):
            self.begin(save, now="now" in asked_for, force="force" in asked_for)

    # --- waiting for replicas --------------------------------------------------------------------------------------

    def begin(self, save: bool | None, *, now: bool, force: bool) -> bool:
        """Save where asked for, or where there are save points and nothing else was asked for, and end.

        Returns False where replicas are waited for first, which they are not with `now`. Raises CommandError where the
        data cannot be saved, unless that is forced.
        """
        if self._stopping:
            return True
        if self._waiting is not None:
            return False
        timeout_s = 0 if now else self._config["shutdown-timeout"]
        behind = self._engine.busy is None and self._node.count_behind(self._engine.effects.offset)
        self._log.warning("User requested shutdown...")
        if not timeout_s or not behind:
            self._end(save, timeout_s, force=force)
            return True
        self._log.notice("Waiting for replicas before shutting down.")
        self._deadline = monotonic() + timeout_s
        self._waiting = self._loop.create_task(self._await_replicas(save, timeout_s, force=force))
        return False

    async def _await_replicas(self, save: bool | None, timeout_s: float, *, force: bool) -> None:
        await self._node.drain(timeout_s)
        self._waiting = None
        try:
            self._end(save, 0, force=force)
        except CommandError:
            self._stay()

    def abort(self) -> bool:
        """Go on, where replicas are waited for; return False where they are not."""
        if self._waiting is None:
            return False
        self._waiting.cancel()
        self._waiting = None
        self._log.notice("Shutdown manually aborted.")
        self._stay()
        return True

    def _stay(self) -> None:
        """Let writes run again, and tell the clients that sent SHUTDOWN."""
        self._node.resume_writes()
        for client in list(self._engine.waiting.clients):
            if client.wait is not None and client.wait.kind == END:
                release(self._engine, client, SHUTDOWN_FAILED)

    @property
    def remaining_ms(self) -> int | None:
        """How long replicas are still waited for; None where they are not."""
        return None if self._waiting is None else max(int((self._deadline - monotonic()) * 1000), 0)

    # --- the end ---------------------------------------------------------------------------------------------------

    def _end(self, save: bool | None, replicas_s: float, *, force: bool) -> None:
        self._store.stop_jobs()
        half_done = self._engine.busy is not None and self._engine.script_host.has_written
        if not self._engine.loading and not half_done and (save or (save is None and self._config["save"])):
            try:
                self._store.save()
            except CommandError:
                if not force:
                    self._log.warning("Error trying to save the DB, can't exit.")
                    raise
                self._log.warning("Error trying to save the DB, but the shutdown is forced: exiting.")
        self._stopping = True
        self._supervisor.stopping()
        self._ports.close()
        self._node.stop()
        self._loop.create_task(self._leave(replicas_s))

    async def _leave(self, replicas_s: float) -> None:
        """Let the event loop read what has arrived, run it, send the replies, and end every connection.

        Replicas have so many seconds to take what was written last of all.
        """
        for _ in range(3):
            await asyncio.sleep(0)
        self._store.journal.drain()
        if replicas_s:
            await self._node.drain(replicas_s)
        self._loop.call_later(_LEAVING_S, self._loop.stop)
        self._connections.end_all(then=self._loop.stop)
