"""INFO: what the server is, does and counts, in Redis's sections, fields and formats."""

import os
import platform
import resource
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import headrace
from headrace.commands.declaration.table import command
from headrace.engine import REDIS_VERSION
from headrace.engine.acl.rules import Reason
from headrace.engine.call import Call
from headrace.engine.client_line import is_replica, memory_of
from headrace.engine.command import Command, Flag
from headrace.engine.configuration.settings import show_share
from headrace.engine.engine import Engine
from headrace.engine.process import machine_bytes, peak_resident_bytes, resident_bytes
from headrace.engine.pubsub.exchange import Kind

Fields = Iterator[tuple[str, object]]

_DAY_S: Final = 86400
_TTL_SAMPLE: Final = 100
_UNITS: Final = "KMGTP"


def _human(size: int) -> str:
    """Print a size as Redis does: 512B, 1.50M."""
    if size < 1024:
        return f"{size}B"
    power = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size / 1024**power:.2f}{_UNITS[power - 1]}"


# --- sections ------------------------------------------------------------------------------------------------------


def _server(engine: Engine) -> Fields:
    now_us = time.time_ns() // 1000
    uptime_s = (engine.clocks.steady_ms() - engine.clocks.steady_started_ms) // 1000
    system = platform.uname()
    yield "redis_version", REDIS_VERSION.decode()
    yield "headrace_version", headrace.__version__
    yield "redis_git_sha1", "00000000"
    yield "redis_git_dirty", 0
    yield "redis_mode", "standalone"
    yield "os", f"{system.system} {system.release} {system.machine}"
    yield "arch_bits", 64 if sys.maxsize > 2**32 else 32
    yield "monotonic_clock", "POSIX clock_gettime"
    yield "multiplexing_api", "epoll"
    yield "process_id", os.getpid()
    yield "process_supervised", "no"
    yield "run_id", engine.run_id
    yield "tcp_port", engine.config["port"]
    yield "server_time_usec", now_us
    yield "uptime_in_seconds", uptime_s
    yield "uptime_in_days", uptime_s // _DAY_S
    yield "hz", engine.config["hz"]
    yield "configured_hz", engine.config["hz"]
    yield "lru_clock", now_us // 1_000_000 & 0xFFFFFF
    yield "executable", Path(sys.argv[0] or sys.executable).absolute()
    yield "config_file", engine.config.file
    yield "io_threads_active", 0
    remaining_ms = engine.hooks.server_end.remaining_ms if engine.hooks.server_end is not None else None
    if remaining_ms is not None:
        yield "shutdown_in_milliseconds", remaining_ms


def _clients(engine: Engine) -> Fields:
    keys, keys_on_nokey = engine.waiting.blocked_keys(engine.databases)
    watching = [client for client in engine.clients.values() if client.watched]
    yield "connected_clients", sum(not client.is_follower for client in engine.clients.values())
    yield "cluster_connections", 0
    yield "maxclients", engine.config["maxclients"]
    yield "blocked_clients", len(engine.waiting.clients) + len(engine.pauses.held) + engine.history.waiting
    yield "tracking_clients", len(engine.observers.tracker.clients)
    yield "pubsub_clients", sum(client.subscribed for client in engine.clients.values())
    yield "watching_clients", len(watching)
    yield "clients_in_timeout_table", engine.waiting.timed
    yield "total_watched_keys", sum(len(db.watchers) for db in engine.databases)
    yield "total_blocking_keys", keys
    yield "total_blocking_keys_on_nokey", keys_on_nokey


def _memory(engine: Engine) -> Fields:
    used, peak, limit, machine = resident_bytes(), peak_resident_bytes(), engine.config["maxmemory"], machine_bytes()
    peak = max(used, peak)
    yield "used_memory", used
    yield "used_memory_human", _human(used)
    yield "used_memory_rss", used
    yield "used_memory_rss_human", _human(used)
    yield "used_memory_peak", peak
    yield "used_memory_peak_human", _human(peak)
    yield "used_memory_peak_perc", f"{used / peak * 100:.2f}%"
    yield "total_system_memory", machine
    yield "total_system_memory_human", _human(machine)
    yield "used_memory_lua", engine.scripts.memory
    yield "used_memory_vm_eval", engine.scripts.memory
    yield "used_memory_lua_human", _human(engine.scripts.memory)
    yield "used_memory_scripts_eval", 0
    yield "number_of_cached_scripts", len(engine.scripts)
    yield "number_of_functions", engine.functions.count
    yield "number_of_libraries", len(engine.functions.libraries)
    yield "used_memory_vm_functions", engine.functions.memory
    yield "used_memory_vm_total", engine.scripts.memory + engine.functions.memory
    yield "used_memory_vm_total_human", _human(engine.scripts.memory + engine.functions.memory)
    yield "used_memory_functions", sum(len(each.code) for each in engine.functions.libraries.values())
    yield "used_memory_scripts", 0
    yield "used_memory_scripts_human", _human(0)
    yield "maxmemory", limit
    yield "maxmemory_human", _human(limit)
    yield "maxmemory_policy", engine.config["maxmemory-policy"]
    yield "headrace_staged_bytes", engine.staging.bytes
    yield "headrace_history_cache", engine.history.cache.used
    yield "headrace_history_reads", engine.history.cache.reads
    yield "mem_fragmentation_ratio", "1.00"
    yield "mem_fragmentation_bytes", 0
    yield "mem_clients_slaves", sum(memory_of(each) for each in engine.clients.values() if is_replica(each))
    yield "mem_allocator", "libc"
    yield "lazyfree_pending_objects", engine.freeing.pending
    yield "lazyfreed_objects", engine.freeing.freed


def _persistence(engine: Engine) -> Fields:
    yield "loading", int(engine.loading)
    yield "async_loading", 0
    yield from engine.persistence.fields()
    progress = engine.persistence.progress
    if progress is not None:
        seconds = max(engine.clocks.steady_ms() - engine.clocks.steady_started_ms, 1) / 1000
        yield "loading_start_time", engine.clocks.started_ms // 1000
        yield "loading_total_bytes", progress.total
        yield "loading_loaded_bytes", progress.done
        yield "loading_loaded_perc", f"{100 * progress.done / max(progress.total, 1):.2f}"
        yield "loading_eta_seconds", round(seconds * (progress.total - progress.done) / max(progress.done, 1))


def _stats(engine: Engine) -> Fields:
    stats = engine.stats
    yield "total_connections_received", stats.connections
    yield "total_commands_processed", stats.commands
    yield "instantaneous_ops_per_sec", round(stats.rates.per_second(0))
    yield "total_net_input_bytes", stats.bytes_in
    yield "total_net_output_bytes", stats.bytes_out
    yield "instantaneous_input_kbps", f"{stats.rates.per_second(1) / 1024:.2f}"
    yield "instantaneous_output_kbps", f"{stats.rates.per_second(2) / 1024:.2f}"
    yield "rejected_connections", stats.rejected_connections
    full, partial, refused = engine.replication.sync_counts
    yield "sync_full", full
    yield "sync_partial_ok", partial
    yield "sync_partial_err", refused
    yield "expired_keys", stats.expired
    yield "evicted_keys", 0
    yield "evicted_clients", 0
    yield "evicted_scripts", engine.scripts.evicted
    yield "keyspace_hits", stats.hits
    yield "keyspace_misses", stats.misses
    yield "pubsub_channels", len(engine.exchange.listeners[Kind.CHANNEL])
    yield "pubsub_patterns", len(engine.exchange.listeners[Kind.PATTERN])
    yield "pubsubshard_channels", len(engine.exchange.listeners[Kind.SHARD])
    yield "latest_fork_usec", engine.persistence.latest_fork_us
    yield "total_forks", engine.persistence.forks
    yield "tracking_total_keys", len(engine.observers.tracker.keys)
    yield "tracking_total_items", engine.observers.tracker.items
    yield "tracking_total_prefixes", engine.observers.tracker.prefixes
    yield "unexpected_error_replies", 0
    yield "total_error_replies", stats.error_replies
    denied = engine.users.log.denied
    yield "acl_access_denied_auth", denied[Reason.AUTH]
    yield "acl_access_denied_cmd", denied[Reason.COMMAND]
    yield "acl_access_denied_key", denied[Reason.KEY]
    yield "acl_access_denied_channel", denied[Reason.CHANNEL]
    yield "client_query_buffer_limit_disconnections", stats.query_limit_closed
    yield "client_output_buffer_limit_disconnections", stats.output_limit_closed


def _replication(engine: Engine) -> Fields:
    return engine.replication.fields()


def _lineage(engine: Engine) -> Fields:
    return engine.replication.lineage_fields()


def _cpu(_engine: Engine) -> Fields:
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    main_thread = resource.getrusage(resource.RUSAGE_THREAD)
    yield "used_cpu_sys", f"{own.ru_stime:.6f}"
    yield "used_cpu_user", f"{own.ru_utime:.6f}"
    yield "used_cpu_sys_children", f"{children.ru_stime:.6f}"
    yield "used_cpu_user_children", f"{children.ru_utime:.6f}"
    yield "used_cpu_sys_main_thread", f"{main_thread.ru_stime:.6f}"
    yield "used_cpu_user_main_thread", f"{main_thread.ru_utime:.6f}"


def _modules(_engine: Engine) -> Fields:
    return iter(())


def all_commands(engine: Engine) -> Iterator[Command]:
    """Give every command and subcommand."""
    for declared in engine.commands.table.values():
        yield declared
        yield from declared.subcommands.values()


def _commandstats(engine: Engine) -> Fields:
    for declared in all_commands(engine):
        if declared.calls or declared.failed or declared.rejected:
            us = declared.nanoseconds // 1000
            each = us / declared.calls if declared.calls else 0
            counted = f"calls={declared.calls},usec={us},usec_per_call={each:.2f}"
            refused = f"rejected_calls={declared.rejected},failed_calls={declared.failed}"
            yield f"cmdstat_{declared.name.decode()}", f"{counted},{refused}"


def _errorstats(engine: Engine) -> Fields:
    for code, count in sorted(engine.stats.errors.items()):
        yield f"errorstat_{code.decode('latin-1')}", f"count={count}"


def _latencystats(engine: Engine) -> Fields:
    if not engine.config["latency-tracking"]:
        return
    shares = engine.config["latency-tracking-info-percentiles"]
    for declared in all_commands(engine):
        if declared.calls:
            shown = ",".join(f"p{show_share(share)}={_percentile_us(declared, share):.3f}" for share in shares)
            yield f"latency_percentiles_usec_{declared.name.decode()}", shown


def _percentile_us(declared: Command, share: float) -> float:
    """Return the time within which so many of a hundred calls ended, rounded up as the histogram is."""
    return next(limit_ns / 1000 for limit_ns, calls in declared.latencies() if calls * 100 >= declared.calls * share)


def _cluster(_engine: Engine) -> Fields:
    yield "cluster_enabled", 0


def _keyspace(engine: Engine) -> Fields:
    now_ms = engine.clocks.unix_ms()
    for db in engine.databases:
        if len(db):
            some = [max(when - now_ms, 0) for when in islice(db.expires.values(), _TTL_SAMPLE)]
            ttl = sum(some) // len(some) if some else 0
            yield f"db{db.number}", f"keys={len(db)},expires={len(db.expires)},avg_ttl={ttl}"


_SECTIONS: Final = {
    "server": ("Server", _server),
    "clients": ("Clients", _clients),
    "memory": ("Memory", _memory),
    "persistence": ("Persistence", _persistence),
    "stats": ("Stats", _stats),
    "replication": ("Replication", _replication),
    "lineage": ("Lineage", _lineage),
    "cpu": ("CPU", _cpu),
    "modules": ("Modules", _modules),
    "commandstats": ("Commandstats", _commandstats),
    "errorstats": ("Errorstats", _errorstats),
    "latencystats": ("Latencystats", _latencystats),
    "cluster": ("Cluster", _cluster),
    "keyspace": ("Keyspace", _keyspace),
}
_NOT_OF_REDIS: Final = {"lineage"}
_ONLY_ASKED_FOR: Final = {"commandstats", "latencystats"} | _NOT_OF_REDIS


def fields_of(engine: Engine, section: str) -> Fields:
    """Give the fields of a section, by its name in lower case."""
    return _SECTIONS[section][1](engine)


def _asked_for(words: list[bytes]) -> list[str]:
    """Say which sections the arguments of INFO name, in the order in which they are shown."""
    asked = {word.decode("latin-1").lower() for word in words} or {"default"}
    if asked & {"all", "everything"}:
        asked |= set(_SECTIONS) - _NOT_OF_REDIS
    if "default" in asked:
        asked |= set(_SECTIONS) - _ONLY_ASKED_FOR
    return [name for name in _SECTIONS if name in asked]


@command("info [section [section ...]]", arity=-1, flags=Flag.LOADING | Flag.STALE, since="1.0.0", group="server")
def info(call: Call) -> None:
    """Reply what the server is, does and counts: all but the statistics of commands, or the sections asked for."""
    shown = []
    for name in _asked_for(call.argv[1:]):
        title, fields = _SECTIONS[name]
        lines = [f"# {title}", *(f"{field}:{value}" for field, value in fields(call.engine))]
        shown.append("".join(f"{line}\r\n" for line in lines))
    call.reply.verbatim("\r\n".join(shown).encode("utf-8", "surrogateescape"), b"txt")
