"""The link to a master: connect, say who we are, get its data, then follow what it does.

    connect ──► connecting ──► handshake ──► sync ──► connected
       ▲        TCP, TLS       PING, AUTH,   a whole  its stream, chunk by chunk;
       │                       REPLCONF      snapshot we acknowledge each second
       │                         └── PSYNC: continued ──►┘
       └── whatever ends it: one sentence for the log and INFO, then a pause that grows

`effects.history` and `effects.offset` name our data: PSYNC asks to continue there. A snapshot goes to a file, is read
by a child, and only then replaces the data; until that moment the old data stays as it is, in memory and on disk. Types
and commands of a Redis that we lack are left out, named in the log and counted, and the rest is applied.

One task of the event loop does it all, or waits while what comes is applied as it comes; nothing of a master is applied
when `stop` has returned.
"""

import asyncio
import os
import ssl
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Final

import headrace
from headrace.core.errors import HeadraceError
from headrace.engine.channel import ChannelFigures, ClosedChannel
from headrace.engine.client import Client
from headrace.engine.engine import Engine
from headrace.replication.applying import CannotApply, MasterApplier
from headrace.replication.file_backlog import count_behind
from headrace.replication.incoming_snapshot import BadSnapshot, IncomingSnapshot
from headrace.replication.lineage import Lineage
from headrace.replication.master_connection import LinkFailed, MasterConnection, shown
from headrace.replication.master_stream import BadStream
from headrace.storage.directory import explained
from headrace.storage.log import Log
from headrace.storage.store import Store

_CHUNK: Final = 1 << 17  # bytes of the stream that are applied before others have their turn, about
_ACKNOWLEDGE_S: Final = 1.0
_POLL_S: Final = 0.01
_WAITING: Final = 1 << 25  # bytes that may wait for the disk before no more is applied
_GREETINGS: Final = (b"+", b"-NOAUTH", b"-NOPERM", b"-ERR operation not permitted")
_IS_MASTER: Final = b"-ERR PSYNC FAILOVER can't be sent to a master."
_LATER: Final = (b"-NOMASTERLINK", b"-LOADING")
_STRANGERS: Final = (b"-NOAUTH", b"-NOPERM", b"-WRONGPASS")


class _MasterChannel(ClosedChannel):
    """The host's side of the client that CLIENT LIST shows for a master: replies to it go nowhere."""

    def __init__(self, link: "Link") -> None:
        self._link = link

    def close(self) -> None:
        """End the connection; another one is tried."""
        self._link.disconnect("a client ended the connection")

    def figures(self) -> ChannelFigures:
        """Say what CLIENT LIST shows of the connection."""
        return self._link.figures()


class Link:
    """See the module. `tls_context` makes what TLS needs, where `tls-replication` is set."""

    def __init__(
        self,
        engine: Engine,
        store: Store,
        log: Log,
        loop: asyncio.AbstractEventLoop,
        tls_context: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self.state = "connect"
        self.takes_over = False  # the next PSYNC asks the master to become one: FAILOVER
        self.on_up: Callable[[], None] = lambda: None
        self.on_down: Callable[[], None] = lambda: None
        self.on_full_sync: Callable[[], None] = lambda: None  # all data is about to be replaced
        self.on_takeover: Callable[[bool], None] = lambda _: None  # whether the master agreed to become one
        self.on_circle: Callable[[], None] = lambda: None  # the master follows us
        self.chain: tuple[str, ...] = ()  # run IDs of the servers above us: our master, its master, …
        self.first_pause_s, self.longest_pause_s = 1.0, 30.0  # between two attempts
        self.master_client: Client | None = None
        self.error = ""  # why there is no link; empty where there is one
        self._engine = engine
        self._config = engine.config
        self._effects = engine.effects
        self._store = store
        self._log = log
        self._loop = loop
        self._tls_context = tls_context
        self._master = ""  # host and port, as sentences name them
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._connection: MasterConnection | None = None
        self._ending = ""  # why we ended the connection ourselves
        self._pause_s = 0.0
        self._fruitful = False  # the attempt has got something from the master
        self._is_headrace = False  # the master is one
        self._branch: int | None = None  # the offset from which on the master has not what we have
        self._snapshot: IncomingSnapshot | None = None
        self._behind = b""  # what came together with the end of a snapshot
        self._loading = False
        self._applier = MasterApplier(engine, log)
        self._skipped_values = 0
        self._up_since = self._down_since = monotonic()
        self._unsynced: deque[tuple[int, int]] = deque()  # (position of the journal, offset)
        self._synced = 0  # the offset up to which our disk has everything
        self._attempts = self._total_attempts = 0
        store.on_synced.append(self._disk_has_more)

    # --- beginning and end -----------------------------------------------------------------------------------------

    def start(self, host: str, port: int) -> None:
        """Follow a server from now on, until `stop`."""
        self.stop()
        self._master = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.error = ""
        self._pause_s = 0.0
        self._attempts = 0
        self._down_since = monotonic()
        self._task = self._loop.create_task(self._follow(host, port))
        self._timer = self._loop.call_later(_ACKNOWLEDGE_S, self._tick)

    def stop(self) -> None:
        """Follow nobody; nothing more is applied when this returns, and half of a transaction is forgotten."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.state = "connect"
        self.error = ""
        self.chain = ()
        self._close()

    @property
    def is_up(self) -> bool:
        """Whether what the master does comes here."""
        return self.state == "connected"

    @property
    def last_io(self) -> float:
        """When the master last sent something, by the monotonic clock; where there is no connection, when it ended."""
        return self._connection.last_io if self._connection is not None else self._down_since

    def disconnect(self, reason: str) -> None:
        """End the connection; another one is tried."""
        if self._connection is not None:
            self._ending = reason
            self._connection.abort()

    async def _follow(self, host: str, port: int) -> None:
        while True:
            self._fruitful = False
            reason = await self._attempt(host, port)
            self._note_failure(reason)
            self.state = "connect"
            await asyncio.sleep(self._next_pause())

    def _next_pause(self) -> float:
        """How long to wait for the next attempt: not at all where the last one had a link for a while."""
        if self._fruitful:
            self._pause_s = 0.0
            return 0.0 if monotonic() - self._up_since >= self.first_pause_s else self.first_pause_s
        self._pause_s = min(max(self._pause_s * 2, self.first_pause_s), self.longest_pause_s)
        return self._pause_s

    async def _attempt(self, host: str, port: int) -> str:
        """Follow the master until something ends that; return what did, in one sentence."""
        self._attempts += 1
        self._total_attempts += 1
        self._ending = ""
        try:
            connection = self._connection = await self._connect(host, port)
            await self._shake_hands(connection)
            await self._synchronise(connection)
            await self._follow_stream(connection)
        except (BadSnapshot, BadStream, CannotApply) as error:
            reason = f"{self._master} cannot be followed: {error}"
        except HeadraceError as error:  # of the connection, the directory, or the settings of TLS
            reason = str(error).removesuffix(".")
        except Exception as bug:  # noqa: BLE001 — ours: it is told where, and the link is tried again
            where = "".join(traceback.format_exception(bug))
            self._log.warning(f"The link to {self._master} failed: please report this.\n{where}")
            reason = f"{self._master} cannot be followed because of an error of ours: {bug!r}"
        finally:
            if self._task is asyncio.current_task():  # else `stop` has ended this, and another task may be at work
                self._close()
        return self._ending or reason

    def _note_failure(self, reason: str) -> None:
        """Say once why there is no link: attempts that fail for the same reason follow each other for hours."""
        if reason != self.error:
            self._log.warning(f"{reason}. It is tried again; the data that is here stays.")
        self.error = reason

    def _close(self) -> None:
        """End what there is of a connection."""
        was_up = self.is_up
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()
        client, self.master_client = self.master_client, None
        if client is not None:
            self._engine.disconnect(client)
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            snapshot.discard()
        self._loading = False
        self._behind = b""
        self._applier.begin()
        if was_up:
            self.state = "connect"
            self._down_since = monotonic()
            self.on_down()

    async def _connect(self, host: str, port: int) -> MasterConnection:
        self.state = "connecting"
        config = self._config
        context = self._tls_context() if config["tls-replication"] and self._tls_context is not None else None
        return await MasterConnection.open(
            *(self._master, host, port),
            timeout_s=config["repl-timeout"],
            source=config["bind-source-addr"],
            context=context,
            ahead=_CHUNK,
        )

    # --- the handshake ---------------------------------------------------------------------------------------------

    async def _shake_hands(self, connection: MasterConnection) -> None:
        self.state = "handshake"
        connection.send([b"PING"])
        greeting = await connection.line()
        if not greeting.startswith(_GREETINGS):
            raise LinkFailed(f"{self._master} is no Redis: it answered PING with {shown(greeting)}")
        await self._introduce_ourselves(connection)
        lineage = Lineage()
        if self._is_headrace:
            connection.send([b"INFO", b"lineage"])
            lineage = Lineage.read(await connection.text())
        self._learn(lineage)

    async def _introduce_ourselves(self, connection: MasterConnection) -> None:
        """Say who we are; a master that does not know one of these answers an error, which is no harm."""
        config = self._config
        password, user = config["masterauth"], config["masteruser"]
        listening = config["tls-port" if config["tls-replication"] and config["tls-port"] else "port"]
        commands = [[b"REPLCONF", b"listening-port", b"%d" % (config["replica-announce-port"] or listening)]]
        if config["replica-announce-ip"]:
            commands.append([b"REPLCONF", b"ip-address", os.fsencode(config["replica-announce-ip"])])
        commands.append([b"REPLCONF", b"capa", b"eof", b"capa", b"psync2"])
        commands.append([b"REPLCONF", b"headrace", headrace.__version__.encode()])
        if password:
            login = [b"AUTH", os.fsencode(user), os.fsencode(password)] if user else [b"AUTH", os.fsencode(password)]
            connection.send(login, *commands)
            answer = await connection.line()
            if answer.startswith(b"-"):
                raise LinkFailed(f"{self._master} refused the password of masterauth: {shown(answer[1:])}")
        else:
            connection.send(*commands)
        for _ in commands:
            answer = await connection.line()
        self._is_headrace = answer.startswith(b"+")

    def _learn(self, lineage: Lineage) -> None:
        """End an attempt to follow ourselves, or a server that follows us; note where the master left our history.

        A replica that lags is waited for: what it has not yet got may be what we have confirmed.
        """
        own = self._engine.run_id
        self._branch = lineage.branch_of(self._effects)
        self.chain = lineage.chain_for(own)
        if self.takes_over:
            self.chain = self.chain[:1]  # it follows us, but not for long
        if own not in self.chain:
            if lineage.lags_behind(self._effects) and not self.takes_over:
                raise LinkFailed(f"{self._master} is itself a replica, and has not got yet what this server has")
            return
        if self.chain[0] == own:
            raise LinkFailed(f"{self._master} is this server itself, which cannot follow itself")
        self.on_circle()
        others = len(self.chain) - 2
        by_others = f" over {others} other server{'s' if others > 1 else ''}" if others else ""
        raise LinkFailed(
            f"{self._master} follows this server{by_others}: one server of this circle must become a master "
            "(REPLICAOF NO ONE)"
        )

    # --- what we get -----------------------------------------------------------------------------------------------

    async def _synchronise(self, connection: MasterConnection) -> None:
        """Ask to continue where we are; take whatever the master answers."""
        effects = self._effects
        takes_over = self.takes_over
        history = effects.history if takes_over else self._known_history()
        place = [history, b"%d" % (effects.offset + 1)] if self._has_place() else [b"?", b"-1"]
        connection.send([b"PSYNC", *place, *([b"FAILOVER"] if takes_over else [])])
        answer = await connection.line()
        words = answer.split()
        accepted = words[0] in (b"+CONTINUE", b"+FULLRESYNC")
        if takes_over:
            self._note_takeover(answer, accepted=accepted)
        if words[0] == b"+CONTINUE":
            self._continue(words[1] if len(words) > 1 else history)
        elif words[0] == b"+FULLRESYNC":
            await self._load_snapshot(connection, *_read_place(words[1:]))
        elif answer.startswith(_LATER):
            raise LinkFailed(await self._reason_to_wait(connection, answer))
        elif answer.startswith(_STRANGERS):
            raise LinkFailed(f"{self._master} refuses us, so that masterauth must be set: {shown(answer[1:])}")
        elif answer.startswith(b"-") and not takes_over:
            self._log.notice(f"{self._master} does not know PSYNC ({shown(answer[1:])}): all its data is asked for.")
            connection.send_raw(b"SYNC\r\n")
            await self._load_snapshot(connection, None, 0)
        else:
            raise LinkFailed(f"{self._master} answered PSYNC with {shown(answer)}")

    def _note_takeover(self, answer: bytes, *, accepted: bool) -> None:
        """Note whether the replica that we asked is the master now.

        One that is a master already has taken over when we asked before, and its answer was lost.
        """
        self.takes_over = False
        has_before = answer == _IS_MASTER
        self.on_takeover(accepted or has_before)
        if has_before:
            self._fruitful = True
            raise LinkFailed(f"{self._master} has taken over already")

    def _has_place(self) -> bool:
        """Whether the data is that of a place in a history, and not nothing, a part of a snapshot, or changed since."""
        effects = self._effects
        has_some = effects.offset > 0 or any(map(len, self._engine.databases))
        return has_some and effects.continuous and not self._engine.loading

    def _known_history(self) -> bytes:
        """Name our data as others know it: a history that we began and wrote nothing to is only a name."""
        effects = self._effects
        names = [effects.history, *(name for name, left_at in effects.ancestors if left_at == effects.offset)]
        return names[-1]

    async def _reason_to_wait(self, connection: MasterConnection, answer: bytes) -> str:
        """Say why a master cannot be followed yet; one that has no master itself may follow us, which is a circle."""
        if not answer.startswith(b"-NOMASTERLINK"):
            return f"{self._master} cannot be followed yet: {shown(answer[1:])}"
        connection.send([b"ROLE"])
        role = [await connection.line()]
        if role[0].startswith(b"*"):
            role += [await connection.line() for _ in range(5)]  # its role, host and, as a number, port
        told = b" ".join(line for line in role[1:] if not line.startswith(b"$"))
        about = ""
        match told.split():
            case [b"slave", host, port, *_]:
                about = f" of {host.decode('latin-1')}:{port[1:].decode('latin-1')}"
        return (
            f"{self._master} is itself a replica{about} and has no link to its master; where the chain of masters is a "
            "circle, one of them must follow nobody"
        )

    def _continue(self, history: bytes) -> None:
        self._effects.continue_as(_read_history(history))
        self._log.notice(f"{self._master} continues at offset {self._effects.offset + 1}: partial synchronisation.")

    async def _load_snapshot(self, connection: MasterConnection, history: bytes | None, offset: int) -> None:
        """Receive a snapshot, examine it, and let it replace the data."""
        self.state = "sync"
        header = await connection.line()
        if header.startswith(b"-"):
            raise LinkFailed(f"{self._master} sends no data: {shown(header[1:])}")
        path = self._store.incoming()
        snapshot = self._snapshot = IncomingSnapshot(header, self._store.directory.disk, path)
        size = f"{snapshot.size} bytes" if snapshot.size >= 0 else "a size that its end will tell"
        self._log.notice(f"Full synchronisation with {self._master}: a snapshot of {size} comes.")
        with explained("keep the snapshot of the master in", path.parent):
            self._behind = await snapshot.receive(connection.read)
        self._loading = True
        await self._examine(snapshot)
        await self._replace_data(snapshot, history, offset)
        self._fruitful = True
        self._loading = False
        snapshot.discard()
        self._snapshot = None

    async def _examine(self, snapshot: IncomingSnapshot) -> None:
        """Have the whole snapshot read before the data is given up."""
        with explained("examine", snapshot.path):
            job = self._store.examine(snapshot.path)
        try:
            while (outcome := job.poll()) is None:
                await asyncio.sleep(_POLL_S)
        except asyncio.CancelledError:
            job.kill()
            raise
        if outcome.error:
            raise BadSnapshot(f"of the snapshot that it sent: {outcome.error}")

    async def _replace_data(self, snapshot: IncomingSnapshot, history: bytes | None, offset: int) -> None:
        began = monotonic()
        self._count_lost()
        self.on_full_sync()
        steps = self._store.adopt(snapshot.path, history, offset)
        try:
            while True:
                self._store.progress = next(steps)
                await asyncio.sleep(0)
                await self._store.offloading.catch_up()
        except StopIteration as end:
            self._skipped_values += len(end.value.skipped)
            self._log.notice(
                f"{end.value.keys} keys of {self._master} loaded in {monotonic() - began:.3f} seconds; "
                f"the data is that of offset {offset}."
            )
        finally:
            self._store.progress = None

    def _count_lost(self) -> None:
        """Say what is dropped with our data because the master never got it."""
        if self._branch is None:
            return
        size = self._effects.offset - self._branch
        self._store.journal.drain()
        count = count_behind(self._store.files, self._branch) if self._store.appends else None
        effects = "effects" if count is None else f"{count} effects"
        self._log.warning(f"{self._master} never got {effects} of ours ({size} bytes): they are dropped with our data.")

    # --- the stream ------------------------------------------------------------------------------------------------

    async def _follow_stream(self, connection: MasterConnection) -> None:
        self._begin_stream(connection)
        chunk, self._behind = self._behind, b""
        while True:
            if chunk:
                while self._must_wait():
                    await asyncio.sleep(_POLL_S)
                    connection.note_life()
                self._apply(chunk)
            chunk = await connection.read_untaken(2 * _CHUNK, self._apply_now)
            if not chunk:
                raise LinkFailed(f"{self._master} ended the connection")

    def _apply_now(self, chunk: bytes) -> bool:
        """Apply what has just come, unless it has to wait."""
        if self._must_wait():
            return False
        self._apply(chunk)
        return True

    def _must_wait(self) -> bool:
        """Whether nothing may change now because a script is not over, or the disk is behind, or refuses."""
        journal = self._store.journal
        return self._engine.busy is not None or journal.buffered > _WAITING or (journal.failing and self._store.appends)

    def _begin_stream(self, connection: MasterConnection) -> None:
        self._applier.check_database()
        self._applier.begin()
        self._unsynced.clear()
        self._synced = min(self._synced, self._effects.offset)  # the data of before may have been further
        self._note_offset()
        self.state = "connected"
        self.error = ""
        self._attempts = 0
        self._up_since = monotonic()
        connection.note_life()
        client = self.master_client = self._engine.connect(_MasterChannel(self))
        client.address = self._master.encode()
        client.local_address = connection.local_address
        self._acknowledge(self._effects.offset)
        self._log.notice(f"The link to {self._master} is up.")
        self.on_up()

    def _apply(self, chunk: bytes) -> None:
        try:
            asked = self._applier.apply(chunk, self.master_client)
        finally:
            self._note_offset()
            self._store.journal.commit()  # all that has come is applied: nothing would come into the same group
        self._fruitful = True
        if self.master_client is not None:
            self.master_client.active_ms = self._engine.clocks.steady_now_ms
            self.master_client.db = self._engine.databases[self._applier.database]
        if asked is not None:
            self._acknowledge(asked)

    # --- acknowledging ---------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._timer = self._loop.call_later(_ACKNOWLEDGE_S, self._tick)
        connection = self._connection
        if connection is None:
            return
        if self._loading:
            connection.send_raw(b"\n")
            connection.note_life()
        elif monotonic() - connection.last_io > self._config["repl-timeout"]:
            self.disconnect(f"{self._master} has sent nothing for {self._config['repl-timeout']} seconds")
        elif self.is_up:
            self._acknowledge(self._effects.offset)

    def _acknowledge(self, offset: int) -> None:
        """Say how far we are, and how far our disk is."""
        synced = [b"FACK", b"%d" % self._synced] if self._store.appends else []
        if self._connection is not None:
            self._connection.send([b"REPLCONF", b"ACK", b"%d" % offset, *synced])

    def _note_offset(self) -> None:
        """Note which position of the journal the offset has now, to know when the disk has it."""
        self._unsynced.append((self._store.position, self._effects.offset))
        self._count_synced()

    def _count_synced(self) -> None:
        while self._unsynced and self._unsynced[0][0] <= self._store.synced:
            _, self._synced = self._unsynced.popleft()

    def _disk_has_more(self) -> None:
        if self.is_up:
            before = self._synced
            self._count_synced()
            if self._is_headrace and self._synced != before:
                self._acknowledge(self._effects.offset)

    # --- looking ---------------------------------------------------------------------------------------------------

    def figures(self) -> ChannelFigures:
        """Say what CLIENT LIST shows of the connection."""
        connection = self._connection
        if connection is None:
            return ClosedChannel().figures()
        unfinished = self._applier.unfinished
        return ChannelFigures(connection.descriptor, unfinished, 0, 0, 0, connection.bytes_in, connection.bytes_out)

    def fields(self) -> Iterator[tuple[str, object]]:
        """Give the fields of INFO replication that are about the master."""
        now = monotonic()
        offset = self._effects.offset
        snapshot = self._snapshot
        yield "master_link_status", "up" if self.is_up else "down"
        yield "master_last_io_seconds_ago", -1 if self._connection is None else int(now - self.last_io)
        yield "master_sync_in_progress", int(self.state == "sync")
        yield "slave_read_repl_offset", offset + self._applier.unfinished
        yield "slave_repl_offset", offset
        if snapshot is not None:
            known = max(snapshot.size, 0)
            yield "master_sync_total_bytes", known
            yield "master_sync_read_bytes", snapshot.received
            yield "master_sync_left_bytes", known - snapshot.received
            yield "master_sync_perc", f"{100 * snapshot.received / known:.2f}" if known else "0.00"
            yield "master_sync_last_io_seconds_ago", int(now - self.last_io)
        yield "master_current_sync_attempts", self._attempts
        yield "master_total_sync_attempts", self._total_attempts
        if not self.is_up:
            yield "master_link_down_since_seconds", int(now - self._down_since)
            yield "master_link_error", self.error
        yield "master_skipped_values", self._skipped_values
        yield "master_skipped_commands", self._applier.refused


def _read_history(word: bytes) -> bytes:
    if len(word) != 40 or not word.isalnum():
        raise LinkFailed(f"The master named its history {shown(word)}, which is none")
    return word


def _read_place(words: list[bytes]) -> tuple[bytes, int]:
    """Read what FULLRESYNC tells: a history, and the offset in it that the snapshot has."""
    if len(words) != 2 or not words[1].isdigit() or len(words[1]) > 18:
        raise LinkFailed(
            f"The master announced a snapshot of {shown(b' '.join(words))}, which is no place in a history"
        )
    return _read_history(words[0]), int(words[1])
