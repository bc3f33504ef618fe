"""One group: how far it is, its consumers, and what is pending by age and by deliveries."""

import time
from typing import Any, Final

from headrace.console.api.catalogue import add_oldest
from headrace.console.api.entries import id_in
from headrace.console.api.questions import name_in, number_in, text_in
from headrace.console.errors import Refused
from headrace.console.link import pairs
from headrace.console.sessions import Session
from headrace.console.texts import bytes_of

_MOST_CONSUMERS: Final = 500
_COUNTED: Final = 1_000  # pending records that the pictures are made of
_MOST_PENDING: Final = 200
_AGES_MS: Final = (1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000)
_DELIVERIES: Final = (1, 2, 3, 5, 10)


async def read_group(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """Read a group with its consumers; the pictures are of its first 1,000 pending entries."""
    key, name = name_in(body, "stream"), name_in(body, "group")
    facts = pairs(await session.link.ask("XINFO", "STREAM", key))
    told = next(
        (each for each in map(pairs, await session.link.ask("XINFO", "GROUPS", key)) if each["name"] == name), None
    )
    if told is None:
        raise Refused(404, "no_group")
    consumers = [pairs(each) for each in await session.link.ask("XINFO", "CONSUMERS", key, name)]
    handled = await _read_handled(session, key, name)
    records = await session.link.ask("XPENDING", key, name, "-", "+", _COUNTED)
    row: dict[str, Any] = {
        "stream": key,
        "name": name,
        "lag": told.get("lag"),
        "pending": told["pending"],
        "last": told["last-delivered-id"],
        "read": told.get("entries-read"),
    }
    await add_oldest(session, [row])
    first, last = facts.get("first-entry"), facts.get("last-entry")
    return {
        **row,
        "length": facts["length"],
        "first": first[0] if first else None,
        "end": last[0] if last else None,
        "consumers": [
            {
                "name": each["name"],
                "pending": each["pending"],
                "idle_ms": each["idle"],
                "inactive_ms": each.get("inactive"),
                **handled.get(each["name"], {}),
            }
            for each in sorted(consumers, key=lambda each: -each["pending"])[:_MOST_CONSUMERS]
        ],
        "consumer_count": len(consumers),
        "at_ms": time.monotonic() * 1000,
        "counts": bool(handled) or not consumers,
        "counted": len(records),
        "by_age": _spread([record[2] for record in records], _AGES_MS),
        "by_deliveries": _spread([record[3] for record in records], _DELIVERIES),
    }


async def _read_handled(session: Session, key: bytes, name: bytes) -> dict[bytes, dict[str, int]]:
    """Read how many entries each consumer was given and acknowledged, which only a Headrace counts."""
    if not session.product.get("headrace"):
        return {}
    try:
        reply = await session.link.ask("HEADRACE", "CONSUMERS", key, name)
    except Refused:
        return {}  # it is too old, the user may not, or the group has just gone
    return {
        each["name"]: {"delivered": each["delivered"], "acknowledged": each["acknowledged"]}
        for each in map(pairs, reply)
    }


def _spread(values: list[int], bounds: tuple[int, ...]) -> list[list[int | None]]:
    """Count values by the first bound that they do not pass; None: beyond all."""
    counts = [0] * (len(bounds) + 1)
    for value in values:
        counts[next((place for place, bound in enumerate(bounds) if value <= bound), len(bounds))] += 1
    return [[bound, count] for bound, count in zip((*bounds, None), counts, strict=True)]


async def read_pending(session: Session, body: dict[str, Any]) -> dict[str, Any]:
    """Read a page of what is pending, of all or of one consumer."""
    key, name = name_in(body, "stream"), name_in(body, "group")
    count = max(number_in(body, "count", 50, _MOST_PENDING), 1)
    consumer = text_in(body, "consumer")
    records = await session.link.ask(
        "XPENDING", key, name, id_in(body, "start", "-"), "+", count + 1, *([bytes_of(consumer)] if consumer else [])
    )
    rows = [
        {"id": id, "consumer": owner, "idle_ms": idle, "deliveries": deliveries}
        for id, owner, idle, deliveries in records[:count]
    ]
    return {"rows": rows, "next": records[count][0] if len(records) > count else None}
