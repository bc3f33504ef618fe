"""The server: one engine behind ports, and the clock that drives it.

    load     the data comes a step at a time, and clients are answered LOADING in between
    serve    connections come and go; ten times a second the engine does its chores; alarms wake clients that wait
    stop     by a signal or SHUTDOWN; see `shutdown`

Everything happens on the one thread of the event loop.
"""

import asyncio
import os
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import headrace
from headrace.engine.blocking.waking import run_due
from headrace.engine.configuration.config import Config
from headrace.engine.configuration.settings import SettingRefused
from headrace.engine.process import resident_bytes, return_free_memory
from headrace.engine.scripting.long_runs import CAN_PAUSE, LongRuns
from headrace.replication.confirmation import Confirmation
from headrace.replication.followers import Followers
from headrace.replication.link import Link
from headrace.replication.node import ReplicationNode
from headrace.replication.snapshot_clients import SnapshotClients
from headrace.server import garbage
from headrace.server.connections import Connections
from headrace.server.console_process import ConsoleProcess
from headrace.server.log import Log
from headrace.server.metrics.endpoint import MetricsEndpoint
from headrace.server.metrics.reading import Readings
from headrace.server.policy_file import PolicyFile
from headrace.server.ports import Ports
from headrace.server.shutdown import Shutdown
from headrace.server.supervision import Supervisor
from headrace.server.tls import make_client_context
from headrace.storage.assembly import assemble

new_event_loop: Callable[[], asyncio.AbstractEventLoop]
try:
    from uvloop import new_event_loop
except ImportError:
    from asyncio import new_event_loop

_THREADS: Final = 3  # that read and write segments
_FREEING_MS: Final = 1000  # how long at least between two attempts to give memory back


class Server:
    """See the module."""

    def __init__(self, config: Config, log: Log, supervisor: Supervisor) -> None:
        self.config = config
        self.log = log
        self._supervisor = supervisor
        self.engine, self.journal, self.store = assemble(config, log)
        self._home = Path.cwd()
        self._loop: asyncio.AbstractEventLoop = new_event_loop()
        self.connections = Connections(
            self.engine, self.journal, log, self._loop, count_handshakes=lambda: self.ports.handshakes
        )
        self.ports = Ports(config, log, self._loop, self.connections)
        link = Link(self.engine, self.store, log, self._loop, lambda: make_client_context(config))
        self.followers = Followers(self.engine, self.store, log, self._loop.call_soon)
        confirmation = Confirmation(self.engine, self.journal, self.followers, log)
        self.node = ReplicationNode(
            self.engine, self.followers, link, confirmation, log, call_soon=self._loop.call_soon
        )
        self._shutdown = Shutdown(
            self.store, supervisor, self._loop, self.connections, ports=self.ports, node=self.node
        )
        readings = Readings(self.engine, self.journal, self.followers)
        self.metrics = MetricsEndpoint(self.engine, log, self._loop, readings)
        self._console = ConsoleProcess(config, log)
        self._alarm: asyncio.TimerHandle | None = None
        self._freed_ms = 0
        self._fatal_error: Exception | None = None
        self.engine.chores.set_alarm = self._set_alarm
        self.engine.hooks.snapshot_sender = SnapshotClients(self.engine, self.followers.snapshots, log)
        self.engine.hooks.failure = self._log_failure
        self.engine.hooks.warning = log.warning
        self.engine.hooks.long_runs = LongRuns(self.engine, self._loop.call_soon) if CAN_PAUSE else None
        self._threads = ThreadPoolExecutor(_THREADS, "headrace-segments")
        self.engine.history.beside = self.store.offloading.beside = self.store.rewriting.beside = self._run_beside
        self.store.offloading.soon = self._loop.call_soon
        self.store.offloading.measure = resident_bytes
        self.engine.script_host.log = self._log_of_scripts
        path = config["policies"]
        self._policy_file = PolicyFile(self.engine, path, log) if path else None
        if self._policy_file is not None:
            self._shutdown.on_hangup = self._policy_file.reload
        config.report_inert = self._log_inert
        log.is_of_replica = lambda: self.engine.is_replica
        config.watch("loglevel", log.set_level)
        config.watch("dir", self._enter_directory)
        config.watch("maxmemory", lambda _: self._check_memory())

    def run(self) -> None:
        """Serve until a signal or SHUTDOWN ends it."""
        loop = self._loop
        asyncio.set_event_loop(loop)
        loop.set_exception_handler(self._report)
        self._shutdown.follow_signals()
        try:
            loop.create_task(self._load())
            self.connections.begin()
            self.ports.accept()
            self.metrics.accept()
            loop.call_soon(self._tick)
            garbage.begin()
            loop.run_forever()
            if self._fatal_error is not None:
                raise self._fatal_error
            self._threads.shutdown(cancel_futures=True)
            self.store.close()
            self.log.warning("Headrace is now ready to exit, bye bye...")
        finally:
            self._console.end()
            self.metrics.close()
            self.ports.close()
            self.ports.remove_path()
            self.connections.end()
            loop.close()

    async def _load(self) -> None:
        """Load the data a step at a time, so that clients are answered meanwhile, and begin to serve."""
        began = self._loop.time()
        try:
            for progress in self.store.open():
                self.store.progress = progress
                self._supervisor.loading(progress.done, progress.total)
                await asyncio.sleep(0)
                await self.store.offloading.catch_up()
        except Exception as error:  # noqa: BLE001 — raised again by `run`, where it ends the server
            self._fatal_error = error
            self._loop.stop()
            return
        self.store.progress = None
        self.journal.schedule = self._commit_soon
        self.journal.eager = True
        self._loop.add_reader(self.journal.fileno, self.journal.completed)
        keys = sum(len(db) for db in self.engine.databases)
        if keys:
            self.log.notice(f"{keys} keys loaded in {self._loop.time() - began:.3f} seconds")
        self._announce()
        self.node.start()
        if self._policy_file is not None:
            self._policy_file.watch()

    def _commit_soon(self, commit: Callable[[], None], in_a_turn: bool) -> None:
        """Commit when this turn of the event loop is over, or the next."""
        if in_a_turn:
            self._loop.call_soon(self._loop.call_soon, commit)
        else:
            self._loop.call_soon(commit)

    def _announce(self) -> None:
        self.log.notice(
            f"Headrace {headrace.__version__}, pid {os.getpid()}, {self.ports.shown}. Ready to accept connections"
        )
        self._console.start()
        self._supervisor.ready()

    def _run_beside(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Read or write files in a thread, so that nobody else waits for it."""
        self._loop.run_in_executor(self._threads, job).add_done_callback(lambda future: done(future.result()))

    # --- settings ----------------------------------------------------------------------------------------------

    def _log_inert(self, name: str) -> None:
        reason = self.config.settings[name].inert
        self.log.notice(f"CONFIG SET {name}: the value is kept, but it changes nothing here: {reason}.")

    def _enter_directory(self, path: str) -> None:
        try:
            os.chdir(self._home / path)  # which is `.` unless it was set
        except OSError as error:
            raise SettingRefused(os.strerror(error.errno or 0)) from None

    # --- time --------------------------------------------------------------------------------------------------

    def _set_alarm(self, when_ms: int) -> None:
        """Run what is due a moment later. If the timer is early, nothing is due and the alarm is set again."""
        if self._alarm is not None:
            self._alarm.cancel()
        delay_ms = max(when_ms - self.engine.clocks.steady_ms(), 0) + 1
        self._alarm = self._loop.call_later(delay_ms / 1000, run_due, self.engine)

    def _tick(self) -> None:
        self._loop.call_later(1 / self.config["hz"], self._tick)
        self.engine.tick()
        if not self.engine.loading and self.engine.busy is None:
            self.store.tick()
            self.followers.tick()
        elif self.engine.loading:
            self.store.offloading.tick()  # what is loaded may be more than memory takes
        self.node.tick()
        self._check_memory()
        self.connections.tick()
        self._console.tick()
        self._supervisor.tick()
        garbage.freeze_survivors()

    def _check_memory(self) -> None:
        clocks, stats = self.engine.clocks, self.engine.stats
        self.engine.freeing.return_now_and_then(clocks.steady_now_ms, stats.commands)
        limit = self.config["maxmemory"]
        if self.store.offloading.is_on:
            over = self.store.offloading.is_full
        else:
            over = bool(limit) and resident_bytes() > limit
        if over and self.engine.clocks.steady_now_ms - self._freed_ms >= _FREEING_MS:
            self._freed_ms = self.engine.clocks.steady_now_ms
            return_free_memory()
            over = resident_bytes() > limit
        ignored = self.engine.is_replica and self.config["replica-ignore-maxmemory"]
        self.engine.refusals.over_memory = over and not ignored

    # --- the log -----------------------------------------------------------------------------------------------

    def _report(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log what a connection's code did not expect; the event loop has ended that connection."""
        error = context.get("exception")
        if isinstance(error, OSError):
            self.log.debug(f"{context['message']}: {error}")
        else:
            self.log.warning(f"{context['message']}: {error!r}")

    def _log_of_scripts(self, level: int, text: bytes) -> None:
        """Write what a script has to say."""
        write = (self.log.debug, self.log.verbose, self.log.notice, self.log.warning)[level]
        write(text.decode("utf-8", "replace"))

    def _log_failure(self, command: bytes, bug: Exception) -> None:
        """Log an error of ours in a command, with where it happened."""
        where = "".join(traceback.format_exception(bug))
        self.log.warning(f"Command {command.decode()} failed: please report this.\n{where}")
