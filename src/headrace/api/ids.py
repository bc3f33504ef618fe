"""The forms in which a program may give an ID: an ID, its text, or a moment."""

from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID

Position: TypeAlias = StreamID | str | bytes | datetime

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WORDS: Final = {"-": MIN_ID, "+": MAX_ID}


def milliseconds(moment: datetime) -> int:
    """Return the Unix time of a moment; one without a time zone is local time, as everywhere in Python."""
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


def first_id(place: Position) -> StreamID:
    """Return the ID itself, or the first that a moment or a bare number of milliseconds can have."""
    return _id(place, 0)


def behind(place: Position) -> bytes:
    """Write where reading begins: behind an ID, with the first message of a moment, or with `$` behind all there is."""
    if place == "$":
        return b"$"
    id = first_id(place)
    return bytes(id.predecessor() if isinstance(place, datetime) and id > MIN_ID else id)


def last_id(place: Position) -> StreamID:
    """Return the ID itself, or the last that a moment or a bare number of milliseconds can have."""
    return _id(place, 2**64 - 1)


def _id(place: Position, missing: int) -> StreamID:
    if isinstance(place, StreamID):
        return place
    if isinstance(place, datetime):
        return StreamID(milliseconds(place), missing)
    if isinstance(place, bytes):
        place = place.decode()
    if not isinstance(place, str):
        raise TypeError(f"{place!r} is no place in a stream: give an ID, its text ('1526919030474-55'), or a datetime")
    return _WORDS.get(place) or StreamID.parse(place, missing)


def as_seconds(duration: float | timedelta) -> float:
    """Read a duration that was given either way."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def as_milliseconds(duration: float | timedelta) -> bytes:
    """Write a duration as commands take it: whole milliseconds, and never less than was asked for."""
    seconds = as_seconds(duration)
    if seconds < 0:
        raise ValueError(f"{duration!r} is negative: a duration is 0 or more seconds")
    return b"%d" % -int(-seconds * 1000 // 1)
