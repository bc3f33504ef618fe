"""The server: one engine behind listeners, and the clock that it lives by.

    start     configuration, directory, limits of the system, sockets: what is wrong is one sentence, and nothing runs
    run       connections come and go; ten times a second the engine does its chores; alarms wake clients that wait
    stop      SIGTERM, SIGINT or SHUTDOWN: no more connections, what has arrived is run, replies leave, then the end

Everything happens on the one thread of the event loop. A second SIGINT ends at once. SIGHUP and SIGUSR1, by which other
servers open their logs anew, change nothing: the log is opened for each line.
"""

import asyncio
import os
import resource
import signal
import socket
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

import headrace
from headrace.core.errors import HeadraceError
from headrace.engine.acl.users import BadUsers
from headrace.engine.blocking.waking import run_due
from headrace.engine.client import Client
from headrace.engine.configuration.config import Config
from headrace.engine.configuration.settings import SettingRefused
from headrace.engine.engine import Engine
from headrace.engine.errors import CommandError
from headrace.engine.process import resident_bytes, return_free_memory
from headrace.engine.scripting.long_runs import LongRuns
from headrace.server import redis_conf
from headrace.server.connection import Connection
from headrace.server.listeners import CannotListen, open_tcp, open_unix
from headrace.server.log import Log
from headrace.server.protection import DENIED, is_denied
from headrace.server.supervision import Supervisor, go_to_background
from headrace.server.tls import TlsPort
from headrace.server.transfers import Transfers
from headrace.session.session import Limits
from headrace.storage.assembly import assemble

new_event_loop: Callable[[], asyncio.AbstractEventLoop]
try:
    from uvloop import new_event_loop
except ImportError:
    from asyncio import new_event_loop

_TOO_MANY: Final = b"-ERR max number of clients reached\r\n"
_ACCEPTED_AT_ONCE: Final = 2  # by asyncio's own event loop, each for three turns before it can be refused
_OWN_DESCRIPTORS: Final = 32  # for listeners, files and the event loop, beside those of clients
_STRANGER_MS: Final = 5000  # how long a client that has not logged in keeps its place when there are too many
_LEAVING_S: Final = 10  # how long a client may take to read its last replies
_FREEING_MS: Final = 1000  # how long at least between two attempts to give memory back


class CannotServe(HeadraceError):
    """The server cannot start; the text is one sentence for a person."""


class _LoopConnection(Connection, asyncio.BufferedProtocol):
    """A connection that asyncio's own event loop recognises as a buffered protocol; uvloop needs no such mark."""


class Server:
    """See the module."""

    def __init__(self, config: Config, log: Log, supervisor: Supervisor) -> None:
        self.config = config
        self.log = log
        self._supervisor = supervisor
        self.engine, self.journal, self.store = assemble(config, log)
        self._transfers = Transfers(self.engine, self.store, log)
        self._home = Path.cwd()
        self.limits = Limits()
        self._loop: asyncio.AbstractEventLoop = new_event_loop()
        self._connections: dict[Connection, Any] = {}  # and their transports
        self._congested: set[Connection] = set()
        self._tcp: list[socket.socket] = []
        self._unix: list[socket.socket] = []
        self._acceptors: dict[socket.socket, asyncio.AbstractServer] = {}
        self._bound: tuple[tuple[str, ...], int] = ((), 0)
        self._tls = TlsPort(config, log, self._loop, self._make_connection, self._has_room_for_handshake)
        self._alarm: asyncio.TimerHandle | None = None
        self._freed_ms = 0
        self._idle_checked_ms = 0
        self._stopping = False
        self._leaving = False  # what had arrived was run: only connections remain to be ended
        self._stopped_by_interrupt = False
        self._fatal_error: Exception | None = None
        self.engine.chores.set_alarm = self._set_alarm
        self.engine.shutdown_hook = self._shut_down
        self.engine.snapshot_sender = self._transfers
        self.engine.failure_hook = self._log_failure
        self.engine.long_runs = LongRuns(self.engine, self._loop.call_soon)
        self.engine.script_host.log = self._log_of_scripts
        self._follow_configuration()

    # --- configuration -----------------------------------------------------------------------------------------

    def _follow_configuration(self) -> None:
        watch = self.config.watch
        self.config.report_inert = self._log_inert
        watch("loglevel", self.log.set_level)
        watch("dir", self._enter_directory)
        watch("port", self._listening_changed)
        watch("bind", self._listening_changed)
        watch("maxclients", self._max_clients_changed)
        watch("maxmemory", lambda _: self._check_memory())
        for name in ("client-query-buffer-limit", "client-output-buffer-limit", "proto-max-bulk-len", "repl-timeout"):
            watch(name, self._limits_changed)
        self._limits_changed(None)

    def _log_inert(self, name: str) -> None:
        reason = self.config.settings[name].inert
        self.log.notice(f"CONFIG SET {name}: the value is kept, but it changes nothing here: {reason}.")

    def _enter_directory(self, path: str) -> None:
        try:
            os.chdir(self._home / path)  # which is `.` unless it was set
        except OSError as error:
            raise SettingRefused(os.strerror(error.errno or 0)) from None

    def _limits_changed(self, _value: object) -> None:
        output = self.config["client-output-buffer-limit"]["normal"]
        self.limits.query_buffer = self.config["client-query-buffer-limit"]
        self.limits.bulk = self.config["proto-max-bulk-len"]
        self.limits.output_hard = output.hard
        self.limits.output_soft = output.soft
        self.limits.output_soft_ms = output.seconds * 1000
        listeners = self.config["client-output-buffer-limit"]["pubsub"]
        self.limits.pubsub_hard = listeners.hard
        self.limits.pubsub_soft = listeners.soft
        self.limits.pubsub_soft_ms = listeners.seconds * 1000
        self.limits.untaken_ms = self.config["repl-timeout"] * 1000
        for connection in self._connections:
            connection.follow_limits()

    def _max_clients_changed(self, clients: int) -> None:
        possible = _raise_descriptor_limit(clients)
        if possible < clients:
            raise SettingRefused(
                f"The operating system is not able to handle the specified number of clients, try with {possible}"
            )

    def _listening_changed(self, _value: object) -> None:
        """Listen elsewhere: the new sockets first, so that a failure leaves the old ones."""
        addresses, port = self.config["bind"], self.config["port"]
        if (addresses, port) == self._bound:
            return
        kept = self._tcp
        if port == self._bound[1]:  # the same port cannot be bound twice on an address that stays
            self._close_listeners(kept)
            kept = []
        try:
            self._tcp = open_tcp(addresses, port, self.config["tcp-backlog"]) if port else []
        except CannotListen as error:
            self.log.warning(str(error))
            if not kept:
                self._tcp = open_tcp(*self._bound, self.config["tcp-backlog"])
                self._accept(self._tcp)
            raise SettingRefused(
                "Unable to listen on this port. Check server logs."
                if port != self._bound[1]
                else "Failed to bind to specified addresses."
            ) from None
        self._close_listeners(kept)
        self._bound = (addresses, port)
        self._accept(self._tcp)

    # --- listening ---------------------------------------------------------------------------------------------

    def listen(self) -> None:
        """Open the sockets that the configuration asks for."""
        addresses, port, path = self.config["bind"], self.config["port"], self.config["unixsocket"]
        backlog = self.config["tcp-backlog"]
        if port and addresses:
            self._tcp = open_tcp(addresses, port, backlog)
        if path:
            group, permissions = self.config["unixsocketgroup"], self.config["unixsocketperm"]
            self._unix = [open_unix(path, permissions, backlog, group)]
        self._tls.listen()
        if not self._tcp and not self._unix and not self._tls.is_open:
            raise CannotServe("There is nowhere to listen: give a port and an address to bind, or a unixsocket.")
        self._bound = (addresses, port)

    def _accept(self, listeners: list[socket.socket]) -> None:
        for listener in listeners:
            self._loop.create_task(self._accept_on(listener))

    async def _accept_on(self, listener: socket.socket) -> None:
        create: Callable[..., Any] = (
            self._loop.create_unix_server if listener.family == socket.AF_UNIX else self._loop.create_server
        )
        self._acceptors[listener] = await create(self._make_connection, sock=listener, backlog=_ACCEPTED_AT_ONCE)
        listener.listen(self.config["tcp-backlog"])  # which is the system's queue; asyncio takes so many at once, too

    def _make_connection(self) -> Connection:
        return _LoopConnection(self.engine, self.journal, self, self.limits)

    def _close_listeners(self, listeners: list[socket.socket]) -> None:
        for listener in listeners:
            acceptor = self._acceptors.pop(listener, None)
            if acceptor is not None:
                acceptor.close()
            listener.close()

    # --- what connections ask for ------------------------------------------------------------------------------

    def refusal(self, transport: asyncio.Transport) -> bytes | None:
        """Say why a new connection cannot stay; None where it can."""
        taken = len(self._connections) + self._tls.handshakes
        if transport.get_extra_info("sslcontext") is not None:
            taken -= 1  # its own handshake
        if taken >= self.config["maxclients"] and not self._end_a_stranger():
            self.engine.stats.rejected_connections += 1
            return _TOO_MANY
        peer = transport.get_extra_info("peername")
        password = not self.engine.users.default.no_password
        if is_denied(peer, protected=self.config["protected-mode"], password=password):
            self.engine.stats.rejected_connections += 1
            return DENIED
        return None

    def _has_room_for_handshake(self) -> bool:
        """Whether one more TLS handshake may begin: handshakes may take a quarter of the places for clients."""
        most = self.config["maxclients"]
        room = self._tls.handshakes < max(most // 4, 1) and (
            len(self._connections) + self._tls.handshakes < most or self._end_a_stranger()
        )
        if not room:
            self.engine.stats.rejected_connections += 1
        return room

    def _end_a_stranger(self) -> bool:
        """End a client that had time to log in and has not, to make room for a new one; False: there is none."""
        until_ms = self.engine.steady_ms() - _STRANGER_MS
        for connection, transport in self._connections.items():
            client = connection.client
            if not client.authenticated and client.created_ms <= until_ms and not transport.is_closing():
                self.log.verbose(f"Closing client that has not logged in, to make room: {_shown(client)}")
                transport.abort()
                return True
        return False

    def welcome(self, connection: Connection, transport: asyncio.Transport) -> None:
        """Take note of a new connection, and prepare its socket."""
        self._connections[connection] = transport
        client = connection.client
        opened = transport.get_extra_info("socket")
        if opened.family == socket.AF_UNIX:
            client.address = client.local_address = os.fsencode(self.config["unixsocket"]) + b":0"
        else:
            client.address = _shown_address(transport.get_extra_info("peername"))
            client.local_address = _shown_address(transport.get_extra_info("sockname"))
            self._keep_alive(opened)
        self.log.verbose(f"Accepted {client.address.decode()}")

    def _keep_alive(self, opened: socket.socket) -> None:
        interval = self.config["tcp-keepalive"]
        if interval:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, min(interval, 32767))
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, min(max(interval // 3, 1), 32767))
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)

    def farewell(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self._connections.pop(connection, None)
        self._congested.discard(connection)
        if self._leaving and not self._connections:
            self._loop.stop()

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back when the event loop has a moment."""
        self._loop.call_soon(callback)

    def flush_soon(self) -> None:
        """Send all replies when the event loop has read what has arrived."""
        self._loop.call_soon(self.engine.flush_clients)

    def congested(self, connection: Connection) -> None:
        """Measure at each tick what a connection leaves unread."""
        self._congested.add(connection)

    def relieved(self, connection: Connection) -> None:
        """No longer measure it."""
        self._congested.discard(connection)

    def left_too_much(self, client: Client) -> None:
        """Note that a client was disconnected for what it did not read."""
        self.engine.stats.output_limit_closed += 1
        self.log.warning(f"Client {_shown(client)} scheduled to be closed ASAP for overcoming of output buffer limits.")

    def sent_too_much(self, client: Client) -> None:
        """Note that a client was disconnected for a request, or a transaction, without end."""
        self.engine.stats.query_limit_closed += 1
        self.log.warning(f"Closing client that reached max query buffer length: {_shown(client)}")

    def could_not_hold(self, client: Client) -> None:
        """Note that a client was disconnected because there was no memory for its request."""
        self.log.warning(f"Closing client because there is no memory for its request: {_shown(client)}")

    def could_not_read(self, client: Client) -> None:
        """Note that a client was disconnected because the file could not be read that it was sent."""
        self.log.warning(f"Closing client because the file of its snapshot cannot be read: {_shown(client)}")

    def took_nothing(self, client: Client) -> None:
        """Note that a client was disconnected because it did not read the file that it was sent."""
        self.log.warning(f"Closing client that took nothing of its snapshot for repl-timeout: {_shown(client)}")

    # --- time --------------------------------------------------------------------------------------------------

    def _set_alarm(self, when_ms: int) -> None:
        """Ring when a moment is over. Should a timer be early, ringing finds nothing due and sets the alarm again."""
        if self._alarm is not None:
            self._alarm.cancel()
        delay_ms = max(when_ms - self.engine.steady_ms(), 0) + 1
        self._alarm = self._loop.call_later(delay_ms / 1000, run_due, self.engine)

    def _tick(self) -> None:
        self._loop.call_later(1 / self.config["hz"], self._tick)
        self.engine.tick()
        if not self.engine.loading and self.engine.busy is None:
            self.store.tick()
            self._transfers.tick()
        self._check_memory()
        for connection in list(self._congested):
            connection.check_output()
        if self.config["timeout"] and self.engine.steady_now_ms - self._idle_checked_ms >= 1000:
            self._idle_checked_ms = self.engine.steady_now_ms
            self._close_idle(self.engine.steady_now_ms - self.config["timeout"] * 1000)

    def _close_idle(self, since_ms: int) -> None:
        for connection in list(self._connections):
            client = connection.client
            busy = client.wait is not None or client.postponed is not None or client.subscribed
            if client.active_ms < since_ms and not busy:
                self.log.verbose(f"Closing idle client {_shown(client)}")
                connection.close_after_replies()

    def _check_memory(self) -> None:
        limit = self.config["maxmemory"]
        over = bool(limit) and resident_bytes() > limit
        if over and self.engine.steady_now_ms - self._freed_ms >= _FREEING_MS:
            self._freed_ms = self.engine.steady_now_ms
            return_free_memory()
            over = resident_bytes() > limit
        self.engine.over_memory = over

    # --- beginning and end -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until a signal or SHUTDOWN ends it."""
        loop = self._loop
        asyncio.set_event_loop(loop)
        loop.set_exception_handler(self._report)
        for number in (signal.SIGHUP, signal.SIGUSR1):  # a terminal that closes does not end a server, nor logrotate
            signal.signal(number, signal.SIG_IGN)
        loop.add_signal_handler(signal.SIGTERM, self._signalled, signal.SIGTERM)
        loop.add_signal_handler(signal.SIGINT, self._signalled, signal.SIGINT)
        try:
            loop.create_task(self._load())
            self._accept(self._tcp + self._unix)
            self._tls.accept()
            loop.call_soon(self._tick)
            loop.run_forever()
            if self._fatal_error is not None:
                raise self._fatal_error
            self.store.close()
            self.log.warning("Headrace is now ready to exit, bye bye...")
        finally:
            self._close_listeners(self._tcp + self._unix)
            self._tls.close()
            if self._unix:
                Path(self.config["unixsocket"]).unlink(missing_ok=True)
            loop.close()

    async def _load(self) -> None:
        """Load the data a step at a time, so that clients are answered meanwhile, and begin to serve."""
        began = self._loop.time()
        try:
            for progress in self.store.open():
                self.store.progress = progress
                self._supervisor.loading(progress.done, progress.total)
                await asyncio.sleep(0)
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

    def _commit_soon(self, commit: Callable[[], None], in_a_turn: bool) -> None:
        """Commit when this turn of the event loop is over, or the next."""
        if in_a_turn:
            self._loop.call_soon(self._loop.call_soon, commit)
        else:
            self._loop.call_soon(commit)

    def _announce(self) -> None:
        where = [f"port {self.config['port']}"] if self._tcp else []
        where += [f"TLS port {self.config['tls-port']}"] if self._tls.is_open else []
        where += [f"unix socket {self.config['unixsocket']}"] if self._unix else []
        self.log.notice(
            f"Headrace {headrace.__version__}, pid {os.getpid()}, {' and '.join(where)}. Ready to accept connections"
        )
        self._supervisor.ready()

    def _report(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log what a connection's code did not expect; the event loop has ended that connection."""
        error = context.get("exception")
        if isinstance(error, OSError):
            self.log.debug(f"{context['message']}: {error}")
        else:
            self.log.warning(f"{context['message']}: {error!r}")

    def _signalled(self, number: signal.Signals) -> None:
        if self._stopping:
            if number == signal.SIGINT and self._stopped_by_interrupt:
                self.log.warning("You insist... exiting now.")
                self._loop.stop()
            return
        self._stopped_by_interrupt = number == signal.SIGINT
        self.log.warning(f"Received {number.name} scheduling shutdown...")
        asked_for = self.config[f"shutdown-on-{number.name.lower()}"]
        save = True if "save" in asked_for else False if "nosave" in asked_for else None
        try:
            self._shut_down(save)
        except CommandError:
            if "force" in asked_for:
                self.log.warning("Error trying to save the DB, but shutdown-on-… says force: exiting.")
                self._stop()
            else:
                self.log.warning("Error trying to save the DB, can't exit.")

    def _shut_down(self, save: bool | None) -> None:
        """Save where asked for, or where there are save points and nothing else was asked for, and stop."""
        if self._stopping:
            return
        self.store.stop_jobs()
        half_done = self.engine.busy is not None and self.engine.script_host.has_written
        if not self.engine.loading and not half_done and (save or (save is None and self.config["save"])):
            self.store.save()
        self._stop()

    def _log_of_scripts(self, level: int, text: bytes) -> None:
        """Write what a script has to say."""
        write = (self.log.debug, self.log.verbose, self.log.notice, self.log.warning)[level]
        write(text.decode("utf-8", "replace"))

    def _log_failure(self, command: bytes, bug: Exception) -> None:
        """Log an error of ours in a command, with where it happened."""
        where = "".join(traceback.format_exception(bug))
        self.log.warning(f"Command {command.decode()} failed: please report this.\n{where}")

    def _stop(self) -> None:
        self._stopping = True
        self._supervisor.stopping()
        self.log.warning("User requested shutdown...")
        self._close_listeners(self._tcp + self._unix)
        self._tls.close()
        self._loop.create_task(self._leave())

    async def _leave(self) -> None:
        """Let the event loop read what has arrived, run it, send the replies, and end every connection."""
        for _ in range(3):
            await asyncio.sleep(0)
        self.journal.drain()
        self._leaving = True
        if not self._connections:
            self._loop.stop()
            return
        self._loop.call_later(_LEAVING_S, self._loop.stop)
        self.engine.flush_clients()
        for connection in list(self._connections):
            connection.close_after_replies()


def _shown_address(name: tuple[Any, ...] | None) -> bytes:
    """Write a socket's name as CLIENT LIST does."""
    if not name:
        return b"?:0"
    host, port = name[0], name[1]
    return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}").encode()


def _shown(client: Client) -> str:
    """Name a client in the log."""
    return f"id={client.id} addr={client.address.decode()} name={client.name.decode(errors='replace')}"


def _raise_descriptor_limit(clients: int) -> int:
    """Ask the system for descriptors for so many clients; return for how many there are."""
    needed = clients + _OWN_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        for most in (max(needed, hard), hard):  # without the right to raise the hard limit, as far as it goes
            with suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (min(needed, most), most))
                break
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return clients if soft == resource.RLIM_INFINITY or soft >= needed else soft - _OWN_DESCRIPTORS


def _prepare_directory(path: str) -> None:
    """Make the data directory the current one, and be sure that it can be written to."""
    try:
        os.chdir(path)
        with TemporaryFile(dir="."):
            pass
    except OSError as error:
        raise CannotServe(
            f"The directory {Path(path).absolute()} cannot be written to ({os.strerror(error.errno or 0)}); "
            "choose another with --dir."
        ) from None


def _prepare_users(engine: Engine) -> None:
    """Take over the users and the names of commands that the configuration asks for."""
    config = engine.config
    if config["aclfile"] and config.users:
        raise CannotServe("Users are declared both in the configuration and in an aclfile; keep them in one of these.")
    try:
        if config["aclfile"]:
            engine.users.load_file(config["aclfile"])
        elif config.users:
            engine.users.load_lines([list(map(os.fsencode, words)) for words in config.users], where="user directive")
    except BadUsers as error:
        raise CannotServe(str(error)) from None
    for name, called in config.renamed:
        try:
            engine.commands.rename(os.fsencode(name.lower()), os.fsencode(called.lower()))
        except ValueError as error:
            raise CannotServe(f"The directive 'rename-command {name} {called}' is refused: {error}.") from None


def serve(arguments: list[str]) -> None:
    """Run a server with redis-server's arguments until it is told to stop.

    What prevents it is raised before anything runs.
    """
    config = Config()
    file = redis_conf.load(config, arguments)
    as_redis_saves = False
    if file is not None:
        config.file = str(file)
        as_redis_saves = config.keep_snapshots_as_redis()
    supervisor = Supervisor(config["supervised"])
    let_go = go_to_background() if config["daemonize"] and supervisor.kind == "no" else None
    _prepare_directory(config["dir"])
    log = _open_log(config)
    if file is not None:
        config.rewrite_file = lambda: _rewrite_file(file, config, log)
    try:
        if supervisor.missing:
            log.warning(f"supervised {supervisor.missing}: nobody of that kind has started this process.")
        if config.inert_given:
            log.notice(f"These settings are kept, but change nothing here: {', '.join(config.inert_given)}.")
        if as_redis_saves:
            points = config.shown(["save"])["save"]
            log.notice(f"The file says `appendonly no` and nothing of `save`: as in redis-server it is {points}.")
        _run(config, log, supervisor, let_go)
    except Exception as error:
        if log.is_kept:  # the terminal, where it is said as well, may be gone
            log.warning(str(error))
        raise


def _rewrite_file(file: Path, config: Config, log: Log) -> None:
    try:
        redis_conf.rewrite_file(file, config)
    except OSError as error:
        log.warning(f"CONFIG REWRITE of {file} failed: {os.strerror(error.errno or 0)}")
        raise
    log.notice(f"CONFIG REWRITE has written {file}")


def _open_log(config: Config) -> Log:
    try:
        log = Log(config["logfile"], config["loglevel"])
    except OSError as error:
        raise CannotServe(
            f"The log file {config['logfile']} cannot be opened: {os.strerror(error.errno or 0)}."
        ) from None
    if config["syslog-enabled"]:
        log.use_syslog(config["syslog-ident"], config["syslog-facility"])
    return log


def _run(config: Config, log: Log, supervisor: Supervisor, let_go: Callable[[], None] | None) -> None:
    possible = _raise_descriptor_limit(config["maxclients"])
    if possible < config["maxclients"]:
        log.warning(f"The system lets a process have {possible} clients: maxclients is lowered to that.")
        config.load("maxclients", [str(max(possible, 1))])
    server = Server(config, log, supervisor)
    server.store.directory.lock()
    _prepare_users(server.engine)
    server.listen()
    pidfile = _write_pidfile(config["pidfile"], log)
    try:
        if let_go is not None:
            let_go()
        server.run()
    finally:
        if pidfile is not None:
            with suppress(OSError):
                pidfile.unlink()


def _write_pidfile(path: str, log: Log) -> Path | None:
    """Write the ID of this process; where that fails, serve nevertheless, as redis-server does."""
    if not path:
        return None
    pidfile = Path(path).absolute()  # the current directory may change
    try:
        pidfile.write_text(f"{os.getpid()}\n")
    except OSError as error:
        log.warning(f"Failed to write PID file {pidfile}: {os.strerror(error.errno or 0)}")
        return None
    return pidfile
