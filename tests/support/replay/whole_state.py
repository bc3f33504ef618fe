"""All that an engine holds and must have after a restart, as plain values that can be compared.

    streams          entries, counters, groups with how far they have read, every pending record (owner, time,
                     deliveries), released records in their order, consumers with when they last got something, and
                     what producers have sent, in order
    other values     their elements
    every key        when it expires
    functions        the libraries

Some things are not here, because no effect carries them: how entries lie in nodes, the order of deliveries within one
millisecond, when keys were looked at, and when a consumer last asked for entries that were not there. `with_attempts`
adds the last, because what is repeated must not depend on the clock.
"""

from collections import deque
from typing import Any

from headrace.core.group import Group
from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet
from headrace.core.stream import Stream
from headrace.engine.engine import Engine
from support.in_process import InProcessClient

State = dict[Any, Any]


def take_state(engine: Engine, *, with_attempts: bool = False) -> State:
    """Return everything, by database and key."""
    state: State = {"functions": InProcessClient(engine).run("FUNCTION", "LIST", "WITHCODE")}
    for db in engine.databases:
        for key, value in db.values.items():
            state[db.number, key] = (_value(value, with_attempts), db.expires.get(key))
    return state


def differences(found: State, expected: State) -> str:
    """Say what is not the same."""
    return "\n".join(
        f"  {where}:\n    found    {found.get(where, 'nothing')}\n    expected {expected.get(where, 'nothing')}"
        for where in [*expected, *(found.keys() - expected.keys())]
        if found.get(where) != expected.get(where)
    )


def _value(value: Any, with_attempts: bool) -> Any:
    if isinstance(value, Stream):
        return _stream(value, with_attempts)
    if isinstance(value, SortedSet):
        return [("sorted set", member, score) for member, score in value.items()]
    if isinstance(value, dict):
        return ["hash", *value.items()]
    if isinstance(value, MemberSet):
        return ["set", *sorted(value)]
    return ["list", *value] if isinstance(value, deque) else value


def _stream(stream: Stream, with_attempts: bool) -> Any:
    producers = stream.producers
    return {
        "entries": [(str(id), *fields) for id, fields in stream.range()],
        "counters": [str(stream.last_id), str(stream.max_deleted_id), str(stream.first_id), stream.entries_added],
        "groups": [_group(group, with_attempts) for group in stream.group_list()],
        "limits": (producers.duration_s, producers.max_size),
        "counted": (producers.recorded, producers.duplicates),
        "identity": stream.identity,
        "sent": [(name, [(text, str(id)) for text, id in sent]) for name, sent in producers.tables()],
    }


def _group(group: Group, with_attempts: bool) -> Any:
    return {
        "name": group.name,
        "read": (str(group.last_delivered_id), group.position, group.lag),
        "pending": [(str(id), *record) for id, *record in group.pending_records()],
        "released": [str(id) for id, *_ in group.delivery_order()[: group.released_count]],
        "consumers": [
            (each.name, each.active_time, *([each.seen_time] if with_attempts else []))
            for each in group.consumer_list()
        ],
    }
