"""Configuration: what can be set, what is in force, and which parts must know when it changes.

The settings have redis-server's names, defaults and limits, except where Headrace decides otherwise: it listens on the
loopback only, and a feature that it does not have cannot be switched on.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from headrace.core.errors import HeadraceError
from headrace.engine.configuration.inert_settings import FORGOTTEN, INERT_SETTINGS, refusal_of
from headrace.engine.configuration.replication_settings import REPLICATION_SETTINGS
from headrace.engine.configuration.settings import (
    INT_MAX,
    LONG_MAX,
    MEGABYTE,
    ULONG_MAX,
    Choice,
    Directory,
    EventClasses,
    FileName,
    Integer,
    Memory,
    OutputLimit,
    OutputLimits,
    Percentiles,
    Permissions,
    SavePoints,
    Secret,
    Setting,
    SettingRefused,
    ShutdownFlags,
    Text,
    Words,
    YesNo,
)
from headrace.engine.glob import matcher

_BASES_ARE_RDB = (
    "Headrace writes bases as RDB only, since commands cannot carry all that a stream has: tombstones, times of "
    "consumers, records of deleted entries"
)
_NOTHING_EVICTED = "Headrace never evicts data: the policies are noeviction and offload"

SYSLOG_FACILITIES: Final = ("user", *(f"local{number}" for number in range(8)))
# What redis-server does where `save` is not given. Headrace needs it only without its append-only file.
USUAL_SAVE_POINTS: Final = ("3600", "1", "300", "100", "60", "10000")

SETTINGS: Final[tuple[Setting, ...]] = (
    # Where to listen, and to whom.
    Words(name="bind", default=("127.0.0.1", "-::1")),
    Integer(name="port", default=6379, most=65535),
    Text(name="unixsocket", fixed=True),
    Text(name="unixsocketgroup", fixed=True),
    Permissions(name="unixsocketperm", fixed=True),
    Integer(name="tcp-backlog", default=511, fixed=True),
    Integer(name="tcp-keepalive", default=300),
    Integer(name="tls-port", default=0, most=65535),
    Text(name="tls-cert-file"),
    Text(name="tls-key-file"),
    Secret(name="tls-key-file-pass"),
    Text(name="tls-ca-cert-file"),
    Text(name="tls-ca-cert-dir"),
    Choice(name="tls-auth-clients", default="yes", choices=("no", "yes", "optional")),
    Words(name="tls-protocols", default=()),
    Text(name="tls-ciphers"),
    YesNo(name="tls-prefer-server-ciphers", default=False),
    Text(name="tls-dh-params-file"),
    YesNo(name="protected-mode", default=True),
    Secret(name="requirepass"),
    Text(name="aclfile", fixed=True),
    Text(name="policies", fixed=True),
    Integer(name="console-port", default=0, most=65535, fixed=True),
    # Metrics; without addresses of their own, at those of `bind`.
    Integer(name="metrics-port", default=0, most=65535, fixed=True),
    Words(name="metrics-bind", default=(), fixed=True),
    Integer(name="metrics-max-streams", default=200, most=100_000),
    Integer(name="acllog-max-len", default=128, most=LONG_MAX),
    Choice(name="acl-pubsub-default", default="resetchannels", choices=("allchannels", "resetchannels")),
    # What a client may use.
    Integer(name="maxclients", default=10000, least=1, most=2**32 - 1),
    Integer(name="timeout", default=0),
    Memory(name="client-query-buffer-limit", default=1024 * MEGABYTE, least=MEGABYTE),
    OutputLimits(
        name="client-output-buffer-limit",
        default={
            "normal": OutputLimit(0, 0, 0),
            "slave": OutputLimit(256 * MEGABYTE, 64 * MEGABYTE, 60),
            "pubsub": OutputLimit(32 * MEGABYTE, 8 * MEGABYTE, 60),
        },
    ),
    Memory(name="proto-max-bulk-len", default=512 * MEGABYTE, least=MEGABYTE),
    Choice(name="enable-debug-command", default="no", choices=("no", "yes", "local"), fixed=True),
    Choice(name="enable-protected-configs", default="no", choices=("no", "yes", "local"), fixed=True),
    # The process.
    Directory(name="dir", guarded=True),
    YesNo(name="daemonize", default=False, fixed=True),
    Choice(name="supervised", default="no", choices=("upstart", "systemd", "auto", "no"), fixed=True),
    Text(name="pidfile", fixed=True),
    Text(name="logfile", fixed=True),
    Choice(name="loglevel", default="notice", choices=("debug", "verbose", "notice", "warning", "nothing")),
    YesNo(name="syslog-enabled", default=False, fixed=True),
    Text(name="syslog-ident", default="headrace", fixed=True),
    Choice(name="syslog-facility", default="local0", choices=SYSLOG_FACILITIES, fixed=True),
    ShutdownFlags(name="shutdown-on-sigint"),
    ShutdownFlags(name="shutdown-on-sigterm"),
    Integer(name="hz", default=10, clamp=(1, 500)),
    # Memory.
    Memory(name="maxmemory", default=0, most=ULONG_MAX),
    Choice(
        name="maxmemory-policy",
        default="noeviction",
        choices=(
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "noeviction",
            "offload",
        ),
        only=("noeviction", "offload"),
        because=_NOTHING_EVICTED,
    ),
    # The data.
    Integer(name="databases", default=16, least=1, most=65536, fixed=True),
    Memory(name="stream-node-max-bytes", default=4096),
    Integer(name="stream-node-max-entries", default=100, most=LONG_MAX),
    Integer(name="stream-idmp-duration", default=100, least=1, most=86400),
    Integer(name="stream-idmp-maxsize", default=100, least=1, most=10000),
    Integer(name="headrace-stage-ttl", default=3600, least=1),
    Memory(name="hll-sparse-max-bytes", default=3000),
    Integer(name="set-max-intset-entries", default=512, most=LONG_MAX),
    Integer(name="set-max-listpack-entries", default=128, most=LONG_MAX),
    Integer(name="set-max-listpack-value", default=64, most=LONG_MAX),
    Integer(name="hash-max-listpack-entries", default=512, most=LONG_MAX, alias="hash-max-ziplist-entries"),
    Integer(name="hash-max-listpack-value", default=64, most=LONG_MAX, alias="hash-max-ziplist-value"),
    Integer(name="zset-max-listpack-entries", default=128, most=LONG_MAX, alias="zset-max-ziplist-entries"),
    Integer(name="zset-max-listpack-value", default=64, most=LONG_MAX, alias="zset-max-ziplist-value"),
    Integer(name="list-max-listpack-size", default=-2, least=-INT_MAX - 1, alias="list-max-ziplist-size"),
    Integer(name="list-compress-depth", default=0, inert="lists are not compressed in memory"),
    EventClasses(name="notify-keyspace-events"),
    # Values are freed at once whatever these say; only Redis's latency would differ. Its test suite sets them.
    YesNo(name="lazyfree-lazy-eviction", default=False),
    YesNo(name="lazyfree-lazy-expire", default=False),
    YesNo(name="lazyfree-lazy-server-del", default=False),
    YesNo(name="lazyfree-lazy-user-del", default=False),
    YesNo(name="lazyfree-lazy-user-flush", default=False),
    # What to note of slow commands, and when a script is one.
    Integer(
        name="slowlog-log-slower-than",
        alias="commandlog-execution-slower-than",
        default=10000,
        least=-1,
        most=LONG_MAX,
    ),
    Integer(name="slowlog-max-len", alias="commandlog-slow-execution-max-len", default=128, most=LONG_MAX),
    Integer(name="slowlog-entry-max-argc", default=32, least=2),
    Integer(name="slowlog-entry-max-string-len", default=128),
    YesNo(name="latency-tracking", default=True),
    Percentiles(name="latency-tracking-info-percentiles", default=(50.0, 99.0, 99.9)),
    Integer(name="tracking-table-max-keys", default=1000000, most=LONG_MAX),
    Integer(name="latency-monitor-threshold", default=0, most=LONG_MAX),
    Integer(name="busy-reply-threshold", default=5000, most=LONG_MAX, alias="lua-time-limit"),
    Memory(name="lua-memory-limit", default=512 * MEGABYTE),
    # Snapshots and the append-only file.
    SavePoints(name="save", default=()),
    YesNo(name="stop-writes-on-bgsave-error", default=True),
    FileName(name="dbfilename", default="dump.rdb", guarded=True),
    YesNo(name="rdbcompression", default=True),
    Choice(name="rdb-compatibility-version", default="auto", choices=("auto", "7.0", "7.2", "8.6", "8.8")),
    YesNo(name="appendonly", default=True),
    Choice(name="appendfsync", default="always", choices=("everysec", "always", "no")),
    FileName(name="appendfilename", default="appendonly.aof", fixed=True),
    FileName(name="appenddirname", default="appendonlydir", fixed=True, what="dirname"),
    YesNo(name="aof-use-rdb-preamble", default=True, only=True, because=_BASES_ARE_RDB),
    YesNo(name="aof-load-truncated", default=True),
    Integer(name="aof-load-corrupt-tail-max-size", default=0),
    YesNo(
        name="no-appendfsync-on-rewrite",
        default=False,
        inert="a sync runs beside the loop, and never waits for a rewrite",
    ),
    Integer(name="auto-aof-rewrite-percentage", default=100),
    Memory(name="auto-aof-rewrite-min-size", default=64 * MEGABYTE),
    *REPLICATION_SETTINGS,
    *INERT_SETTINGS,
)

Watcher = Callable[[Any], None]


class UnknownSetting(HeadraceError, KeyError):
    """There is no setting of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class ChangeRefused(HeadraceError, ValueError):
    """A setting cannot have that value, or not any more: nothing was changed."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


def _unknown(name: str) -> UnknownSetting | ChangeRefused:
    """Say what is known of a name that is no setting."""
    refusal = refusal_of(name)
    return UnknownSetting(name) if refusal is None else ChangeRefused(name, refusal)


def _say_nothing(_name: str) -> None:
    """Report to nobody."""


class Config:
    """The settings in force. `config[name]` is a value of the type that the setting's kind reads."""

    def __init__(self) -> None:
        self.settings: dict[str, Setting] = {}
        for setting in SETTINGS:
            self.settings[setting.name] = setting
            if setting.alias is not None:
                self.settings[setting.alias] = setting
        self._values: dict[str, Any] = {setting.name: setting.default for setting in SETTINGS}
        self._watchers: dict[str, list[Watcher]] = {}
        self.users: list[list[str]] = []  # the words of each `user` directive
        self.renamed: list[tuple[str, str]] = []  # of each `rename-command`
        self.user_lines: Callable[[], list[str]] = list  # the `user` directives that CONFIG REWRITE writes
        self.file = ""  # that the host was started with
        self.rewrite_file: Callable[[], None] | None = None  # the host writes what is in force into it
        self.given: dict[str, None] = {}  # the settings and forgotten directives that were set at the start, in order
        self.report_inert: Callable[[str], None] = _say_nothing  # the host logs a change that changes nothing

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def watch(self, name: str, callback: Watcher) -> None:
        """Call back with the new value whenever the setting changes.

        A callback that cannot act on it raises SettingRefused, and the change is undone.
        """
        self._watchers.setdefault(name, []).append(callback)

    # --- seeing ----------------------------------------------------------------------------------------------------

    def shown(self, patterns: Iterable[str]) -> dict[str, str]:
        """Print the settings that patterns name, each once: a name without wildcards as it was written."""
        found: dict[str, str] = {}
        seen: set[str] = set()
        for pattern in patterns:
            for name in self._matching(pattern):
                if name.lower() not in seen:
                    seen.add(name.lower())
                    setting = self.settings[name.lower()]
                    found[name] = setting.show(self._values[setting.name])
        return found

    def _matching(self, pattern: str) -> list[str]:
        if not any(wildcard in pattern for wildcard in "[*?"):
            return [pattern] if pattern.lower() in self.settings else []
        matches = matcher(pattern.encode(errors="surrogateescape"), ignore_case=True)
        return [name for name in self.settings if matches(name.encode())]

    # --- changing --------------------------------------------------------------------------------------------------

    def load(self, name: str, words: list[str]) -> None:
        """Set a value at the start, when everything can be set and nobody watches yet."""
        if name.lower() == "user" and words:
            self.users.append(words)
            return
        if name.lower() == "rename-command" and len(words) == 2:
            self.renamed.append((words[0], words[1]))
            return
        if name.lower() in FORGOTTEN:
            self.given[name.lower()] = None
            return
        setting = self.settings.get(name.lower())
        if setting is None:
            raise _unknown(name)
        try:
            self._values[setting.name] = setting.read_line(words, self._values[setting.name])
        except SettingRefused as refusal:
            raise ChangeRefused(setting.name, str(refusal)) from None
        self.given[setting.name] = None

    @property
    def inert_given(self) -> list[str]:
        """The settings that were set at the start and change nothing."""
        return [name for name in self.given if name in FORGOTTEN or self.settings[name].inert]

    def keep_snapshots_as_redis(self) -> bool:
        """Set redis-server's save points where a file asks for no append-only file, and sets no save points."""
        due = not self["appendonly"] and "appendonly" in self.given and "save" not in self.given
        if due:
            self._values["save"] = USUAL_SAVE_POINTS
        return due

    def put(self, name: str, value: Any) -> None:
        """Give a setting, even a fixed one, the value that the server itself has chosen."""
        self._values[name] = value

    def set_many(self, changes: list[tuple[str, str]], *, guarded: bool = False) -> None:
        """Change settings, all or none; `guarded` ones only where the caller says so."""
        self._check_names([name for name, _ in changes], guarded)
        before = dict(self._values)
        changed: dict[str, None] = {}
        name = ""
        try:
            for name, text in changes:
                setting = self.settings[name.lower()]
                current = self._values[setting.name]
                value = setting.read(setting.words(text), current)
                if value != current:
                    self._values[setting.name] = value
                    changed[setting.name] = None
            for name in changed:
                self._announce(name)
                if self.settings[name].inert:
                    self.report_inert(name)
        except SettingRefused as refusal:
            self._values.update(before)
            for undone in changed:
                self._announce(undone)
            raise ChangeRefused(name.lower(), str(refusal)) from None

    def _check_names(self, names: list[str], guarded: bool) -> None:
        seen: set[str] = set()
        for name in names:
            setting = self.settings.get(name.lower())
            if setting is None:
                raise _unknown(name)
            if setting.fixed:
                raise ChangeRefused(name, "can't set immutable config")
            if setting.guarded and not guarded:
                raise ChangeRefused(name, "can't set protected config")
            if name.lower() in seen:
                raise ChangeRefused(name, "duplicate parameter")
            seen.add(name.lower())

    def _announce(self, name: str) -> None:
        for callback in self._watchers.get(name, ()):
            callback(self._values[name])
