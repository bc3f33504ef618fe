"""Pending messages: a group has given them to consumers, which have not acknowledged them."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, NamedTuple

from headrace.api.ids import as_milliseconds
from headrace.api.runner import Plan, text_of
from headrace.core.stream_id import StreamID

_AT_ONCE: Final = 1000  # records that are listed without letting another thread in between


class Pending(NamedTuple):
    """A message that a consumer was given and has not acknowledged."""

    id: StreamID
    consumer: str
    idle: timedelta  # since it was given
    deliveries: int  # how often


def list_pending(key: bytes, group: bytes, consumer: str | None, idle: float | timedelta) -> Plan[list[Pending]]:
    """List the records of all consumers or of one, all of them or those that are idle for long."""
    records: list[Pending] = []
    start = b"-"
    extra = [] if consumer is None else [text_of(consumer)]
    while True:
        idle_words = [b"IDLE", as_milliseconds(idle)]
        found = yield [b"XPENDING", key, group, *idle_words, start, b"+", b"%d" % _AT_ONCE, *extra]
        records += [
            Pending(StreamID.parse(id), name_text(owner), timedelta(milliseconds=idle_ms), deliveries)
            for id, owner, idle_ms, deliveries in found
        ]
        if len(found) < _AT_ONCE:
            return records
        start = b"(" + found[-1][0]


def name_text(name: bytes) -> str:
    """Read the name of a key, a group or a consumer."""
    return name.decode("utf-8", "surrogateescape")
