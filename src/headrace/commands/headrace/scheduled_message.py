"""How scheduled messages are kept: ordinary data beside the stream, which any server stores and sends on.

    headrace:{key}:scheduled   sorted set   ticket ─► Unix ms at which it is due; +inf: it cannot be read, and is kept
    headrace:{key}:messages    hash         ticket ─► 5:60000,3:dev,1:3,4:temp,2:26,

A message is a row of texts, each with its length: how often it is repeated in ms (0: not at all), then its names and
values. Messages that are due together are in the order of their tickets, which is that in which they were given
(engine.tickets).
"""

from typing import Final, NamedTuple

SCHEDULED: Final = b"scheduled"
MESSAGES: Final = b"messages"


class ScheduledMessage(NamedTuple):
    """What is appended when its time has come; with `every_ms`, again and again."""

    every_ms: int
    fields: list[bytes]


def encode(message: ScheduledMessage) -> bytes:
    """Write a message as the hash keeps it."""
    return b"".join(b"%d:%s," % (len(text), text) for text in (b"%d" % message.every_ms, *message.fields))


def decode(text: bytes) -> ScheduledMessage | None:
    """Read a message as the hash keeps it; None where it is none."""
    words: list[bytes] = []
    at = 0
    while at < len(text):
        colon = text.find(b":", at, at + 12)
        length = text[at:colon] if colon > 0 else b""
        if not length.isdigit():
            return None
        at = colon + 1 + int(length)
        if text[at : at + 1] != b",":
            return None
        words.append(text[colon + 1 : at])
        at += 1
    if len(words) < 3 or len(words) % 2 == 0 or not words[0].isdigit() or len(words[0]) > 16:
        return None
    return ScheduledMessage(int(words[0]), words[1:])


def next_due(due: float, every_ms: int, now_ms: int) -> int:
    """Return when a message is due next that was due then: counted from that time, and always after now."""
    missed = now_ms - int(due) if due > 0 else 0
    begin = int(due) if due > 0 else now_ms
    return begin + every_ms * (missed // every_ms + 1)
