"""The master's side of replication: who follows, how far each has come, and what it is sent next.

    PSYNC ─┬─ continued ──────────────────────────────────┐
           └─ a snapshot ─► wait_bgsave ─► send_bulk ─────┤
                                                          ▼
                                                        online: from the file backlog, or from memory

A follower is a cursor: the offset up to which it was sent something. What comes next is read when its connection can
take it, from memory where that has it, else from the increments on disk, so that a slow follower takes no memory. One
for which neither has what it misses is disconnected, and gets a snapshot when it comes back.

Servers of other versions get no words that they do not know: the effect log uses the words that all followers know.
A follower that was away while words were used that it does not know gets a snapshot, too.
"""

import os
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Final

import headrace
from headrace.engine.client import Client
from headrace.engine.effect_log import EffectLog
from headrace.engine.engine import Engine
from headrace.formats.stream_value import Form
from headrace.replication.backlog import Backlog
from headrace.replication.file_backlog import FileBacklog, FileBacklogReader, NotKept
from headrace.replication.outgoing_snapshots import OutgoingSnapshots, SnapshotFile, SnapshotKind
from headrace.session.session import Session
from headrace.storage.log import Log
from headrace.storage.store import Store

_MARK_BYTES: Final = 20  # random, of the mark behind a snapshot
_WORDS: Final = {"auto": len(Form)} | {form.server: number for number, form in enumerate(Form)}


class Follower:
    """One replica of this server: what it said of itself, and how far it is."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.announced_address = ""
        self.port = 0
        self.reads_early = False  # capa eof: it takes a snapshot of a length that nobody knows yet
        self.knows_histories = False  # capa psync2
        self.words = "7.0"  # the oldest server that it may be: a value of rdb-compatibility-version
        self.state = ""  # wait_bgsave, send_bulk or online, once it has sent PSYNC
        self.offset = 0  # acknowledged
        self.synced = 0  # acknowledged to be on its disk
        self.has_journal = False  # it has told how far its disk is
        self.heard_at = monotonic()

    @property
    def address(self) -> str:
        """Where it is, as it says, or as its connection does."""
        return self.announced_address or self.client.address.decode().rpartition(":")[0].strip("[]")

    @property
    def lag_s(self) -> int:
        """Seconds since it was last heard of."""
        return int(monotonic() - self.heard_at)


class _Outgoing:
    """The bytes for one connection, piece by piece, as it takes them: see `Session.send_from`."""

    endless = True

    def __init__(self, followers: "Followers", follower: Follower, sent: int, *, behind_snapshot: bool) -> None:
        self.sent = sent  # offset
        self.file: SnapshotFile | None = None
        self.awaits_file = behind_snapshot
        self.calls = False  # it has given everything; `_feed_all` is called when there is more
        self._followers = followers
        self._follower = follower
        self._head = b""
        self._mark = b""  # behind a snapshot of unknown length
        self._held_back = False  # until the follower has said that it has loaded
        self._reader: FileBacklogReader | None = None

    def send_file(self, file: SnapshotFile) -> None:
        """Send a snapshot before anything else."""
        self.file = file
        self.awaits_file = False
        if file.is_whole:
            self._head = b"$%d\r\n" % file.size
        else:
            self._mark = os.urandom(_MARK_BYTES).hex().encode()
            self._head = b"$EOF:%s\r\n" % self._mark

    def resume(self) -> None:
        """The follower has loaded: send what follows."""
        self._held_back = False

    def read(self, size: int) -> bytes:
        """Give the next bytes; none where there are none now."""
        self.calls = False
        if self._head:
            head, self._head = self._head, b""
            return head
        if self.file is not None:
            piece = self.file.read(size)
            if piece or not self.file.is_whole:
                if self.file.failed:
                    self._followers.disconnect(self._follower, "its snapshot could not be written")
                return piece
            self.file.close()
            self.file = None
            self._held_back = bool(self._mark)
            if self._mark:
                return self._mark
            self._followers.is_online(self._follower)
        return b"" if self._held_back or self.awaits_file else self._read_stream(size)

    def _read_stream(self, size: int) -> bytes:
        backlog = self._followers.backlog
        if self.sent >= backlog.start:
            self._reader = None
            piece = backlog.read(self.sent, size)
            self.calls = self.sent + len(piece) == backlog.end
        else:
            try:
                self._reader = self._reader or self._followers.read_files(self.sent)
                piece = self._reader.read(size)
            except NotKept:
                self._followers.lacks(self._follower)
                return b""
        self.sent += len(piece)
        return piece

    def close(self) -> None:
        """Read no more."""
        if self.file is not None:
            self.file.close()
            self.file = None


class _FollowerReceiver:
    """A follower that waits for a snapshot."""

    def __init__(self, followers: "Followers", follower: Follower, *, announce: bool) -> None:
        self._followers = followers
        self._follower = follower
        self._announce = announce

    @property
    def is_there(self) -> bool:
        return self._followers.has(self._follower)

    @property
    def reads_early(self) -> bool:
        return self._follower.reads_early and self._followers.engine.config["repl-diskless-sync"]

    def begun(self) -> None:
        effects = self._followers.engine.effects
        effects.select_anew()
        self._follower.state = "send_bulk"
        if self._announce:
            line = b"+FULLRESYNC %s %d\r\n" % (effects.history, effects.offset)
            self._followers.engine.push(self._follower.client, line)
        self._followers.begin_sending(self._follower, effects.offset, behind_snapshot=True)

    def keep_alive(self) -> None:
        if self._followers.waits_for_file(self._follower):
            self._followers.engine.push(self._follower.client, b"\n")

    def opened(self, file: SnapshotFile) -> None:
        self._followers.send_file(self._follower, file)

    def failed(self, reason: str) -> None:
        self._followers.disconnect(self._follower, f"its snapshot could not be written: {reason}")


class Followers:
    """See the module."""

    def __init__(
        self, engine: Engine, store: Store, log: Log, call_soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self.engine = engine
        self.backlog = Backlog()
        self.on_acknowledged: Callable[[], None] = lambda: None
        self._full_syncs = self._partial_syncs = self._refused_partial_syncs = 0
        self._store = store
        self._log = log
        self._call_soon = call_soon
        self._said: dict[Client, Follower] = {}  # what clients have said by REPLCONF
        self._attached: dict[Follower, _Outgoing | None] = {}
        self._files = FileBacklog(store.files)
        self._left_at = 0.0  # monotonic: when the last follower left
        self._pinged_at = 0.0
        self._rich_until = engine.effects.offset  # before this offset, words were used that not every follower knows
        self.snapshots = OutgoingSnapshots(store, log)
        self.backlog.on_more = self._feed_soon
        store.files.bytes_for_followers = self._bytes_to_keep
        config = engine.config
        config.watch("rdb-compatibility-version", lambda _: self._choose_words())
        config.watch("client-output-buffer-limit", lambda _: self._follow_limits())
        self._follow_limits()

    def _follow_limits(self) -> None:
        limit = self.engine.config["client-output-buffer-limit"]["slave"].hard
        self.backlog.most = max(limit or 1 << 40, self.backlog.least)

    # --- who there is ----------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Follower]:
        return (follower for follower in self._attached if self._is_connected(follower.client))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def has(self, follower: Follower) -> bool:
        """Whether a follower is attached."""
        return follower in self._attached

    def of(self, client: Client) -> Follower | None:
        """Find the follower that a client is; None where it is none."""
        follower = self._said.get(client)
        return follower if follower in self._attached else None

    def count_at(self, offset: int) -> int:
        """How many followers have acknowledged an offset."""
        return sum(follower.state == "online" and follower.offset >= offset for follower in self)

    def count_synced_at(self, offset: int) -> int:
        """How many followers have acknowledged that their disk has everything up to an offset."""
        return sum(follower.state == "online" and follower.synced >= offset for follower in self)

    def good_count(self, max_lag_s: int) -> int:
        """How many followers are online and were heard of in time."""
        return sum(follower.state == "online" and follower.lag_s <= max_lag_s for follower in self)

    def confirming_count(self, max_lag_s: int) -> int:
        """How many followers are online, tell how far their disks are, and were heard of in time."""
        return sum(
            follower.state == "online" and follower.has_journal and (not max_lag_s or follower.lag_s <= max_lag_s)
            for follower in self
        )

    def offset_synced_by(self, count: int) -> int:
        """Return the offset up to which so many followers have everything on disk."""
        synced = sorted((follower.synced for follower in self if follower.state == "online"), reverse=True)
        return synced[count - 1] if 0 < count <= len(synced) else 0

    @property
    def backlog_start(self) -> int:
        """The oldest offset from which a follower could continue."""
        on_disk = self._files.start if self._store.appends else None
        return self.backlog.start if on_disk is None else min(on_disk, self.backlog.start)

    @property
    def sync_counts(self) -> tuple[int, int, int]:
        """How often one got a snapshot, could continue, and could not."""
        return self._full_syncs, self._partial_syncs, self._refused_partial_syncs

    def backlog_fields(self) -> Iterator[tuple[str, object]]:
        """Give the fields of INFO replication about what is kept for followers."""
        start = self.backlog_start
        active = bool(self.backlog.capacity)
        yield "repl_backlog_active", int(active)
        yield "repl_backlog_size", self.engine.config["repl-backlog-size"]
        yield "repl_backlog_first_byte_offset", start + 1 if active else 0
        yield "repl_backlog_histlen", self.engine.effects.offset - start if active else 0

    # --- what they say ---------------------------------------------------------------------------------------------

    def said(self, client: Client, option: bytes, value: bytes) -> None:
        """Take what a client says of itself by REPLCONF."""
        follower = self._said.setdefault(client, Follower(client))
        if option == b"listening-port":
            follower.port = int(value)
        elif option == b"ip-address":
            follower.announced_address = value.decode("latin-1")
        elif option == b"capa" and value.lower() == b"eof":
            follower.reads_early = True
        elif option == b"capa" and value.lower() == b"psync2":
            follower.knows_histories = True
        elif option == b"capa" and value.lower() == b"rdb-channel-repl":
            self._prove(follower, "7.2")
        elif option == b"rdb-no-compress":
            self._prove(follower, "8.6")
        elif option == b"rdb-no-checksum":
            self._prove(follower, "8.8")
        elif option == b"headrace" and value == headrace.__version__.encode():  # another may not know all our words
            self._prove(follower, "auto")

    def _prove(self, follower: Follower, words: str) -> None:
        """Note that a follower is a server of at least some version."""
        if _WORDS[words] > _WORDS[follower.words]:
            follower.words = words

    def acknowledged(self, client: Client, offset: int, synced: int | None) -> None:
        """Note how far a follower is; nothing where the client is none."""
        follower = self.of(client)
        if follower is None:
            return
        follower.heard_at = monotonic()
        follower.offset = max(follower.offset, offset)
        if synced is not None:
            follower.has_journal = True
            follower.synced = max(follower.synced, synced)
            self._prove(follower, "7.2")
        source = self._attached[follower]
        if source is not None and follower.state == "send_bulk" and source.file is None and not source.awaits_file:
            source.resume()
            self.is_online(follower)
        self.on_acknowledged()

    # --- attaching -------------------------------------------------------------------------------------------------

    def attach(self, client: Client, history: bytes, offset: int) -> None:
        """Answer PSYNC: the client has what comes before an offset of a history, or nothing, and follows from now."""
        follower = self._said.setdefault(client, Follower(client))
        self._attach(follower)
        effects = self.engine.effects
        if self._can_continue(effects, follower, history, offset - 1):
            self._partial_syncs += 1
            name = b" " + effects.history if follower.knows_histories else b""
            client.reply.raw(b"+CONTINUE%s\r\n" % name)
            self._log.notice(
                f"Partial resynchronization request from {_named(follower)} accepted: "
                f"{effects.offset - offset + 1} bytes from offset {offset}"
            )
            follower.offset = offset - 1
            self.begin_sending(follower, offset - 1, behind_snapshot=False)
            self.is_online(follower)
            return
        if history != b"?":
            self._refused_partial_syncs += 1
            self._log.notice(f"{_named(follower)} cannot continue from offset {offset} of {history.decode('latin-1')}")
        self._send_snapshot(follower, announce=True)

    def sync(self, client: Client) -> None:
        """Answer SYNC: a snapshot, and what follows it."""
        follower = self._said.setdefault(client, Follower(client))
        follower.reads_early = False
        self._attach(follower)
        self._send_snapshot(follower, announce=False)

    def _attach(self, follower: Follower) -> None:
        follower.state = "wait_bgsave"
        follower.heard_at = monotonic()
        follower.client.is_follower = True
        self._attached[follower] = None
        self.keep_backlog()
        self._choose_words()

    def keep_backlog(self) -> None:
        """Keep what followers may miss, although there may be none yet."""
        self.engine.effects.subscribe(self.backlog)
        self.backlog.begin_at(self.engine.effects.offset)

    def _can_continue(self, effects: EffectLog, follower: Follower, history: bytes, has: int) -> bool:
        ends = dict(reversed(effects.ancestors)) | {effects.history: effects.offset}
        if has < 0 or has > ends.get(history, -1):
            return False
        if follower.words != "auto" and has < self._rich_until:
            return False
        return has >= self.backlog_start

    def _send_snapshot(self, follower: Follower, *, announce: bool) -> None:
        self._full_syncs += 1
        self._log.notice(f"Replica {_named(follower)} asks for synchronization: it gets a snapshot")
        configured = self.engine.config["rdb-compatibility-version"]
        words = min(configured, follower.words, key=_WORDS.__getitem__)
        self.snapshots.add(_FollowerReceiver(self, follower, announce=announce), SnapshotKind(compatibility=words))

    def begin_sending(self, follower: Follower, offset: int, *, behind_snapshot: bool) -> None:
        """Send a follower what comes after an offset, once it has its snapshot, if it gets one."""
        source = _Outgoing(self, follower, offset, behind_snapshot=behind_snapshot)
        self._attached[follower] = source
        channel = follower.client.channel
        if isinstance(channel, Session):
            channel.send_from(source)

    def send_file(self, follower: Follower, file: SnapshotFile) -> None:
        """Send a follower its snapshot."""
        source = self._attached.get(follower)
        if source is None:
            file.close()
            return
        source.send_file(file)
        self._feed(follower)

    def waits_for_file(self, follower: Follower) -> bool:
        """Whether a follower has got nothing of its snapshot yet."""
        source = self._attached.get(follower)
        return source is None or source.awaits_file

    def is_online(self, follower: Follower) -> None:
        """Note that a follower has its snapshot, or needs none."""
        if follower.state != "online":
            follower.state = "online"
            follower.heard_at = monotonic()
            self._log.notice(f"Synchronization with replica {_named(follower)} succeeded")
            self._call_soon(lambda: self._feed(follower))

    # --- words -----------------------------------------------------------------------------------------------------

    def _choose_words(self) -> None:
        """Let the effect log use the words that every follower knows."""
        effects = self.engine.effects
        configured = self.engine.config["rdb-compatibility-version"]
        words = min((configured, *(follower.words for follower in self)), key=_WORDS.__getitem__)
        if effects.vocabulary != words:
            self._rich_until = effects.offset
            effects.speak_to(words)

    # --- sending ---------------------------------------------------------------------------------------------------

    def read_files(self, offset: int) -> FileBacklogReader:
        """Read on disk from an offset on."""
        if not self._store.appends:
            raise NotKept
        return FileBacklogReader(self._files, offset)

    def lacks(self, follower: Follower) -> None:
        """Note that the files do not have what a follower misses: it gets a snapshot when it comes back."""
        self._files.floor = self.backlog.start
        self.disconnect(follower, "what it misses is not kept any more")

    def _feed_soon(self) -> None:
        self._call_soon(self._feed_all)

    def _feed_all(self) -> None:
        for follower in list(self._attached):
            self._feed(follower)
        if not self._store.appends:
            sources = [source.sent for source in self._attached.values() if source is not None]
            self.backlog.needed_from = min(sources, default=self.backlog.end)

    def _feed(self, follower: Follower) -> None:
        channel = follower.client.channel
        if isinstance(channel, Session) and channel.sends_file:
            channel.send_more()

    def request_acks(self) -> None:
        """Ask all followers how far they are."""
        self._write([b"REPLCONF", b"GETACK", b"*"])

    def _write(self, argv: list[bytes]) -> None:
        effects = self.engine.effects
        effects.write([(max(effects.selected, 0), argv)])

    # --- time ------------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Look for followers that have left or are silent, ping, and feed those that wait for the disk."""
        config = self.engine.config
        for client in [client for client in self._said if not self._is_connected(client)]:
            self._forget(client)
        for follower in list(self._attached):
            if follower.state == "online" and monotonic() - follower.heard_at > config["repl-timeout"]:
                self.disconnect(follower, "it was not heard of for repl-timeout")
        self.snapshots.tick()
        if self._attached and not self.engine.is_replica:
            if monotonic() - self._pinged_at >= config["repl-ping-replica-period"]:
                self._pinged_at = monotonic()
                self._write([b"PING"])
        elif not self._attached and self.backlog.capacity and not self.engine.is_replica:
            ttl = config["repl-backlog-ttl"]
            if ttl and monotonic() - self._left_at >= ttl:
                self.engine.effects.unsubscribe(self.backlog)
                self.backlog = Backlog()
                self.backlog.on_more = self._feed_soon
                self._follow_limits()
        self._feed_all()

    def _is_connected(self, client: Client) -> bool:
        return self.engine.clients.get(client.id) is client

    def _forget(self, client: Client) -> None:
        follower = self._said.pop(client)
        if follower in self._attached:
            del self._attached[follower]
            self._left_at = monotonic()
            self._log.notice(f"Connection with replica {_named(follower)} lost.")
            self._choose_words()

    def disconnect(self, follower: Follower, why: str) -> None:
        """End the connection of a follower."""
        self._log.warning(f"Disconnecting replica {_named(follower)}: {why}.")
        follower.client.channel.close()

    def disconnect_all(self, *, but: Client | None = None) -> None:
        """End the connections of all followers, and of clients that are about to be some: they come and ask anew.

        The facts about us that the latter got in the handshake are no longer true.
        """
        for client in list(self._said):
            if client is not but:
                client.channel.close()

    def _bytes_to_keep(self) -> int:
        """How much of the increments that are history is kept for followers."""
        ttl = self.engine.config["repl-backlog-ttl"]
        recent = self._left_at and (not ttl or monotonic() - self._left_at < ttl)
        return self.engine.config["repl-backlog-size"] if self._attached or recent else 0


def _named(follower: Follower) -> str:
    return f"{follower.address}:{follower.port}"
