"""Keys that lie beside streams, found by SCAN: `headrace:{stream}:scheduled` and the like."""

from typing import Final

from headrace.console.sessions import Session
from headrace.engine.side_keys import side_key

_MOST_STREAMS: Final = 500
_MOST_STEPS: Final = 1_000  # of SCAN


async def find_side_keys(session: Session, kind: bytes) -> tuple[list[tuple[bytes, bytes]], bool]:
    """Return streams that have a key of this kind, each with that key, in order; and whether there are more."""
    begin, end = side_key(b"*", kind).split(b"*")
    found: set[bytes] = set()
    cursor: bytes | int = 0
    for _ in range(_MOST_STEPS):
        cursor, keys = await session.link.ask("SCAN", cursor, "MATCH", side_key(b"*", kind), "COUNT", 2000)
        found.update(keys)
        if int(cursor) == 0 or len(found) > _MOST_STREAMS:
            break
    sides = sorted(found)[:_MOST_STREAMS]
    return [(side[len(begin) : -len(end)], side) for side in sides], int(cursor) != 0 or len(found) > _MOST_STREAMS
