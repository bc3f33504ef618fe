"""The live tail: new entries as they come, a few times a second; a writer that is faster is skipped over."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from headrace.console.api.entries import shown_entry
from headrace.console.api.filters import read_filter
from headrace.console.api.questions import name_in, text_in
from headrace.console.errors import Refused
from headrace.console.sessions import Session

_AT_ONCE: Final = 200
_SHOWN: Final = 50
_BLOCK_MS: Final = 2000
_PAUSE_S: Final = 0.2
_AWAY_S: Final = 1.0


async def follow(session: Session, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """Give batches of entries behind the end of a stream; an empty one every two seconds, so that ends are noticed."""
    key, conditions = name_in(body, "stream"), read_filter(text_in(body, "filter"))
    last = text_in(body, "after") or "$"
    if last == "$":
        last = await _end_of(session, key)
    yield {"entries": [], "last": last}
    while True:
        try:
            reply = await session.link.ask("XREAD", "COUNT", _AT_ONCE, "BLOCK", _BLOCK_MS, "STREAMS", key, last)
        except Refused as refusal:
            if refusal.status != 503:
                yield {"error": refusal.code, "text": refusal.text}
                return
            yield {"away": True}  # it goes on when the server is back
            await asyncio.sleep(_AWAY_S)
            continue
        entries = reply[0][1] if reply else []
        skipped = len(entries) == _AT_ONCE
        if skipped:
            entries = (await session.link.ask("XREVRANGE", key, "+", "-", "COUNT", _SHOWN))[::-1] or entries
        if entries:
            last = entries[-1][0].decode()
        shown = [entry for entry in entries if all(condition.holds(entry[1]) for condition in conditions)]
        yield {"entries": [shown_entry(each) for each in shown], "last": last, "skipped": skipped}
        if entries:
            await asyncio.sleep(_PAUSE_S)


async def _end_of(session: Session, key: bytes) -> str:
    newest = await session.link.ask("XREVRANGE", key, "+", "-", "COUNT", 1)
    return newest[0][0].decode() if newest else "0"
