"""The metrics of the server itself: under the names of redis_exporter where it has one, else `headrace_…`.

Most of it is INFO, field by field. `_FIELDS` says which field is which metric.
"""

from collections.abc import Iterator
from typing import Final

import headrace
from headrace.commands.server.info import all_commands, fields_of
from headrace.engine.engine import Engine
from headrace.replication.followers import Followers
from headrace.server.metrics.families import Families, Kind, labels
from headrace.storage.journal import Journal

_NS: Final = 1e-9

# section -> field -> metric, kind, what it is
_FIELDS: Final[dict[str, dict[str, tuple[str, Kind, str]]]] = {
    "server": {
        "uptime_in_seconds": ("redis_uptime_in_seconds", "gauge", "Seconds since the server started"),
        "process_id": ("redis_process_id", "gauge", "The process of the server"),
    },
    "clients": {
        "connected_clients": ("redis_connected_clients", "gauge", "Clients that are connected, without replicas"),
        "blocked_clients": ("redis_blocked_clients", "gauge", "Clients that wait in a command"),
        "tracking_clients": ("redis_tracking_clients", "gauge", "Clients that are told which keys change"),
        "pubsub_clients": ("redis_pubsub_clients", "gauge", "Clients that have subscribed to something"),
        "watching_clients": ("redis_watching_clients", "gauge", "Clients that watch keys"),
        "maxclients": ("redis_config_maxclients", "gauge", "The setting maxclients"),
    },
    "memory": {
        "used_memory": ("redis_memory_used_bytes", "gauge", "Memory of the process"),
        "used_memory_rss": ("redis_memory_used_rss_bytes", "gauge", "Memory of the process"),
        "used_memory_peak": ("redis_memory_used_peak_bytes", "gauge", "The most memory that the process ever had"),
        "used_memory_scripts": ("redis_memory_used_scripts_bytes", "gauge", "Memory of scripts"),
        "maxmemory": ("redis_memory_max_bytes", "gauge", "The setting maxmemory; 0: no limit"),
        "total_system_memory": ("redis_total_system_memory_bytes", "gauge", "Memory of the machine"),
        "lazyfree_pending_objects": ("redis_lazyfree_pending_objects", "gauge", "Values that are being freed"),
        "headrace_staged_bytes": ("headrace_staged_bytes", "gauge", "Parts of batches that are not committed yet"),
        "headrace_history_cache": ("headrace_history_cache_bytes", "gauge", "Entries on disk that are cached"),
        "headrace_history_reads": ("headrace_history_reads_total", "counter", "Reads of entries on disk"),
    },
    "persistence": {
        "loading": ("redis_loading_dump_file", "gauge", "1 while data is loaded"),
        "rdb_changes_since_last_save": ("redis_rdb_changes_since_last_save", "gauge", "Changes since then"),
        "rdb_bgsave_in_progress": ("redis_rdb_bgsave_in_progress", "gauge", "1 while an RDB file is written"),
        "rdb_last_save_time": ("redis_rdb_last_save_timestamp_seconds", "gauge", "When an RDB file was last written"),
        "rdb_last_bgsave_status": ("redis_rdb_last_bgsave_status", "gauge", "1: the last RDB file was written"),
        "aof_enabled": ("redis_aof_enabled", "gauge", "1: there is an append-only file"),
        "aof_rewrite_in_progress": ("redis_aof_rewrite_in_progress", "gauge", "1 while a new base is written"),
        "aof_last_bgrewrite_status": ("redis_aof_last_bgrewrite_status", "gauge", "1: the last base was written"),
        "aof_last_write_status": ("redis_aof_last_write_status", "gauge", "1: the disk takes effects; 0: it refuses"),
        "aof_current_size": ("redis_aof_current_size_bytes", "gauge", "Bytes of the append-only files"),
        "aof_base_size": ("redis_aof_base_size_bytes", "gauge", "Bytes of them after the last rewrite"),
        "aof_buffer_length": ("redis_aof_buffer_length", "gauge", "Bytes of effects that are not written yet"),
        "aof_pending_bio_fsync": ("redis_aof_pending_bio_fsync", "gauge", "1 while a sync goes on"),
        "headrace_segments": ("headrace_segments", "gauge", "Files with entries that are not in memory"),
        "headrace_segment_bytes": ("headrace_segment_bytes", "gauge", "Bytes of these files"),
        "headrace_cold_bytes": ("headrace_cold_bytes", "gauge", "Bytes of them that streams still need"),
        "headrace_offloaded_bytes": ("headrace_offloaded_bytes_total", "counter", "Bytes moved from memory to files"),
        "headrace_offload_status": ("headrace_offload_ok", "gauge", "1: the disk takes what memory gives away"),
    },
    "stats": {
        "total_connections_received": ("redis_connections_received_total", "counter", "Connections so far"),
        "total_commands_processed": ("redis_commands_processed_total", "counter", "Commands so far"),
        "rejected_connections": ("redis_rejected_connections_total", "counter", "Connections turned away"),
        "total_net_input_bytes": ("redis_net_input_bytes_total", "counter", "Bytes that clients sent"),
        "total_net_output_bytes": ("redis_net_output_bytes_total", "counter", "Bytes that clients were sent"),
        "expired_keys": ("redis_expired_keys_total", "counter", "Keys that expired"),
        "evicted_keys": ("redis_evicted_keys_total", "counter", "Keys evicted: always none"),
        "keyspace_hits": ("redis_keyspace_hits_total", "counter", "Look-ups that found a key"),
        "keyspace_misses": ("redis_keyspace_misses_total", "counter", "Look-ups that found none"),
        "pubsub_channels": ("redis_pubsub_channels", "gauge", "Channels that have subscribers"),
        "pubsub_patterns": ("redis_pubsub_patterns", "gauge", "Patterns that have subscribers"),
        "latest_fork_usec": ("redis_latest_fork_usec", "gauge", "Microseconds that the last fork took"),
        "sync_full": ("redis_replica_resyncs_full", "gauge", "How often a replica got a snapshot"),
        "sync_partial_ok": ("redis_replica_partial_resync_accepted", "gauge", "How often one could continue"),
        "sync_partial_err": ("redis_replica_partial_resync_denied", "gauge", "How often one could not"),
        "client_output_buffer_limit_disconnections": (
            "redis_client_output_buffer_limit_disconnections_total", "counter", "Clients that did not read in time",
        ),
    },
    "replication": {
        "connected_slaves": ("redis_connected_slaves", "gauge", "Replicas that are connected"),
        "master_repl_offset": ("redis_master_repl_offset", "gauge", "Bytes of effects since the data began"),
        "repl_backlog_active": ("redis_repl_backlog_is_active", "gauge", "1: effects are kept for replicas"),
        "repl_backlog_size": ("redis_replication_backlog_bytes", "gauge", "The setting repl-backlog-size"),
        "repl_backlog_histlen": ("redis_repl_backlog_history_bytes", "gauge", "Bytes that a replica can be behind"),
    },
    "cpu": {
        "used_cpu_sys": ("redis_cpu_sys_seconds_total", "counter", "Processor time in the system"),
        "used_cpu_user": ("redis_cpu_user_seconds_total", "counter", "Processor time of the server"),
        "used_cpu_sys_children": ("redis_cpu_sys_children_seconds_total", "counter", "The same of its children"),
        "used_cpu_user_children": ("redis_cpu_user_children_seconds_total", "counter", "The same of its children"),
    },
}  # fmt: skip
_OF_REPLICAS: Final = {
    "master_last_io_seconds_ago": ("redis_master_last_io_seconds_ago", "Seconds since the master was heard of"),
    "master_sync_in_progress": ("redis_master_sync_in_progress", "1 while a snapshot comes from the master"),
    "slave_repl_offset": ("redis_slave_repl_offset", "Bytes of effects that this replica has"),
}


def _number(value: object) -> int | float:
    """Read a field of INFO; of a status, 1 is that all is well."""
    if isinstance(value, int | float):
        return value
    text = str(value)
    try:
        return float(text)
    except ValueError:
        return int(text in {"ok", "up"})


def add_server(families: Families, engine: Engine) -> Iterator[None]:
    """Add what INFO says, a section at a time."""
    families.gauge("redis_up", "1: the server answers", 1)
    families.gauge("headrace_build_info", "The version of Headrace", 1, labels(version=headrace.__version__))
    for section, metrics in _FIELDS.items():
        for field, value in fields_of(engine, section):
            if field in metrics:
                name, kind, about = metrics[field]
                families.family(name, kind, about).add(_number(value))
        yield
    families.gauge("redis_start_time_seconds", "When the server started", engine.clocks.started_ms / 1000)
    families.gauge("redis_slowlog_length", "Commands in the slow log", len(engine.stats.slow_log))
    families.gauge(
        "redis_slowlog_last_id",
        "The number of the last of them",
        engine.stats.slow_log[0][0] if engine.stats.slow_log else 0,
    )
    _add_identity(families, engine)
    for db in engine.databases:
        if len(db):
            where = labels(db=f"db{db.number}")
            families.gauge("redis_db_keys", "Keys of a database", len(db), where)
            families.gauge("redis_db_keys_expiring", "Keys of it that expire", len(db.expires), where)
    yield


def _add_identity(families: Families, engine: Engine) -> None:
    facts = {name: str(value) for name, value in fields_of(engine, "server")}
    about = {name: facts[name] for name in ("redis_version", "redis_mode", "os", "tcp_port", "run_id", "process_id")}
    following = dict(fields_of(engine, "replication"))
    role = str(following["role"])
    policy = engine.config["maxmemory-policy"]
    families.gauge("redis_instance_info", "What the server is", 1, labels(role=role, maxmemory_policy=policy, **about))
    if role == "slave":
        where = labels(master_host=str(following["master_host"]), master_port=str(following["master_port"]))
        is_up = int(following.get("master_link_status") == "up")
        families.gauge("redis_master_link_up", "1: the master is heard", is_up, where)
        for field, (name, meaning) in _OF_REPLICAS.items():
            if field in following:
                families.gauge(name, meaning, _number(following[field]), where)


def add_commands(families: Families, engine: Engine) -> Iterator[None]:
    """Add how often each command ran, and how long."""
    calls = families.family("redis_commands_total", "counter", "Calls of a command")
    seconds = families.family("redis_commands_duration_seconds_total", "counter", "Seconds spent in a command")
    rejected = families.family("redis_commands_rejected_calls_total", "counter", "Calls refused before they ran")
    failed = families.family("redis_commands_failed_calls_total", "counter", "Calls that ended with an error")
    for declared in all_commands(engine):
        if declared.calls or declared.failed or declared.rejected:
            which = labels(cmd=declared.name.decode())
            calls.add(declared.calls, which)
            seconds.add(declared.nanoseconds * _NS, which)
            rejected.add(declared.rejected, which)
            failed.add(declared.failed, which)
    yield
    for code, count in engine.stats.errors.items():
        families.counter("redis_errors_total", "Error replies", count, labels(err=code.decode("latin-1")))
    yield


def add_journal(families: Families, journal: Journal) -> None:
    """Add how the journal does: syncs, groups, replies that wait."""
    sync = families.family("headrace_journal_sync_seconds", "histogram", "How long a group took to write and sync")
    sync.add_histogram(journal.sync_times, _NS)
    group = families.family(
        "headrace_journal_group_size", "histogram", "Commands whose effects one sync covered (appendfsync always)"
    )
    group.add_histogram(journal.group_sizes, 1)
    families.gauge("headrace_held_replies", "Replies that wait for the disk or for replicas", journal.held_count)
    families.gauge("headrace_unconfirmed_replies", "Of these, what waits for replicas", journal.unconfirmed_count)
    waits = families.family(
        "headrace_confirm_wait_seconds", "summary", "How long replies waited for replicas (min-replicas-to-confirm)"
    )
    waits.add_summary(journal.confirm_waited, journal.confirm_waits)


def add_replicas(families: Families, engine: Engine, followers: Followers) -> None:
    """Add how far each replica is."""
    offset = engine.effects.offset
    for follower in followers:
        which = labels(
            slave_ip=follower.address, slave_port=str(follower.port), slave_state=follower.state or "wait_bgsave"
        )
        families.gauge(
            "redis_connected_slave_offset_bytes", "Bytes of effects that a replica has", follower.offset, which
        )
        families.gauge(
            "redis_connected_slave_lag_seconds", "Seconds since a replica was heard of", follower.lag_s, which
        )
        behind = max(offset - follower.offset, 0)
        families.gauge("headrace_replica_behind_bytes", "Bytes of effects that a replica lacks", behind, which)
        if follower.has_journal:
            synced = max(offset - follower.synced, 0)
            families.gauge("headrace_replica_unsynced_bytes", "Bytes that its disk lacks", synced, which)
