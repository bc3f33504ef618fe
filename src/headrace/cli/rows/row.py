"""An entry on its way between a stream and a file, and reading entries from a server, a page at a time."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import redis

from headrace.cli.connecting import ask
from headrace.core.stream_id import MAX_ID, StreamID

Pairs: TypeAlias = list[tuple[bytes, bytes]]

ID_COLUMN: Final = "_id"

_PAGE: Final = 1000


class Row(NamedTuple):
    """An entry; without an ID, where the server is to make one. `line` says where in a file it stands."""

    id: bytes | None
    pairs: Pairs
    line: int = 0


def repeated_name(pairs: Pairs) -> bytes | None:
    """Return a name that these fields have twice."""
    seen: set[bytes] = set()
    for name, _ in pairs:
        if name in seen:
            return name
        seen.add(name)
    return None


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
