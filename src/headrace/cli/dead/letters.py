"""Dead letters as a server gives them: found, read, and chosen by a field."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import redis

from headrace.cli.connecting import ask
from headrace.cli.showing import lossless, raw
from headrace.core.stream_id import StreamID
from headrace.engine.rules.dead_letters import Origin, split_letter

_PAGE: Final = 500


@dataclass
class Letter:
    """An entry of a dead-letter stream; `origin` is None where it is none."""

    id: bytes
    own: list[bytes]
    origin: Origin | None
    fields: list[bytes]

    @property
    def died_ms(self) -> int:
        """When it came here: its ID says it."""
        return int(self.id.split(b"-")[0])

    def has(self, where: tuple[str, str] | None) -> bool:
        """Tell whether it has a field of a value."""
        pair = None if where is None else (raw(where[0]), raw(where[1]))
        return pair is None or pair in zip(self.fields[::2], self.fields[1::2], strict=True)

    def as_json(self) -> dict[str, Any]:
        """Return the letter for JSON; fields are pairs, because a name may come twice."""
        told: dict[str, Any] = {"id": self.id.decode(), "fields": _pairs(self.own)}
        if self.origin is not None:
            told |= {
                "stream": lossless(self.origin.stream),
                "entry_id": lossless(self.origin.id),
                "group": lossless(self.origin.group),
                "consumer": lossless(self.origin.consumer),
                "deliveries": self.origin.deliveries,
                "first_delivery_ms": self.origin.first_delivery_ms,
                "last_delivery_ms": self.origin.last_delivery_ms,
                "reason": lossless(self.origin.reason),
            }
        return told


def _pairs(words: list[bytes]) -> list[list[str]]:
    return [[lossless(name), lossless(value)] for name, value in zip(words[::2], words[1::2], strict=True)]


def read_letter(id: bytes, fields: list[bytes]) -> Letter:
    """Make a letter of an entry."""
    split = split_letter(fields)
    return Letter(id, fields if split is None else split[0], None if split is None else split[1], fields)


def letters_of(client: redis.Redis, key: bytes, until: bytes = b"+") -> Iterator[Letter]:
    """Give the letters of a stream, page by page, the oldest first."""
    start = b"-"
    while True:
        page = ask(client, "XRANGE", key, start, until, "COUNT", _PAGE)
        for id, fields in page:
            yield read_letter(id, fields)
        if len(page) < _PAGE:
            return
        start = bytes(StreamID.parse(page[-1][0]).successor())
