"""What stands behind a server, out of INFO: replicas or a master, the journal, segments on disk, the keyspace."""

from typing import Any


def replication_of(info: dict[str, str]) -> dict[str, Any]:
    """Read the role, and how far each replica is behind, or how the link to the master is."""
    offset = _number(info, "master_repl_offset") or 0
    told: dict[str, Any] = {"role": info.get("role"), "offset": offset, "replicas": []}
    for name, text in info.items():
        if name.startswith("slave") and name.removeprefix("slave").isdecimal():
            figures = dict(part.partition("=")[::2] for part in text.split(","))
            has = _number(figures, "offset") or 0
            told["replicas"].append(
                {
                    "address": f"{figures.get('ip', '')}:{figures.get('port', '')}",
                    "state": figures.get("state", ""),
                    "behind": max(offset - has, 0) if figures.get("state") == "online" else None,
                    "heard_ms": None if (lag := _number(figures, "lag")) is None else lag * 1000,
                }
            )
    if told["role"] == "slave":
        told["master"] = f"{info.get('master_host', '')}:{info.get('master_port', '')}"
        told["link"] = info.get("master_link_status")
        told["error"] = info.get("master_link_error", "")
        heard = _number(info, "master_last_io_seconds_ago")
        told["heard_ms"] = None if heard is None or heard < 0 else heard * 1000
        down = _number(info, "master_link_down_since_seconds")
        told["down_ms"] = None if down is None or down < 0 else down * 1000
        told["loading"] = info.get("master_sync_in_progress") == "1"
    return told


def journal_of(info: dict[str, str]) -> dict[str, Any]:
    """Read what of the journal is on disk, how it is synced, and how the last snapshot went."""
    syncs, units = _number(info, "headrace_syncs"), _number(info, "headrace_synced_units")
    told: dict[str, Any] = {
        "enabled": info.get("aof_enabled") == "1",
        "size": _number(info, "aof_current_size"),
        "base": _number(info, "aof_base_size"),
        "waiting": _number(info, "aof_buffer_length"),
        "rewriting": info.get("aof_rewrite_in_progress") == "1",
        "rewrite_ok": info.get("aof_last_bgrewrite_status") != "err",
        "write_ok": info.get("aof_last_write_status") != "err",
        "syncs": syncs,
        "sync_ms": None,
        "commands": None,
        "saved_at_ms": (_number(info, "rdb_last_save_time") or 0) * 1000 or None,
        "save_ok": info.get("rdb_last_bgsave_status") != "err",
        "unsaved": _number(info, "rdb_changes_since_last_save"),
    }
    if syncs and units is not None:
        told["sync_ms"] = (_number(info, "headrace_sync_usec") or 0) / syncs / 1000
        told["commands"] = units / syncs
    return told


def segments_of(info: dict[str, str]) -> dict[str, Any] | None:
    """Read what of streams lies in segment files; None where the server has none of these."""
    if "headrace_segments" not in info:
        return None
    return {
        "files": _number(info, "headrace_segments"),
        "bytes": _number(info, "headrace_segment_bytes"),
        "alive": _number(info, "headrace_cold_bytes"),
        "moved": _number(info, "headrace_offloaded_bytes"),
        "copied": _number(info, "headrace_compacted_bytes"),
        "problem": "" if (status := info.get("headrace_offload_status", "ok")) == "ok" else status,
    }


def keyspace_of(info: dict[str, str]) -> list[dict[str, Any]]:
    """Read how many keys each database has, and how many of them expire."""
    rows = []
    for name, text in info.items():
        if name.startswith("db") and name.removeprefix("db").isdecimal():
            figures = dict(part.partition("=")[::2] for part in text.split(","))
            rows.append(
                {
                    "db": int(name.removeprefix("db")),
                    "keys": _number(figures, "keys"),
                    "expires": _number(figures, "expires"),
                    "ttl_ms": _number(figures, "avg_ttl") or None,
                }
            )
    return rows


def _number(told: dict[str, str], name: str) -> int | None:
    try:
        return int(told[name])
    except (KeyError, ValueError):
        return None
