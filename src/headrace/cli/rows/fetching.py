"""Reading a range of a stream from a server, a page at a time."""

from collections.abc import Iterator, Sequence
from typing import Final

import redis

from headrace.cli.connecting import ask
from headrace.cli.rows.row import Pairs
from headrace.core.stream_id import MAX_ID, StreamID

_PAGE: Final = 1000


def as_pairs(fields: Sequence[bytes]) -> Pairs:
    """Pair the names and values of a reply."""
    return list(zip(fields[::2], fields[1::2], strict=True))


def fetch(client: redis.Redis, key: bytes, start: str, end: str) -> Iterator[tuple[bytes, Pairs]]:
    """Give the entries from one ID to another, both included; what is added behind the end meanwhile is not there."""
    while True:
        page = ask(client, "XRANGE", key, start, end, "COUNT", _PAGE)
        for id, fields in page:
            yield id, as_pairs(fields)
        if len(page) < _PAGE:
            return
        last = StreamID.parse(page[-1][0])
        if last == MAX_ID:
            return
        start = str(last.successor())
