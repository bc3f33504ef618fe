"""All streams of a database, by pages: names by SCAN, and figures of a page, or of all where they are sorted by one.

names     SCAN TYPE stream, up to 20,000 streams, kept for some seconds
figures   XLEN and XINFO GROUPS of all of them, 500 in a pipeline, kept for some seconds: 10,000 streams take a second
a page    XINFO STREAM, XINFO GROUPS, MEMORY USAGE and HEADRACE MEMORY of its 50 streams
"""

import time
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from redis.exceptions import ResponseError

from headrace.console.api.questions import number_in, text_in
from headrace.console.errors import Refused
from headrace.console.link import pairs
from headrace.console.sessions import Session
from headrace.console.texts import text_of
from headrace.engine.side_keys import side_key

_MOST_STREAMS: Final = 20_000
_MOST_STEPS: Final = 5_000  # of SCAN
_MOST_SIDE_KEYS: Final = 500
_MOST_SIDE_STEPS: Final = 1_000  # of SCAN
_NAMES_S: Final = 3.0
_FIGURES_S: Final = 3.0
_MOST_ROWS: Final = 200
_SORTS: Final = ("name", "length", "lag", "pending", "groups", "growth")
_DEAD: Final = b":dead"


@dataclass
class Figures:
    """The figures of all streams at a moment."""

    taken: float
    length: dict[bytes, int]
    groups: dict[bytes, list[dict[str, Any]]]
    growth: dict[bytes, float]


async def stream_names(session: Session) -> tuple[list[bytes], bool]:
    """Return the names of the streams in order, and whether there are more."""
    known = session.known.get("names")
    if known is not None and time.monotonic() - known[0] < _NAMES_S:
        return known[1], known[2]
    found: set[bytes] = set()
    cursor: bytes | int = 0
    more = False
    for _ in range(_MOST_STEPS):
        cursor, keys = await session.link.ask("SCAN", cursor, "COUNT", 2000, "TYPE", "stream")
        found.update(keys)
        more = len(found) > _MOST_STREAMS
        if int(cursor) == 0 or more:
            break
    else:
        more = True
    names = sorted(found)[:_MOST_STREAMS]
    session.known["names"] = (time.monotonic(), names, more)
    return names, more


async def all_figures(session: Session, names: list[bytes]) -> Figures:
    """Read length and groups of every stream; the growth is since the reading before."""
    before: Figures | None = session.known.get("figures")
    now = time.monotonic()
    if before is not None and now - before.taken < _FIGURES_S and len(before.length) >= len(names):
        return before
    replies = await session.link.ask_all(
        [command for name in names for command in (("XLEN", name), ("XINFO", "GROUPS", name))]
    )
    figures = Figures(time.monotonic(), {}, {}, {})
    for name, length, groups in zip(names, replies[::2], replies[1::2], strict=True):
        if isinstance(length, int):
            figures.length[name] = length
            figures.groups[name] = [] if isinstance(groups, Exception) else [_group(pairs(each)) for each in groups]
            if before is not None and name in before.length:
                figures.growth[name] = (length - before.length[name]) / max(figures.taken - before.taken, 0.001)
    session.known["figures"] = figures
    return figures


def _group(told: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": told["name"],
        "lag": told.get("lag"),
        "pending": told["pending"],
        "consumers": told["consumers"],
        "last": told["last-delivered-id"],
        "read": told.get("entries-read"),
    }


def _matches(name: bytes, wanted: str) -> bool:
    text = text_of(name).lower()
    return fnmatchcase(text, wanted) if "*" in wanted or "?" in wanted else wanted in text


def _figure(figures: Figures, name: bytes, sort: str) -> float:
    groups = figures.groups.get(name, [])
    if sort == "length":
        return figures.length.get(name, 0)
    if sort == "growth":
        return figures.growth.get(name, 0)
    if sort == "groups":
        return len(groups)
    return max((group[sort] or 0 for group in groups), default=0)


async def read_streams(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """Read one page of the streams."""
    names, more = await stream_names(session)
    wanted, sort = text_in(body, "search").lower(), text_in(body, "sort", "name")
    if sort not in _SORTS:
        raise Refused(400, "request", "sort")
    found = [name for name in names if _matches(name, wanted)] if wanted else list(names)
    if sort == "name":
        found.sort(reverse=bool(body.get("descending")))
    else:
        figures = await all_figures(session, names)
        found.sort(key=lambda name: _figure(figures, name, sort), reverse=bool(body.get("descending", True)))
    size = max(number_in(body, "size", 50, _MOST_ROWS), 1)
    page = number_in(body, "page", 0, max(len(found) - 1, 0) // size)
    rows = await _rows(session, found[page * size : (page + 1) * size])
    return {"total": len(found), "all": len(names), "more": more, "page": page, "size": size, "rows": rows}


async def _rows(session: Session, names: list[bytes]) -> list[dict[str, Any]]:
    replies = await session.link.ask_all(
        [
            command
            for name in names
            for command in (("XINFO", "STREAM", name), ("XINFO", "GROUPS", name), ("MEMORY", "USAGE", name))
        ]
    )
    places: list[Any] = [None] * len(names)
    if session.product.get("headrace"):
        places = await session.link.ask_all([("HEADRACE", "MEMORY", name) for name in names])
    rows: list[dict[str, Any]] = []
    for name, facts, groups, memory, place in zip(
        names, replies[::3], replies[1::3], replies[2::3], places, strict=True
    ):
        if isinstance(facts, Exception):
            if not str(facts).startswith("no such key"):
                rows.append({"name": name, "refused": str(facts)})
            continue
        told = pairs(facts)
        rows.append(
            {
                "name": name,
                "length": told["length"],
                "added": told.get("entries-added"),
                "first": _id_of(told.get("first-entry")),
                "last": told["last-generated-id"],
                "memory": memory if isinstance(memory, int) else None,
                "disk": pairs(place)["disk-bytes"] if isinstance(place, list) else None,
                "groups": [] if isinstance(groups, ResponseError) else [_group(pairs(each)) for each in groups],
            }
        )
    return rows


def _id_of(entry: Any) -> bytes | None:
    return entry[0] if entry else None


async def read_groups(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """Read one page of the groups of all streams, those farthest behind first."""
    names, more = await stream_names(session)
    figures = await all_figures(session, names)
    wanted, sort = text_in(body, "search").lower(), text_in(body, "sort", "lag")
    if sort not in {"lag", "pending", "consumers", "name", "stream"}:
        raise Refused(400, "request", "sort")
    found = [
        {"stream": name, **group}
        for name in names
        for group in figures.groups.get(name, ())
        if not wanted or _matches(name, wanted) or _matches(group["name"], wanted)
    ]
    is_text = sort in {"name", "stream"}
    found.sort(key=lambda each: each[sort] if is_text else each[sort] or 0, reverse=bool(body.get("descending", True)))
    size = max(number_in(body, "size", 50, _MOST_ROWS), 1)
    page = number_in(body, "page", 0, max(len(found) - 1, 0) // size)
    rows = found[page * size : (page + 1) * size]
    await add_oldest(session, rows)
    return {"total": len(found), "more": more, "page": page, "size": size, "rows": rows}


async def add_oldest(session: Session, rows: list[dict[str, Any]]) -> None:
    """Add to groups how long their first pending entry waits, and the first entry that they were not given."""
    replies = await session.link.ask_all(
        [
            command
            for row in rows
            for command in (
                ("XPENDING", row["stream"], row["name"], "-", "+", 1),
                ("XRANGE", row["stream"], b"(" + row["last"], "+", "COUNT", 1),
            )
        ]
    )
    for row, pending, following in zip(rows, replies[::2], replies[1::2], strict=True):
        row["oldest_ms"] = pending[0][2] if isinstance(pending, list) and pending else None
        row["next"] = following[0][0] if isinstance(following, list) and following else None


async def worst_streams(session: Session, most: int) -> dict[str, Any]:
    """Return the streams that are worst off: lag, pending entries, dead letters, growth."""
    names, more = await stream_names(session)
    figures = await all_figures(session, names)
    groups = [{"stream": name, **group} for name in names for group in figures.groups.get(name, ())]
    behind = sorted((each for each in groups if each["lag"]), key=lambda each: -each["lag"])[:most]
    waiting = sorted((each for each in groups if each["pending"]), key=lambda each: -each["pending"])[:most]
    await add_oldest(session, behind)
    await add_oldest(session, waiting)
    dead: list[dict[str, Any]] = [
        {"stream": name, "length": figures.length[name]} for name in figures.length if name.endswith(_DEAD)
    ]
    growing = sorted(figures.growth.items(), key=lambda each: -each[1])[:most]
    return {
        "streams": len(names),
        "more": more,
        "entries": sum(figures.length.values()),
        "groups": len(groups),
        "pending": sum(each["pending"] for each in groups),
        "behind": behind,
        "waiting": waiting,
        "dead": sorted((each for each in dead if each["length"]), key=lambda each: -each["length"])[:most],
        "growing": [{"stream": name, "rate": rate} for name, rate in growing if rate > 0],
    }


async def find_side_keys(session: Session, kind: bytes) -> tuple[list[tuple[bytes, bytes]], bool]:
    """Return streams with a key like `headrace:{stream}:scheduled`, each with that key; and whether there are more."""
    begin, end = side_key(b"*", kind).split(b"*")
    found: set[bytes] = set()
    cursor: bytes | int = 0
    for _ in range(_MOST_SIDE_STEPS):
        cursor, keys = await session.link.ask("SCAN", cursor, "MATCH", side_key(b"*", kind), "COUNT", 2000)
        found.update(keys)
        if int(cursor) == 0 or len(found) > _MOST_SIDE_KEYS:
            break
    sides = sorted(found)[:_MOST_SIDE_KEYS]
    return [(side[len(begin) : -len(end)], side) for side in sides], int(cursor) != 0 or len(found) > _MOST_SIDE_KEYS
