"""What `headrace tail` does: the last entries of each stream, merged by ID, then XREAD until Ctrl-C."""

import sys
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Final, NamedTuple

import redis

from headrace.cli.address import ServerAddress
from headrace.cli.connecting import ask, connected, require_stream
from headrace.cli.rows.fetching import as_pairs, fetch
from headrace.cli.rows.row import Pairs
from headrace.cli.showing import raw, shown
from headrace.cli.tail.filters import Condition, conditions
from headrace.cli.tail.formats import printer
from headrace.cli.times import END
from headrace.core.stream_id import StreamID

_BLOCK_MS: Final = 1000  # so that Ctrl-C and a connection that is gone are noticed
_PAGE: Final = 500


class Found(NamedTuple):
    """An entry of a stream."""

    id: StreamID
    key: bytes
    pairs: Pairs


def run_tail(
    server: ServerAddress,
    names: Sequence[str],
    *,
    count: int,
    start: str | None,
    form: str,
    where: Sequence[str],
    grep: str | None,
    fields: Sequence[str],
    follow: bool,
) -> None:
    """Print the end of streams, and what comes."""
    keys = list(dict.fromkeys(raw(name) for name in names))
    wanted = conditions(where, grep)
    show = printer(form, fields, keys)
    chosen = {raw(name) for name in fields}

    def print_entry(entry: Found) -> None:
        pairs = [pair for pair in entry.pairs if pair[0] in chosen] if chosen else entry.pairs
        show(entry.key, bytes(entry.id), pairs)

    with connected(server) as client:
        if not follow:
            for key in keys:
                require_stream(client, key)
        ends = {key: _end_of(client, key) for key in keys}
        for entry in _before(client, ends, count, start, wanted):
            print_entry(entry)
        sys.stdout.flush()
        if follow:
            _follow(client, ends, wanted, print_entry)


def _end_of(client: redis.Redis, key: bytes) -> StreamID:
    """Where a stream ends now; what comes behind that is new. A stream that is not there yet may come."""
    kind = client.type(key)
    if kind == b"none":
        print(f"headrace: There is no stream {shown(key)} yet; waiting for it.", file=sys.stderr)  # noqa: T201
        return StreamID(0, 0)
    require_stream(client, key)
    return StreamID.parse(client.xinfo_stream(key)["last-generated-id"])


def _before(
    client: redis.Redis, ends: dict[bytes, StreamID], count: int, start: str | None, wanted: Sequence[Condition]
) -> list[Found] | Iterator[Found]:
    """Give what is to be printed of what is there already, in the order of the IDs."""
    if start == END:
        return []
    if start is not None:
        return merge(*(_matching(fetch(client, key, start, str(end)), key, wanted) for key, end in ends.items()))
    last = [
        found
        for key, end in ends.items()
        for found in islice(_matching(_backwards(client, key, end), key, wanted), count)
    ]
    return sorted(last)[-count:] if count else []


def _backwards(client: redis.Redis, key: bytes, end: StreamID) -> Iterator[tuple[bytes, Pairs]]:
    until = str(end)
    while True:
        page = ask(client, "XREVRANGE", key, until, "-", "COUNT", _PAGE)
        for id, fields in page:
            yield id, as_pairs(fields)
        if len(page) < _PAGE:
            return
        first = StreamID.parse(page[-1][0])
        if first == StreamID(0, 0):
            return
        until = str(first.predecessor())


def _matching(entries: Iterator[tuple[bytes, Pairs]], key: bytes, wanted: Sequence[Condition]) -> Iterator[Found]:
    for id, pairs in entries:
        if all(holds(pairs) for holds in wanted):
            yield Found(StreamID.parse(id), key, pairs)


def _follow(
    client: redis.Redis,
    ends: dict[bytes, StreamID],
    wanted: Sequence[Condition],
    print_entry: Callable[[Found], None],
) -> None:
    positions = {key: bytes(end) for key, end in ends.items()}
    while True:
        reply = ask(client, "XREAD", "COUNT", _PAGE, "BLOCK", _BLOCK_MS, "STREAMS", *positions, *positions.values())
        arrived: list[Found] = []
        for key, entries in reply or ():
            positions[key] = entries[-1][0]
            arrived += _matching(((id, as_pairs(fields)) for id, fields in entries), key, wanted)
        for entry in sorted(arrived):
            print_entry(entry)
        if arrived:
            sys.stdout.flush()
