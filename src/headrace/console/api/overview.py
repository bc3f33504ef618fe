"""The overview: what the server does now, and the streams that are worst off."""

from typing import Any, Final

from headrace.console.api.catalogue import worst_streams
from headrace.console.api.standing import replication_of
from headrace.console.errors import Refused
from headrace.console.link import info_of
from headrace.console.sessions import Session

_WORST: Final = 6
_NUMBERS: Final = (
    *("uptime_in_seconds", "connected_clients", "blocked_clients", "used_memory", "used_memory_peak", "maxmemory"),
    *("total_system_memory", "total_commands_processed", "instantaneous_ops_per_sec", "total_net_input_bytes"),
    *("total_net_output_bytes", "aof_enabled", "aof_current_size", "aof_buffer_length", "headrace_segments"),
    *("headrace_segment_bytes", "headrace_cold_bytes", "connected_slaves", "master_repl_offset", "loading"),
    *("headrace_syncs", "headrace_sync_usec", "headrace_synced_units"),
)
_WORDS: Final = (
    *("role", "master_host", "master_port", "master_link_status", "aof_last_write_status", "headrace_offload_status"),
    *("redis_version", "headrace_version", "maxmemory_policy", "master_link_error"),
)
_WRITES: Final = ("xadd", "headrace|commit")
_READS: Final = ("xread", "xreadgroup", "xrange", "xrevrange")


async def read_overview(session: Session, _body: dict[str, Any]) -> dict[str, Any]:
    """Read INFO and what is worst; what the user may not ask for is None, with why."""
    told: dict[str, Any] = {"server": None, "streams": None}
    try:
        info = info_of(await session.link.ask("INFO", "all"))
        told["server"] = {name: int(info[name]) for name in _NUMBERS if info.get(name, "").isdecimal()}
        told["server"] |= {name: info[name] for name in _WORDS if name in info}
        told["server"]["writes"] = sum(_calls(info, name) for name in _WRITES)
        told["server"]["reads"] = sum(_calls(info, name) for name in _READS)
        told["server"]["replication"] = replication_of(info)
    except Refused as refusal:
        _note(told, "server", refusal)
    try:
        told["streams"] = await worst_streams(session, _WORST)
    except Refused as refusal:
        _note(told, "streams", refusal)
    return told


def _note(told: dict[str, Any], part: str, refusal: Refused) -> None:
    """Keep why a part is missing where the user lacks permission for it; any other error ends the overview."""
    if refusal.code != "permission":
        raise refusal
    told[f"{part}_refused"] = refusal.text


def _calls(info: dict[str, str], command: str) -> int:
    figures = dict(part.partition("=")[::2] for part in info.get(f"cmdstat_{command}", "").split(","))
    return int(figures.get("calls", 0))
