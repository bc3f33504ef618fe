"""`headrace tail`: shows the last entries of each stream, merged by ID, then reads with XREAD until Ctrl-C."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any, Final, NamedTuple

import redis

from headrace.cli.address import ServerAddress
from headrace.cli.connecting import ask, connected
from headrace.cli.rows.row import Pairs, as_pairs, fetch
from headrace.cli.showing import raw
from headrace.cli.tail.choosing import ChosenStreams
from headrace.cli.tail.filters import Condition, conditions
from headrace.cli.tail.formats import printer, require_format
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
    wanted = conditions(where, grep)
    require_format(form)
    chosen = {raw(name) for name in fields}
    with connected(server) as client:
        streams = ChosenStreams(client, names, follow=follow)
        show = printer(form, fields, list(streams.positions), several=streams.several)

        def print_entry(entry: Found) -> None:
            pairs = [pair for pair in entry.pairs if pair[0] in chosen] if chosen else entry.pairs
            show(entry.key, bytes(entry.id), pairs)

        for entry in _before(client, streams.positions, count, start, wanted):
            print_entry(entry)
        sys.stdout.flush()
        if follow:
            _follow(client, streams, wanted, print_entry)


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
    client: redis.Redis, streams: ChosenStreams, wanted: Sequence[Condition], print_entry: Callable[[Found], None]
) -> None:
    while True:
        streams.scan_when_due()
        arrived: list[Found] = []
        for key, entries in _read_new(client, streams) or ():
            streams.positions[key] = StreamID.parse(entries[-1][0])
            arrived += _matching(((id, as_pairs(fields)) for id, fields in entries), key, wanted)
        for entry in sorted(arrived):
            print_entry(entry)
        if arrived:
            sys.stdout.flush()


def _read_new(client: redis.Redis, streams: ChosenStreams) -> Any:
    positions = streams.positions
    if not positions:
        time.sleep(_BLOCK_MS / 1000)
        return None
    places = [bytes(position) for position in positions.values()]
    try:
        return ask(client, "XREAD", "COUNT", _PAGE, "BLOCK", _BLOCK_MS, "STREAMS", *positions, *places)
    except redis.ResponseError as error:
        if not str(error).startswith("WRONGTYPE"):
            raise
        streams.scan()  # which forgets a stream of a pattern, and raises for one that was named
        return None
