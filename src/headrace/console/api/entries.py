"""Entries of a stream: a page from any ID or time, filtered; and one entry with its place in each group.

A page is found by XRANGE or XREVRANGE, so that the end of a hundred million entries is as near as that of ten. A filter
looks at up to 5,000 entries for a page, and says how far it came. Long values are cut in pages, and whole in `entry`.
"""

import re
from collections.abc import AsyncIterator
from typing import Any, Final

from headrace.console.api.filters import read_filter
from headrace.console.api.questions import name_in, number_in, text_in
from headrace.console.errors import Refused
from headrace.console.link import pairs
from headrace.console.sessions import Session

_MOST_ENTRIES: Final = 200
_LOOKED_AT: Final = 5_000
_AT_ONCE: Final = 500
_LONG: Final = 2_048  # bytes of a value in a page
_LONGEST: Final = 1 << 20  # and of a value that is shown alone
_MOST_GROUPS: Final = 100
_OWN_ID: Final = re.compile(r"\d{1,20}(?:-\d{1,20})?", re.ASCII)
_ID: Final = re.compile(r"\(?(?:\d{1,20}(?:-\d{1,20})?|-|\+)", re.ASCII)


def shown_entry(entry: list[Any], most: int = _LONG) -> dict[str, Any]:
    """Return an entry for the page: fields in their order, [name, value] or [name, first bytes, size]."""
    id, fields = entry
    shown = []
    for name, value in zip(fields[::2], fields[1::2], strict=True):
        shown.append([name[:most], value] if len(value) <= most else [name[:most], value[:most], len(value)])
    return {"id": id, "fields": shown}


def id_in(body: dict[str, Any], field: str, default: str) -> str:
    """Read a border of a range."""
    text = text_in(body, field, default) or default
    if not _ID.fullmatch(text):
        raise Refused(400, "id", text)
    return text


def own_id_in(body: dict[str, Any], field: str) -> str:
    """Read the ID of one entry, or a position: no border that includes or excludes."""
    text = text_in(body, field)
    if not _OWN_ID.fullmatch(text):
        raise Refused(400, "id", text)
    return text


async def read_entries(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """Read a page of entries; `next` is from where it goes on, None at the end."""
    key = name_in(body, "stream")
    count = max(number_in(body, "count", 50, _MOST_ENTRIES), 1)
    backwards = bool(body.get("backwards"))
    start, end = id_in(body, "start", "-"), id_in(body, "end", "+")
    conditions = read_filter(text_in(body, "filter"))
    found: list[list[Any]] = []
    looked_at = 0
    while True:
        wanted = _AT_ONCE if conditions else count + 1
        command = ("XREVRANGE", key, end, start) if backwards else ("XRANGE", key, start, end)
        page = await session.link.ask(*command, "COUNT", wanted)
        for entry in page:
            if all(condition.holds(entry[1]) for condition in conditions):
                found.append(entry)
            if len(found) > count:
                break
            looked_at += 1
        if page:
            border = "(" + page[-1][0].decode()
            start, end = (start, border) if backwards else (border, end)
        if len(found) > count or len(page) < wanted or looked_at >= _LOOKED_AT:
            break
    following = None
    if len(found) > count:
        following = found[count][0]
    elif len(page) >= wanted:
        following = end if backwards else start
    return {"entries": [shown_entry(each) for each in found[:count]], "next": following, "looked_at": looked_at}


async def export_entries(session: Session, body: dict[str, Any]) -> AsyncIterator[list[list[Any]]]:
    """Give all entries of a range that a filter wants, some hundred at a time; not those that are added meanwhile."""
    key = name_in(body, "stream")
    start, end = id_in(body, "start", "-"), id_in(body, "end", "+")
    conditions = read_filter(text_in(body, "filter"))
    if end == "+":
        end = pairs(await session.link.ask("XINFO", "STREAM", key))["last-generated-id"].decode()
    while True:
        page = await session.link.ask("XRANGE", key, start, end, "COUNT", _AT_ONCE)
        yield [entry for entry in page if all(condition.holds(entry[1]) for condition in conditions)]
        if len(page) < _AT_ONCE:
            return
        start = "(" + page[-1][0].decode()


async def read_entry(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """Read one entry whole, and where it stands in each group: waiting, pending with whom, or done."""
    key, id = name_in(body, "stream"), own_id_in(body, "id")
    page = await session.link.ask("XRANGE", key, id, id)
    groups = [pairs(each) for each in (await session.link.ask("XINFO", "GROUPS", key))[:_MOST_GROUPS]]
    pending = await session.link.ask_all([("XPENDING", key, group["name"], id, id, 1) for group in groups])
    places = []
    for group, record in zip(groups, pending, strict=True):
        place: dict[str, Any] = {"group": group["name"]}
        if isinstance(record, list) and record:
            _, consumer, idle, deliveries = record[0]
            place |= {"state": "pending", "consumer": consumer, "idle_ms": idle, "deliveries": deliveries}
        else:
            place["state"] = "done" if _number(id) <= _number(group["last-delivered-id"].decode()) else "waiting"
        places.append(place)
    return {"entry": shown_entry(page[0], _LONGEST) if page else None, "places": places}


def _number(id: str) -> tuple[int, int]:
    ms, _, seq = id.partition("-")
    return int(ms), int(seq or 0)
