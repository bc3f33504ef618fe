"""Settings of replication: whom this server follows, what a replica does, and what a master does for its replicas.

Names, older names and limits are Redis's. Three differ from Redis's or are not in Redis:

    repl-backlog-size           256 MB, not 1: it bounds what is kept on disk for replicas that are away, not memory
    min-replicas-to-confirm     how many replicas must have a write on disk before its reply is sent
    repl-confirm-timeout        how many seconds a reply waits for them

A setting that only tunes how Redis itself replicates is inert, as in `inert_settings`.
"""

from collections.abc import Sequence
from typing import Any, Final

from headrace.engine.configuration.settings import (
    LONG_MAX,
    MEGABYTE,
    Choice,
    Integer,
    Memory,
    Secret,
    Setting,
    SettingRefused,
    Text,
    Words,
    YesNo,
)

_PORT: Final = 65535
_ONE_CONNECTION: Final = "a snapshot and what follows it come over one connection"
_CHECKED_FIRST: Final = "the data of before is replaced when a snapshot has come completely and was checked"


class MasterAddress(Words):
    """The host and the port of the server that this one follows; nothing, or `no one`: it follows none."""

    default: Any = ()

    def _parse(self, words: Sequence[str]) -> Any:
        words = [part for word in words for part in word.split()]  # a command line may have both in one argument
        if not words:
            return ()
        if len(words) != 2:
            raise SettingRefused("wrong number of arguments")
        host, port = words
        if (host.lower(), port.lower()) == ("no", "one"):
            return ()
        if not (port.isascii() and port.isdigit() and int(port) <= _PORT):
            raise SettingRefused("Invalid master port")
        return (host, str(int(port)))

    def lines(self, value: Any) -> list[str]:
        """Write the address; a server that follows none has no such line."""
        return [f"{self.name} {self.show(value)}"] if value else []


REPLICATION_SETTINGS: Final[tuple[Setting, ...]] = (
    # A replica.
    MasterAddress(name="replicaof", alias="slaveof", fixed=True),
    Secret(name="masterauth", alias="primaryauth"),
    Text(name="masteruser", alias="primaryuser"),
    Text(name="bind-source-addr"),
    YesNo(name="tls-replication", default=False),
    Text(name="tls-client-cert-file"),
    Text(name="tls-client-key-file"),
    Secret(name="tls-client-key-file-pass"),
    YesNo(name="replica-serve-stale-data", alias="slave-serve-stale-data", default=True),
    YesNo(name="replica-read-only", alias="slave-read-only", default=True),
    YesNo(name="replica-ignore-maxmemory", alias="slave-ignore-maxmemory", default=True),
    YesNo(name="replica-announced", default=True),
    Text(name="replica-announce-ip", alias="slave-announce-ip"),
    Integer(name="replica-announce-port", alias="slave-announce-port", default=0, most=_PORT),
    Integer(name="replica-priority", alias="slave-priority", default=100),
    YesNo(name="replica-lazy-flush", alias="slave-lazy-flush", default=False, inert=_CHECKED_FIRST),
    Choice(
        name="repl-diskless-load",
        default="disabled",
        choices=("disabled", "on-empty-db", "swapdb", "flush-before-load", "always"),
        inert=_CHECKED_FIRST,
    ),
    YesNo(
        name="replica-ignore-disk-write-errors",
        default=False,
        inert="a replica whose disk refuses waits with what its master sends, until the disk takes it",
    ),
    Memory(name="replica-full-sync-buffer-limit", default=0, inert=_ONE_CONNECTION),
    # A master.
    Integer(name="min-replicas-to-write", alias="min-slaves-to-write", default=0),
    Integer(name="min-replicas-max-lag", alias="min-slaves-max-lag", default=10),
    Integer(name="min-replicas-to-confirm", default=0),
    Integer(name="repl-confirm-timeout", default=10, least=1),
    Memory(name="repl-backlog-size", default=256 * MEGABYTE, least=1),
    Integer(name="repl-backlog-ttl", default=3600, most=LONG_MAX),
    YesNo(name="repl-diskless-sync", default=True),
    Integer(name="repl-diskless-sync-delay", default=5),
    Integer(name="repl-diskless-sync-max-replicas", default=0),
    YesNo(name="repl-disable-tcp-nodelay", default=False),
    Integer(name="shutdown-timeout", default=10),
    YesNo(name="repl-rdb-channel", default=False, inert=_ONE_CONNECTION),
    YesNo(name="dual-channel-replication-enabled", default=False, inert=_ONE_CONNECTION),
    YesNo(name="rdb-del-sync-files", default=False, inert="a snapshot for replicas has no name when it is sent"),
    # Both.
    Integer(name="repl-timeout", default=60, least=1),
    Integer(name="repl-ping-replica-period", alias="repl-ping-slave-period", default=10, least=1),
)
