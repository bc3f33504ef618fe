"""Spark queries, as they show beside streams: what they read, and what they wrote.

    headrace:{stream}:queries   hash   group ─► a note of a reading query with the option `group`; see spark.query_notes
    headrace:{stream}:batches   hash   query ─► the last batch of a query that wrote, and its entries

Both are ordinary data, which anybody may have written: what cannot be read is left out.
"""

import json
from typing import Any, Final

from headrace.console.api.catalogue import find_side_keys
from headrace.console.link import pairs
from headrace.console.sessions import Session

_MOST_QUERIES: Final = 200  # of one stream
_MOST_TEXT: Final = 500
_NUMBERS: Final = ("started", "batches", "rows", "batch_rows", "at", "before", "error_at")


async def read_pipelines(session: Session, _body: dict[str, Any]) -> dict[str, Any]:
    """Read the queries that left something beside a stream."""
    readers, more_readers = await find_side_keys(session, b"queries")
    writers, more_writers = await find_side_keys(session, b"batches")
    replies = await session.link.ask_all(
        [("HGETALL", side) for _, side in readers]
        + [("HGETALL", side) for _, side in writers]
        + [("XINFO", "GROUPS", stream) for stream, _ in readers]
        + [("XINFO", "STREAM", stream) for stream, _ in readers]
    )
    notes, batches = replies[: len(readers)], replies[len(readers) :][: len(writers)]
    groups, streams = (replies[len(readers) + len(writers) :][part * len(readers) :][: len(readers)] for part in (0, 1))
    reading = [
        row
        for (stream, _), told, all_groups, facts in zip(readers, notes, groups, streams, strict=True)
        for row in _readers_of(stream, told, all_groups, facts)
    ]
    writing = [row for (stream, _), told in zip(writers, batches, strict=True) for row in _writers_of(stream, told)]
    return {"reading": reading, "writing": writing, "more": more_readers or more_writers}


def _fields(told: Any) -> dict[bytes, bytes]:
    if not isinstance(told, list):
        return {}  # it holds something else
    return dict(list(zip(told[::2], told[1::2], strict=False))[:_MOST_QUERIES])


def _readers_of(stream: bytes, told: Any, groups: Any, facts: Any) -> list[dict[str, Any]]:
    known = {each["name"]: each for each in map(pairs, groups)} if isinstance(groups, list) else {}
    end = pairs(facts)["last-generated-id"] if isinstance(facts, list) else None
    rows = []
    for name, text in _fields(told).items():
        note = _read_note(text)
        if note is not None:
            group = known.get(name, {})
            place = {"lag": group.get("lag"), "last": group.get("last-delivered-id"), "read": group.get("entries-read")}
            rows.append({"stream": stream, "query": name, "end": end, **place, **note})
    return rows


def _read_note(text: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(text)
    except ValueError:
        return None
    if not isinstance(told, dict):
        return None
    note = {name: value if isinstance(value := told.get(name), int) else None for name in _NUMBERS}
    return {**note, "error": str(told.get("error") or "")[:_MOST_TEXT]}


def _writers_of(stream: bytes, told: Any) -> list[dict[str, Any]]:
    rows = []
    for name, text in _fields(told).items():
        words = text.split(b" ")
        if len(words) == 4 and words[0].isdigit() and words[3].isdigit():
            batch, first, last, entries = words
            shown = {"batch": int(batch), "entries": int(entries), "first": first, "last": last}
            rows.append({"stream": stream, "query": name, **shown})
    return rows
