from enum import IntEnum
from typing import final

from headrace.engine.acl.rules import User
from headrace.engine.channel import Channel
from headrace.engine.command import Command
from headrace.engine.database import Database
from headrace.engine.hooks import SnapshotRequest
from headrace.engine.timers import Timer
from headrace.protocol.reply import ReplyWriter

class ReplyMode(IntEnum):
    REPLY_ON = 0
    REPLY_OFF = 1
    REPLY_SKIP_NEXT = 2
    REPLY_SKIP = 3

@final
class Wait:
    def __new__(
        cls, db: Database, argv: list[bytes], keys: list[bytes], kind: bytes, without_key: bool, deadline: int
    ) -> Wait: ...
    @property
    def db(self) -> Database: ...
    @property
    def argv(self) -> list[bytes]: ...
    @property
    def keys(self) -> list[bytes]: ...
    @property
    def kind(self) -> bytes: ...
    @property
    def without_key(self) -> bool: ...
    @property
    def deadline(self) -> int: ...
    timer: Timer | None
    disk_timer: Timer | None

@final
class Client:
    db: Database
    reply: ReplyWriter
    channel: Channel
    name: bytes
    address: bytes
    local_address: bytes
    library_name: bytes
    library_version: bytes
    authenticated: bool
    user: User
    guarded: bool
    snapshot_request: SnapshotRequest | None
    is_follower: bool
    is_master: bool
    subscribed: bool
    subscriptions: tuple[dict[bytes, None], ...] | None
    reply_mode: ReplyMode
    closing: bool
    no_evict: bool
    no_touch: bool
    created_ms: int
    active_ms: int
    last_command: bytes
    commands_run: int
    dirty: bool
    postponed: list[bytes] | None
    queue: list[tuple[Command, list[bytes]]] | None
    queue_failed: bool
    @property
    def watched(self) -> dict[Database, set[bytes]]: ...
    watch_failed: bool
    executing: bool
    wait: Wait | None
    blocked_ns: int
    retrying: bool
    told: int
    awaited_position: int
    awaited_offset: int
    write_offset: int
    def __new__(cls, id: int, db: Database, channel: Channel, steady_ms: int) -> Client: ...
    @property
    def id(self) -> int: ...
    @property
    def queued_bytes(self) -> int: ...
    @property
    def is_local(self) -> bool: ...
    def update_guard(self) -> int: ...
    def unwatch_all(self) -> None: ...
    def watch(self, key: bytes) -> None: ...
    def discard_transaction(self) -> None: ...
