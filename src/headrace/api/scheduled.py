"""Messages that are appended later: how a program says when, and what it is told of them."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from headrace.api.ids import as_milliseconds, milliseconds

Delay: TypeAlias = str | float | timedelta  # "5m", seconds, or a timedelta
Moment: TypeAlias = datetime | int  # an int is Unix milliseconds


class Ticket(str):
    """What names a scheduled message; a text."""

    __slots__ = ()


@dataclass(frozen=True)
class ScheduledMessage:
    """A message that is appended when it is due."""

    ticket: Ticket
    due: datetime | None  # None: somebody wrote the schedule by hand, and it cannot be read
    every: timedelta | None  # how often it is repeated; None: it is not
    fields: dict[Any, Any]
    held: str | None  # why it is due and not appended; None: nothing keeps it


def schedule_words(key: bytes, delay: Delay | None, at: Moment | None, every: Delay | None) -> list[bytes]:
    """Write the words of HEADRACE SCHEDULE in front of the fields."""
    if (delay is None) == (at is None):
        raise ValueError("a message is scheduled after a delay or at a moment, not both: give delay or at")
    when = [b"DELAY", _duration(delay)] if delay is not None else [b"AT", _moment(at)]
    return [b"HEADRACE", b"SCHEDULE", key, *when, b"EVERY", b"0" if every is None else _duration(every)]


def _duration(duration: Delay) -> bytes:
    return duration.encode() if isinstance(duration, str) else as_milliseconds(duration)


def _moment(at: Moment | None) -> bytes:
    return b"%d" % (milliseconds(at) if isinstance(at, datetime) else at or 0)


def read_scheduled(row: dict[bytes, Any], *, decode: bool) -> ScheduledMessage:
    """Read one message of what HEADRACE SCHEDULED replies."""
    texts = row[b"fields"] or []
    if decode:
        texts = [text.decode("utf-8", "surrogateescape") for text in texts]
    due, every, held = row[b"due"], row[b"every"], row[b"held"]
    return ScheduledMessage(
        Ticket(row[b"ticket"].decode("utf-8", "surrogateescape")),
        None if due is None else datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=due),
        timedelta(milliseconds=every) if every else None,
        dict(zip(texts[::2], texts[1::2], strict=True)),
        None if held is None else held.decode("utf-8", "backslashreplace"),
    )
