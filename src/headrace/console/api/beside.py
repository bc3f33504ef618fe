"""Data beside streams: dead letters, and messages that are added later."""

from typing import Any, Final

from headrace.console.api.catalogue import find_side_keys, stream_names
from headrace.console.api.entries import id_in, shown_entry
from headrace.console.api.questions import name_in, number_in
from headrace.console.errors import Refused
from headrace.console.link import pairs
from headrace.console.sessions import Session
from headrace.engine.rules.dead_letters import split_letter
from headrace.engine.side_keys import side_key

_MOST_LETTERS: Final = 200
_MOST_MESSAGES: Final = 200
_MOST_STREAMS: Final = 500
_SCHEDULED: Final = b"scheduled"


async def read_dead(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """Read which streams hold dead letters; with `stream`, a page of the letters of one."""
    if "stream" not in body:
        names, more = await stream_names(session)
        dead = [name for name in names if name.endswith(b":dead")]
        lengths = await session.link.ask_all([("XLEN", name) for name in dead[:_MOST_STREAMS]])
        rows = [{"stream": name, "length": length} for name, length in zip(dead, lengths, strict=False) if length]
        return {"rows": rows, "more": more or len(dead) > _MOST_STREAMS}
    key = name_in(body, "stream")
    count = max(number_in(body, "count", 50, _MOST_LETTERS), 1)
    page = await session.link.ask("XRANGE", key, id_in(body, "start", "-"), "+", "COUNT", count + 1)
    return {
        "stream": key,
        "length": await session.link.ask("XLEN", key),
        "rows": [_letter(entry) for entry in page[:count]],
        "next": page[count][0] if len(page) > count else None,
        "redriving": await _redriving(session, key),
    }


def _letter(entry: list[Any]) -> dict[str, Any]:
    letter = split_letter(entry[1])
    if letter is None:
        return {**shown_entry(entry), "origin": None}
    fields, origin = letter
    told = {
        "stream": origin.stream,
        "id": origin.id,
        "group": origin.group,
        "consumer": origin.consumer,
        "deliveries": origin.deliveries,
        "last_ms": origin.last_delivery_ms,
        "reason": origin.reason,
    }
    return {**shown_entry([entry[0], fields]), "origin": told}


async def _redriving(session: Session, key: bytes) -> dict[str, Any] | None:
    """Return how far a redrive has come; None where there is none."""
    if not session.product.get("headrace"):
        return None
    try:
        told = await session.link.ask("HEADRACE", "REDRIVING", key)
    except Refused:
        return None
    return pairs(told) if told else None


async def read_scheduled(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """Read for which streams messages are scheduled; with `stream`, the first of them."""
    if "stream" in body:
        key = name_in(body, "stream")
        messages = await session.link.ask("HEADRACE", "SCHEDULED", key, "COUNT", _MOST_MESSAGES)
        total = await session.link.ask("ZCARD", side_key(key, _SCHEDULED))
        return {"stream": key, "total": total, "rows": [_message(pairs(each)) for each in messages]}
    places, more = await find_side_keys(session, _SCHEDULED)
    replies = await session.link.ask_all(
        [command for _, side in places for command in (("ZCARD", side), ("ZRANGE", side, 0, 0, "WITHSCORES"))]
    )
    rows = [
        {"stream": stream, "count": count, "due": _due(first)}
        for (stream, _), count, first in zip(places, replies[::2], replies[1::2], strict=True)
        if isinstance(count, int)
    ]
    return {"rows": rows, "more": more}


def _due(first: Any) -> int | None:
    if not isinstance(first, list) or not first:
        return None
    when = float(first[1])
    return int(when) if when < 1e18 else None


def _message(told: dict[str, Any]) -> dict[str, Any]:
    fields = told.get("fields") or []
    return {
        "ticket": told["ticket"],
        "due": told["due"],
        "every": told.get("every"),
        "held": told.get("held"),
        "fields": shown_entry([b"", fields])["fields"],
    }
