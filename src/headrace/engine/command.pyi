from collections.abc import Callable
from enum import IntEnum
from typing import final

from headrace.engine.call import Call

class Flag(IntEnum):
    WRITE = 1
    READ = 2
    DENY_OOM = 4
    FAST = 8
    ADMIN = 16
    BLOCKING = 32
    NO_AUTH = 64
    NO_MULTI = 128
    IN_MULTI = 256
    LOADING = 512
    STALE = 1024
    PUBSUB = 2048
    NO_SCRIPT = 4096
    SKIP_SLOWLOG = 8192
    MOVABLE_KEYS = 16384
    ALLOW_BUSY = 32768
    MAY_REPLICATE = 65536
    PROTECTED = 131072
    LENGTHY = 262144
    NO_MANDATORY_KEYS = 524288
    SKIP_MONITOR = 1048576
    READS_HISTORY = 2097152

@final
class Command:
    access: tuple[tuple[str, ...], ...]
    calls: int
    rejected: int
    failed: int
    nanoseconds: int
    def __init__(
        self,
        name: bytes,
        handler: Callable[[Call], None] | None,
        *,
        syntax: str,
        arity: int,
        flags: int,
        keys: tuple[int, int, int] | None = None,
        find_keys: Callable[[list[bytes]], list[bytes]] | None = None,
        reading: frozenset[bytes] | None = None,
        since: str = "1.0.0",
        group: str = "generic",
        summary: str = "",
    ) -> None: ...
    @property
    def name(self) -> bytes: ...
    @property
    def syntax(self) -> str: ...
    @property
    def arity(self) -> int: ...
    @property
    def flags(self) -> int: ...
    @property
    def handler(self) -> Callable[[Call], None] | None: ...
    @property
    def keys(self) -> tuple[int, int, int] | None: ...
    @property
    def find_keys(self) -> Callable[[list[bytes]], list[bytes]] | None: ...
    @property
    def reading(self) -> frozenset[bytes] | None: ...
    @property
    def since(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def subcommands(self) -> dict[bytes, Command]: ...
    def latencies(self) -> list[tuple[int, int]]: ...
    def forget_calls(self) -> None: ...
    def accepts(self, arguments: int) -> bool: ...
    def keys_in(self, argv: list[bytes]) -> list[bytes]: ...
