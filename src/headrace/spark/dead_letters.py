"""Entries that a query cannot parse, sent to a stream beside: the option `deadLetterKey`.

    temp warm      headrace-stream devmsg   headrace-id 5-1 …   headrace-reason field 'temp' is b'warm', which is no int
    └ its fields   └ what dead letters of queues have, too: `headrace dead` shows them, HEADRACE REDRIVE puts them back

A task that runs again sends its letters again. A server that remembers what its producers sent (Headrace, Redis 8.6)
takes each of them once: the last 10,000 of a query, for a day. On other servers a letter may be there twice.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headrace.engine.rules.dead_letters import Origin
from headrace.spark.delivery import IDMP_SINCE, remember_longer
from headrace.spark.servers import Command, Server

_GROUP: Final = b"spark"  # of a query that has no option `group`
_AT_ONCE: Final = 1000  # commands in one round trip


@dataclass(frozen=True)
class Letter:
    """An entry that could not be parsed."""

    id: str
    fields: list[bytes]
    """Names and values."""
    reason: str


class LetterBox:
    """Sends letters to one stream. Made anew in each task."""

    def __init__(self, key: bytes, group: bytes | None, schema: str) -> None:
        self._key = key
        self._group = group or _GROUP
        self._producer = f"spark-{hashlib.sha256(schema.encode()).hexdigest()[:16]}"
        self._remembering: set[str] = set()

    def send(self, server: Server, stream: bytes, letters: list[Letter]) -> None:
        """Append letters of one stream."""
        remembers = server.version() >= IDMP_SINCE
        if remembers and server.name not in self._remembering:
            remember_longer(server, self._key)
            self._remembering.add(server.name)
        for start in range(0, len(letters), _AT_ONCE):
            some = letters[start : start + _AT_ONCE]
            server.write_all(self._key, self._commands(stream, some, remembers=remembers))

    def _commands(self, stream: bytes, letters: list[Letter], *, remembers: bool) -> Iterator[Command]:
        for letter in letters:
            once: Command = ()
            if remembers:
                once = ("IDMP", self._producer, b"%s %s" % (stream, letter.id.encode()))
            reason = letter.reason.encode(errors="backslashreplace")
            origin = Origin(stream, letter.id.encode(), self._group, b"", 1, 0, 0, reason)
            yield ("XADD", self._key, *once, "*", *letter.fields, *origin.fields())
