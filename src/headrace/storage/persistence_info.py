"""What INFO persistence tells of a store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.storage.children import Task

if TYPE_CHECKING:
    from headrace.storage.store import Store


def fields_of(store: Store) -> Iterator[tuple[str, object]]:
    """Give the fields of INFO persistence, but for those of the loading that goes on."""
    children, job = store.children, store.children.job
    snapshots, rewrites = store.saving.history, store.rewriting.history
    yield "current_cow_peak", 0
    yield "current_cow_size", 0
    yield "current_cow_size_age", 0
    keys = sum(len(db) for db in store.engine.databases)
    yield "current_fork_perc", f"{100 * job.keys_done / max(keys, 1):.2f}" if job is not None else "0.00"
    yield "current_save_keys_processed", job.keys_done if job is not None else 0
    yield "current_save_keys_total", keys if job is not None else 0
    yield "rdb_changes_since_last_save", store.engine.dirty
    yield "rdb_bgsave_in_progress", int(children.task is Task.SAVE)
    yield "rdb_last_save_time", store.last_save_s
    yield "rdb_last_bgsave_status", "err" if snapshots.failed else "ok"
    yield "rdb_last_bgsave_time_sec", snapshots.last_seconds
    yield "rdb_current_bgsave_time_sec", children.seconds(Task.SAVE)
    yield "rdb_saves", snapshots.count
    yield "rdb_last_cow_size", snapshots.copied_bytes
    yield "rdb_last_load_keys_expired", store.loaded.expired
    yield "rdb_last_load_keys_loaded", store.loaded.keys
    yield "aof_enabled", int(store.appends)
    yield "aof_rewrite_in_progress", int(store.rewriting.goes_on)
    yield "aof_rewrite_scheduled", int(store.rewriting.scheduled)
    yield "aof_last_rewrite_time_sec", rewrites.last_seconds
    yield "aof_current_rewrite_time_sec", children.seconds(Task.REWRITE)
    yield "aof_last_bgrewrite_status", "err" if rewrites.failed else "ok"
    yield "aof_rewrites", rewrites.count
    yield "aof_rewrites_consecutive_failures", store.rewriting.failures
    yield "aof_last_write_status", "err" if store.journal.failing else "ok"
    yield "aof_last_cow_size", rewrites.copied_bytes
    yield "headrace_segments", len(store.segments)
    yield "headrace_segment_bytes", store.segments.size
    yield "headrace_cold_bytes", store.segments.kept_bytes
    yield "headrace_offloaded_bytes", store.offloading.moved_bytes
    yield "headrace_compacted_bytes", store.offloading.compacted_bytes
    yield "headrace_offload_status", store.offloading.last_error or "ok"
    yield "module_fork_in_progress", 0
    yield "module_fork_last_cow_size", 0
    if store.appends:
        yield "aof_current_size", store.files.size
        yield "aof_base_size", store.rewriting.size_after
        yield "aof_pending_rewrite", 0
        yield "aof_buffer_length", store.journal.buffered
        yield "aof_pending_bio_fsync", int(store.journal.busy)
        yield "aof_delayed_fsync", 0
        sync_ns, syncs = store.journal.sync_times[-1]
        yield "headrace_syncs", syncs
        yield "headrace_sync_usec", sync_ns // 1000
        yield "headrace_synced_units", store.journal.group_sizes[-1][0]
