"""The server itself: INFO, the slow log, latency, clients, settings, users."""

from typing import Any, Final

from redis.exceptions import RedisError

from headrace.console.api.standing import journal_of, keyspace_of, replication_of, segments_of
from headrace.console.link import info_of, pairs, refusal_of
from headrace.console.sessions import Session
from headrace.engine.configuration.config import Config

_MOST_CLIENTS: Final = 500
_SLOW: Final = 128
_MOST_COMMANDS: Final = 300
_OF_COMMANDS: Final = {
    "calls": "calls", "total": "usec", "each": "usec_per_call", "failed": "failed_calls", "rejected": "rejected_calls",
    "p50": "p50", "p99": "p99", "p99_9": "p99.9",
}  # fmt: skip
_SECTIONS: Final = ("server", "memory", "persistence", "replication", "keyspace")
_SHOWN_OF_CLIENTS: Final = ("id", "addr", "name", "user", "db", "age", "idle", "cmd", "flags", "tot-mem")


async def read_server(session: Session, _body: dict[str, Any]) -> dict[str, Any]:
    """Read what the server is and keeps: replicas, journal, segments and keys, and the sections of INFO as they are."""
    *replies, settings = await session.link.ask_all(
        [*(("INFO", section) for section in _SECTIONS), ("CONFIG", "GET", "appendfsync", "min-replicas-to-confirm")]
    )
    sections = []
    for section, reply in zip(_SECTIONS, replies, strict=True):
        if isinstance(reply, Exception):
            return {"sections": [], "refused": str(reply)}
        sections.append({"name": section, "fields": list(info_of(reply).items())})
    info = {name: value for section in sections for name, value in section["fields"]}
    known = {} if isinstance(settings, Exception) else pairs(settings)
    return {
        "sections": sections,
        "replication": replication_of(info) | {"to_confirm": _text_of(known.get("min-replicas-to-confirm"))},
        "journal": journal_of(info) | {"policy": _text_of(known.get("appendfsync"))},
        "segments": segments_of(info),
        "keyspace": keyspace_of(info),
    }


def _text_of(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


async def read_slow_log(session: Session, _body: dict[str, Any]) -> dict[str, Any]:
    """Read the slow log, newest first."""
    lines = await session.link.ask("SLOWLOG", "GET", _SLOW)
    return {
        "rows": [
            {"id": line[0], "at": line[1], "us": line[2], "words": line[3], "client": line[4], "name": line[5]}
            for line in lines
        ]
    }


async def read_latency(session: Session, _body: dict[str, Any]) -> dict[str, Any]:
    """Read how long commands take, those that took most time first, and what LATENCY has noted."""
    latest, stats, percentiles, threshold = await session.link.ask_all(
        [
            ("LATENCY", "LATEST"),
            ("INFO", "commandstats"),
            ("INFO", "latencystats"),
            ("CONFIG", "GET", "latency-monitor-threshold"),
        ]
    )
    if isinstance(stats, RedisError):
        raise refusal_of(stats)
    spread = {} if isinstance(percentiles, Exception) else info_of(percentiles)
    commands: list[dict[str, Any]] = []
    for field, text in info_of(stats).items():
        name = field.removeprefix("cmdstat_")
        figures = _figures(text) | _figures(spread.get(f"latency_percentiles_usec_{name}", ""))
        commands.append({"command": name, **{short: figures.get(field) for short, field in _OF_COMMANDS.items()}})
    commands.sort(key=lambda row: -(row["total"] or 0))
    return {
        "commands": commands[:_MOST_COMMANDS],
        "events": [
            {"event": event[0], "at": event[1], "latest": event[2], "most": event[3]}
            for event in (latest if isinstance(latest, list) else [])
        ],
        "threshold": int(threshold[1]) if isinstance(threshold, list) and threshold else None,
    }


def _figures(text: str) -> dict[str, float]:
    found = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            found[name] = float(value)
        except ValueError:
            continue
    return found


async def read_clients(session: Session, _body: dict[str, Any]) -> dict[str, Any]:
    """Read which clients are connected."""
    lines = (await session.link.ask("CLIENT", "LIST")).decode("utf-8", "replace").splitlines()
    rows = []
    for line in lines[:_MOST_CLIENTS]:
        told = dict(part.partition("=")[::2] for part in line.split(" "))
        rows.append({name: told.get(name, "") for name in _SHOWN_OF_CLIENTS})
    return {"rows": rows, "total": len(lines)}


async def read_settings(session: Session, _body: dict[str, Any]) -> dict[str, Any]:
    """Read the settings; of a Headrace with their defaults, and which of them change nothing there."""
    reply = await session.link.ask("CONFIG", "GET", "*")
    values = {name.decode(): value for name, value in zip(reply[::2], reply[1::2], strict=True)}
    known = Config().settings if session.product.get("headrace") else {}
    rows = []
    for name in sorted(values):
        row: dict[str, Any] = {"name": name, "value": values[name], "default": None, "inert": ""}
        if name in known:
            setting = known[name]
            row["default"], row["inert"] = setting.show(setting.default), setting.inert
            if setting.secret:
                row["value"] = "•••" if values[name] else ""
        rows.append(row)
    return {"rows": rows}


async def read_users(session: Session, _body: dict[str, Any]) -> dict[str, Any]:
    """Read the users of the server and their rules; hashes of passwords are left out."""
    lines = await session.link.ask("ACL", "LIST")
    rows = []
    for line in lines:
        _, name, *rules = line.decode("utf-8", "surrogateescape").split(" ")
        rows.append({"name": name, "rules": " ".join(rule for rule in rules if rule[:1] not in "#<")})
    return {"rows": rows}
