"""What XINFO STREAM … FULL says of a stream: from a server's reply, and from our structures.

Both become the same nested dictionaries, so that two of them can be compared with `==`. Ours has every field that
any version knows; `fields_of` cuts it to those that the other side has, and fails where the other has one that we
do not know.
"""

from collections.abc import Iterator
from typing import Any

from headrace.core.group import Consumer, Group
from headrace.core.stream import Stream

Info = dict[bytes, Any]

_TIMES = (b"seen-time", b"active-time")


def read_reply(reply: list[Any]) -> Info:
    """Make dictionaries of the flat lists of names and values."""
    info = _pairs(reply)
    groups = [_pairs(group) for group in info[b"groups"]]
    for group in groups:
        group[b"consumers"] = [_pairs(consumer) for consumer in group[b"consumers"]]
    return info | {b"groups": groups}


def _pairs(flat: list[Any]) -> Info:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def describe(stream: Stream) -> Info:
    """Say of a stream what XINFO STREAM … FULL COUNT 0 would."""
    producers = stream.producers
    return {
        b"length": len(stream),
        b"radix-tree-keys": stream.node_count,
        b"radix-tree-nodes": stream.rax_node_count,
        b"last-generated-id": bytes(stream.last_id),
        b"max-deleted-entry-id": bytes(stream.max_deleted_id),
        b"entries-added": stream.entries_added,
        b"recorded-first-entry-id": bytes(stream.first_id),
        b"idmp-duration": producers.duration_s,
        b"idmp-maxsize": producers.max_size,
        b"pids-tracked": len(producers),
        b"iids-tracked": producers.remembered,
        b"iids-added": producers.recorded,
        b"iids-duplicates": producers.duplicates,
        b"entries": [[bytes(entry_id), fields] for entry_id, fields in stream.range()],
        b"groups": [_describe_group(group) for group in stream.group_list()],
    }


def _describe_group(group: Group) -> Info:
    return {
        b"name": group.name,
        b"last-delivered-id": bytes(group.last_delivered_id),
        b"entries-read": group.position,
        b"lag": group.lag,
        b"pel-count": group.pending_count,
        b"nacked-count": group.released_count,
        b"pending": [
            [bytes(entry_id), owner or b"", time, deliveries]
            for entry_id, owner, time, deliveries in group.pending_records()
        ],
        b"consumers": [_describe_consumer(group, consumer) for consumer in group.consumer_list()],
    }


def _describe_consumer(group: Group, consumer: Consumer) -> Info:
    records = group.pending_records(consumer=consumer.name)
    assert [entry_id for entry_id, *_ in records] == consumer.pending_ids()
    return {
        b"name": consumer.name,
        b"seen-time": consumer.seen_time,
        b"active-time": consumer.active_time,
        b"pel-count": len(consumer),
        b"pending": [[bytes(entry_id), time, deliveries] for entry_id, _, time, deliveries in records],
    }


def fields_of(ours: Any, theirs: Any) -> Any:
    """Cut ours to the fields that theirs has."""
    if isinstance(theirs, dict):
        return {name: fields_of(ours[name], value) for name, value in theirs.items()}
    if isinstance(theirs, list) and theirs and isinstance(theirs[0], dict):
        return [fields_of(*pair) for pair in zip(ours, theirs, strict=True)]
    return ours


def take_times(info: Info) -> list[int]:
    """Take every time out of a description, in its order; what is left does not depend on a clock."""
    return [time for part in _timed_parts(info) for time in part]


def _timed_parts(info: Info) -> Iterator[list[int]]:
    for group in info[b"groups"]:
        yield [row.pop(2) for row in group[b"pending"]]
        for consumer in group[b"consumers"]:
            yield [consumer.pop(name) for name in _TIMES if name in consumer]
            yield [row.pop(1) for row in consumer[b"pending"]]
