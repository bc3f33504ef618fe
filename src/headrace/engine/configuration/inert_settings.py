"""Settings of Redis and Valkey that nothing here acts on, so that their configuration files start as they are.

    inert       every value that Redis takes is taken, shown and kept; the log says that it changes nothing, and why
    only        the one value that says "not this feature" is taken; any other is refused with the reason
    FORGOTTEN   directives that redis-server takes and forgets, and that are taken and forgotten here, too
    REFUSED     directives that are no settings here, and the sentence that refuses them

A value is inert when the server behaves as the operator expects whatever it is: it tunes something that is not here, or
that is done anyhow. A value that would change what clients or operators see is refused instead. Together with the
settings of `config.py` every directive of Redis 7.0 to 8.10 and of Valkey 8 is decided; tests/support/directives.py has
the list. A feature that is built takes its settings from here into `config.py`.
"""

from typing import Final

from headrace.engine.configuration.settings import (
    LONG_MAX,
    MEGABYTE,
    ULONG_MAX,
    Choice,
    Integer,
    Memory,
    OomScores,
    Setting,
    Text,
    YesNo,
)

_CLUSTER = "Headrace is not a node of a cluster"
_EVICTION = "nothing is evicted"
_DEFRAGMENTATION = "Python's allocator cannot be defragmented"
_THREADS = "one thread serves all clients"
_SYNCS = "files are synced when they are complete"
_LOOKS = "it only changes how the process is shown"
_NO_TYPE = "Headrace does not have this type"
_CPUS = "Headrace does not choose its processors; let taskset, or CPUAffinity= of systemd, do it"

_PORT = 65535

INERT_SETTINGS: Final[tuple[Setting, ...]] = (
    # The process.
    YesNo(name="always-show-logo", default=False, fixed=True, inert=_LOOKS),
    YesNo(name="set-proc-title", default=True, fixed=True, inert=_LOOKS),
    Text(name="proc-title-template", default="{title} {listen-addr} {server-mode}", inert=_LOOKS),
    YesNo(name="crash-log-enabled", default=True, inert="the system reports a crash"),
    YesNo(name="crash-memcheck-enabled", default=True, inert="the memory is not tested after a crash"),
    YesNo(name="hide-user-data-from-log", default=False, inert="the log never has data of users"),
    Text(name="ignore-warnings", inert="no warning stops the start"),
    Choice(
        name="oom-score-adj",
        default="no",
        choices=("no", "yes", "relative", "absolute"),
        only="no",
        because="Headrace does not change its own OOM score; let OOMScoreAdjust= of systemd do it",
    ),
    OomScores(name="oom-score-adj-values", default=("0", "200", "800"), inert="oom-score-adj is no"),
    YesNo(name="disable-thp", default=True, fixed=True, inert="huge pages are as the system gives them"),
    YesNo(name="jemalloc-bg-thread", default=True, inert="memory is not from jemalloc"),
    *(
        Text(name=f"{of}-cpulist", alias=f"{of.replace('-', '_')}_cpulist", fixed=True, only="", because=_CPUS)
        for of in ("server", "bio", "aof-rewrite", "bgsave")
    ),
    Integer(name="io-threads", default=1, least=1, most=128, inert=_THREADS),
    YesNo(name="io-threads-do-reads", default=False, fixed=True, inert=_THREADS),
    Integer(name="events-per-io-thread", default=2, inert=_THREADS),
    Integer(name="prefetch-batch-max-size", default=16, most=128, inert=_THREADS),
    Integer(name="lookahead", default=16, least=1, inert="every complete command of a pipeline is run at once"),
    YesNo(name="activerehashing", default=True, inert="tables grow when they are written to"),
    YesNo(name="dynamic-hz", default=True, inert="hz stays what it is"),
    Integer(
        name="active-expire-effort", default=1, least=1, most=10, inert="expired keys are removed when they are due"
    ),
    Choice(
        name="propagation-error-behavior",
        default="ignore",
        choices=("ignore", "panic", "panic-on-replicas"),
        inert="an effect that cannot be repeated ends the start, whatever it says",
    ),
    Text(
        name="locale-collate",
        only="",
        because="Headrace compares bytes; it has no order of words of a country",
    ),
    Choice(
        name="log-format",
        default="legacy",
        choices=("legacy", "logfmt"),
        only="legacy",
        because="Headrace writes its log in the form of redis-server only",
    ),
    Choice(
        name="log-timestamp-format",
        default="legacy",
        choices=("legacy", "iso8601", "milliseconds"),
        only="legacy",
        because="Headrace writes times in its log as redis-server does only",
    ),
    # Connections.
    Integer(
        name="socket-mark-id",
        default=0,
        most=2**32 - 1,
        fixed=True,
        only=0,
        because="Headrace does not mark its sockets",
    ),
    Memory(
        name="maxmemory-clients",
        default=0,
        only=0,
        because="Headrace does not disconnect clients by the memory of all; client-output-buffer-limit limits each one",
    ),
    Integer(name="max-new-connections-per-cycle", default=10, least=1, most=1000, inert="the event loop decides it"),
    Integer(name="max-new-tls-connections-per-cycle", default=1, least=1, most=1000, inert="the event loop decides it"),
    Text(name="availability-zone", only="", because="Headrace tells clients no zone"),
    Text(
        name="tls-expected-peer-name",
        only="",
        because="Headrace believes a master by its certificate, whatever name it has",
    ),
    YesNo(name="tls-cluster", default=False, inert=_CLUSTER),
    Choice(
        name="tls-auth-clients-user",
        default="off",
        choices=("off", "cn"),
        only="off",
        because="Headrace does not log clients in by their certificates; they need AUTH or HELLO",
    ),
    Text(
        name="tls-ciphersuites",
        only="",
        because="Python's TLS offers all suites of TLS 1.3; tls-ciphers chooses those of TLS 1.2",
    ),
    YesNo(
        name="tls-session-caching",
        default=True,
        only=True,
        because="Python's TLS always keeps its cache of sessions",
    ),
    Integer(name="tls-session-cache-size", default=20480, inert="the TLS library decides it"),
    Integer(name="tls-session-cache-timeout", default=300, inert="the TLS library decides it"),
    Text(name="rdma-bind", fixed=True, inert="Headrace does not speak RDMA"),
    Integer(name="rdma-port", default=0, most=_PORT, only=0, because="Headrace does not speak RDMA"),
    Memory(name="rdma-rx-size", default=MEGABYTE, fixed=True, inert="Headrace does not speak RDMA"),
    Integer(name="rdma-completion-vector", default=-1, least=-1, fixed=True, inert="Headrace does not speak RDMA"),
    # Memory and data.
    Integer(name="maxmemory-samples", default=5, least=1, inert=_EVICTION),
    Integer(name="maxmemory-eviction-tenacity", default=10, most=100, inert=_EVICTION),
    Integer(name="lfu-log-factor", default=10, inert=_EVICTION),
    Integer(name="lfu-decay-time", default=1, inert=_EVICTION),
    YesNo(name="activedefrag", default=False, only=False, because=_DEFRAGMENTATION),
    Memory(name="active-defrag-ignore-bytes", default=100 * MEGABYTE, least=1, inert=_DEFRAGMENTATION),
    Integer(name="active-defrag-threshold-lower", default=10, most=1000, inert=_DEFRAGMENTATION),
    Integer(name="active-defrag-threshold-upper", default=100, most=1000, inert=_DEFRAGMENTATION),
    Integer(name="active-defrag-cycle-min", default=1, least=1, most=99, inert=_DEFRAGMENTATION),
    Integer(name="active-defrag-cycle-max", default=25, least=1, most=99, inert=_DEFRAGMENTATION),
    Integer(name="active-defrag-cycle-us", default=500, most=100000, inert=_DEFRAGMENTATION),
    Integer(name="active-defrag-max-scan-fields", default=1000, least=1, most=LONG_MAX, inert=_DEFRAGMENTATION),
    Integer(name="array-slice-size", default=4096, least=1, most=LONG_MAX, inert=_NO_TYPE),
    Integer(name="array-sparse-kmax", default=10, most=LONG_MAX, inert=_NO_TYPE),
    Integer(name="array-sparse-kmin", default=5, most=LONG_MAX, inert=_NO_TYPE),
    *(
        Integer(name=name, default=0, most=LONG_MAX, inert="hashes do not share the names of their fields")
        for name in (
            "hash-min-template-entries",
            "hash-max-template-entries",
            "hash-rdb-load-min-template-entries",
            "hash-rdb-load-max-template-entries",
            "hash-rdb-load-template-disassembly-threshold",
        )
    ),
    YesNo(
        name="key-memory-histograms",
        default=False,
        only=False,
        because="Headrace's INFO has no histograms of keys",
    ),
    Choice(
        name="sanitize-dump-payload", default="no", choices=("no", "yes", "clients"), inert="every payload is checked"
    ),
    Memory(name="commandlog-request-larger-than", default=MEGABYTE, inert="only slow commands are noted"),
    Memory(name="commandlog-reply-larger-than", default=MEGABYTE, inert="only slow commands are noted"),
    Integer(name="commandlog-large-request-max-len", default=128, most=LONG_MAX, inert="only slow commands are noted"),
    Integer(name="commandlog-large-reply-max-len", default=128, most=LONG_MAX, inert="only slow commands are noted"),
    Choice(
        name="enable-module-command",
        default="no",
        choices=("no", "yes", "local"),
        fixed=True,
        only="no",
        because="Headrace has no modules",
    ),
    YesNo(
        name="lua-enable-insecure-api",
        alias="lua-enable-deprecated-api",
        default=False,
        only=False,
        because="Headrace's scripts have no insecure functions",
    ),
    YesNo(name="extended-redis-compatibility", default=False, inert="Headrace always answers as Redis does"),
    YesNo(
        name="import-mode",
        default=False,
        only=False,
        because="Headrace removes expired keys itself; it cannot leave that to the source of an import",
    ),
    # Files.
    YesNo(name="rdbchecksum", default=True, fixed=True, inert="the checksum is always written, and always checked"),
    YesNo(name="rdb-save-incremental-fsync", default=True, inert=_SYNCS),
    YesNo(name="aof-rewrite-incremental-fsync", default=True, inert=_SYNCS),
    YesNo(
        name="aof-timestamp-enabled",
        default=False,
        only=False,
        because="Headrace writes no times into append-only files",
    ),
    YesNo(name="aof-disable-auto-gc", default=False, only=False, because="Headrace always removes old files"),
    Choice(
        name="rdb-version-check",
        default="strict",
        choices=("strict", "relaxed"),
        inert="a file is judged by what is in it",
    ),
    Text(
        name="preload-file",
        fixed=True,
        only="",
        because="Headrace loads its data directory; put the file there as dump.rdb",
    ),
    Text(name="backupdirname", default="backupdir", fixed=True, inert="Headrace has no BACKUP command"),
    Integer(name="backup-sealed-ttl", default=0, most=LONG_MAX, inert="Headrace has no BACKUP command"),
    # Clusters.
    YesNo(name="cluster-enabled", default=False, fixed=True, only=False, because=_CLUSTER),
    Text(name="cluster-config-file", default="nodes.conf", fixed=True, inert=_CLUSTER),
    Integer(name="cluster-node-timeout", default=15000, most=LONG_MAX, inert=_CLUSTER),
    Integer(name="cluster-port", default=0, most=_PORT, fixed=True, inert=_CLUSTER),
    Integer(name="cluster-migration-barrier", default=1, inert=_CLUSTER),
    Integer(name="cluster-replica-validity-factor", alias="cluster-slave-validity-factor", default=10, inert=_CLUSTER),
    YesNo(name="cluster-replica-no-failover", alias="cluster-slave-no-failover", default=False, inert=_CLUSTER),
    YesNo(name="cluster-allow-replica-migration", default=True, inert=_CLUSTER),
    YesNo(name="cluster-require-full-coverage", default=True, inert=_CLUSTER),
    YesNo(name="cluster-allow-reads-when-down", default=False, inert=_CLUSTER),
    YesNo(name="cluster-allow-pubsubshard-when-down", default=True, inert=_CLUSTER),
    Memory(name="cluster-link-sendbuf-limit", default=0, most=ULONG_MAX, inert=_CLUSTER),
    *(
        Text(name=f"cluster-announce-{of}", inert=_CLUSTER)
        for of in ("ip", "hostname", "human-nodename", "client-ipv4", "client-ipv6")
    ),
    *(
        Integer(name=f"cluster-announce-{of}", default=0, most=_PORT, inert=_CLUSTER)
        for of in ("port", "tls-port", "bus-port")
    ),
    Choice(
        name="cluster-preferred-endpoint-type",
        default="ip",
        choices=("ip", "hostname", "unknown-endpoint"),
        inert=_CLUSTER,
    ),
    Integer(name="cluster-compatibility-sample-ratio", default=0, most=100, inert=_CLUSTER),
    YesNo(name="cluster-slot-stats-enabled", default=False, inert=_CLUSTER),
    Integer(name="cluster-slot-migration-write-pause-timeout", default=10000, most=LONG_MAX, inert=_CLUSTER),
    Memory(name="cluster-slot-migration-handoff-max-lag-bytes", default=MEGABYTE, inert=_CLUSTER),
    Integer(name="cluster-blacklist-ttl", default=60, inert=_CLUSTER),
    Integer(name="cluster-manual-failover-timeout", default=5000, least=1, inert=_CLUSTER),
)

# Directives that redis-server itself takes and forgets.
FORGOTTEN: Final = ("list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands")

_FOR_TESTS = "it is a switch for the tests of redis-server, which Headrace does not have"

REFUSED: Final[dict[str, str]] = {
    "loadmodule": "Headrace has no modules",
    "sentinel": "Headrace is no sentinel; run redis-sentinel for that",
    **dict.fromkeys(
        (
            "client-default-resp",
            "close-on-replica-write",
            "cluster-ping-interval",
            "debug-context",
            "enable-debug-assert",
            "key-load-delay",
            "loading-process-events-interval-bytes",
            "rdb-key-save-delay",
            "req-res-logfile",
            "use-exit-on-panic",
            "watchdog-period",
        ),
        _FOR_TESTS,
    ),
}
_OF_MODULES: Final = ("search-", "ts-", "bf-", "cf-", "cms-", "topk-", "json-", "vset-")


def refusal_of(name: str) -> str | None:
    """Say why a directive that is no setting here is refused; None where nothing is known of it."""
    lowered = name.lower()
    if lowered in REFUSED:
        return REFUSED[lowered]
    if "." in lowered or lowered.startswith(_OF_MODULES):
        return "it is a setting of a module, and Headrace has none"
    return None
