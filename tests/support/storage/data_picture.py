"""All that an engine holds, as plain bytes that can be compared: one picture for each key of each database.

A picture has everything that effects carry: entries, IDs and counters of a stream, its groups with how far they have
read and every pending record (owner, time, deliveries), who released what, and what producers sent; of other values,
their elements; of every key, when it expires. It leaves out what no effect carries: when consumers were last seen, and
how entries lie in nodes.
"""

import marshal
from collections import deque
from typing import Any

from headrace.core.group import Group
from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.core.stream import Stream
from headrace.engine.engine import Engine

Pictures = dict[tuple[int, bytes], bytes]

PLAIN = 2  # the last version of marshal whose bytes depend on nothing but the values


def take_pictures(engine: Engine, previous: Pictures | None = None) -> Pictures:
    """Picture every key. Those that are as in `previous` are the same objects, which makes comparing cheap."""
    pictures: Pictures = {}
    for db in engine.databases:
        for key, value in db.values.items():
            picture = marshal.dumps((_value(value), db.expires.get(key)), PLAIN)
            before = previous.get((db.number, key)) if previous is not None else None
            pictures[db.number, key] = before if before == picture else picture
    return pictures


def different_keys(found: Pictures, expected: Pictures) -> list[tuple[int, bytes]]:
    """List the keys that are not in both, or not the same."""
    return sorted(where for where in found.keys() | expected.keys() if found.get(where) != expected.get(where))


def describe_difference(found: Pictures, expected: Pictures) -> str:
    """Tell which keys differ, and how."""
    return "\n".join(
        f"  database {where[0]}, key {where[1]!r}:\n"
        f"    found    {_text(found.get(where))}\n"
        f"    expected {_text(expected.get(where))}"
        for where in different_keys(found, expected)
    )


def _text(picture: bytes | None) -> str:
    return "nothing" if picture is None else repr(marshal.loads(picture))  # noqa: S302 - our own bytes


def _value(value: Any) -> Any:
    if isinstance(value, Stream):
        return _stream(value)
    if isinstance(value, MemberSet):
        return ("set", *sorted(value))
    if isinstance(value, SortedSet):
        return ("sorted set", *value.items())
    if isinstance(value, dict):
        return ("hash", *sorted(value.items()))
    return ("list", *value) if isinstance(value, deque) else value


def _stream(stream: Stream) -> Any:
    producers = stream.producers
    return (
        tuple((bytes(id), *fields) for id, fields in stream.range()),
        *(bytes(stream.last_id), bytes(stream.max_deleted_id), stream.entries_added),
        tuple(map(_group, stream.group_list())),
        *(producers.duration_s, producers.max_size, producers.recorded, producers.duplicates),
        tuple((name, *((text, bytes(id)) for text, id in sent)) for name, sent in producers.tables()),
    )


def _group(group: Group) -> Any:
    return (
        *(group.name, bytes(group.last_delivered_id), group.position),
        tuple((bytes(id), *record) for id, *record in group.pending_records()),
        tuple(bytes(id) for id, *_ in group.delivery_order()[: group.released_count]),
        tuple(consumer.name for consumer in group.consumer_list()),
    )
