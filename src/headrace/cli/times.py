"""Durations, times and places in a stream, as people type them.

duration   90   90s   1m   1h30m   500ms   2d            a bare number counts seconds
place      1526919030474-55   1526919030474              an ID, or the milliseconds of one
0  -  ^                                       the beginning
$  +                                          the end
2026-11-15   2026-11-15T10:30   10:30         a moment; local time, unless it says otherwise
5m   "2h ago"   now                           so long ago
"""

import re
import time
from datetime import datetime
from typing import Final

import typer

from headrace.core.stream_id import StreamID

BEGINNING: Final = "0-0"
END: Final = "$"

_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)")
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?\s*(?:ms|s|m|h|d|w)\s*)+")
_ID: Final = re.compile(r"\d{1,20}(?:-\d{1,20})?")
_CLOCK: Final = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?")


def duration_ms(text: str) -> int:
    """Read a duration; for typer, so that nonsense is a usage error."""
    text = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return round(float(text) * 1000)
    if _DURATION.fullmatch(text):
        return round(sum(float(count) * _UNITS_MS[unit] for count, unit in _PART.findall(text)))
    raise typer.BadParameter(f"{text!r} is no duration: write 500ms, 30s, 5m, 1h30m or 2d.")


def place(text: str) -> str:
    """Read a place in a stream and write it as an ID; `$` where that is the end."""
    text = text.strip()
    if text in {"$", "+"}:
        return END
    if text in {"-", "^"}:
        return BEGINNING
    if _ID.fullmatch(text):
        try:
            return str(StreamID.parse(text))
        except ValueError:
            raise typer.BadParameter(f"{text!r} is no ID: each of its numbers is below 2^64.") from None
    ms = moment_ms(text)
    if ms is None:
        raise typer.BadParameter(
            f"{text!r} is no place in a stream: write an ID (1526919030474-55), a time (2026-11-15T10:30, 10:30), how "
            "long ago (5m), 0 or $."
        )
    return f"{ms}-0"


def range_end(text: str) -> str:
    """Read the end of a range: without a sequence number, the whole millisecond belongs to it."""
    read = place(text)
    return read if read == END or ("-" in text.strip() and _ID.fullmatch(text.strip())) else read.partition("-")[0]


def group_place(text: str) -> str:
    """Read where a group is to stand: at an ID, which counts as read, or before everything of a moment."""
    read = place(text)
    if read in {END, BEGINNING} or _ID.fullmatch(text.strip()):
        return read
    return str(StreamID.parse(read).predecessor())


def moment_ms(text: str) -> int | None:
    """Read a moment as Unix milliseconds; None where it is none."""
    lowered = text.lower().removesuffix("ago").strip()
    if lowered == "now":
        return int(time.time() * 1000)
    if _DURATION.fullmatch(lowered):
        return max(0, int(time.time() * 1000) - duration_ms(lowered))
    if _CLOCK.fullmatch(text):
        text = f"{datetime.now().astimezone():%Y-%m-%d}T{text:0>5}"
    try:
        return max(0, int(datetime.fromisoformat(text).timestamp() * 1000))
    except (ValueError, OverflowError):
        return None


def written(ms: int) -> str:
    """Write the moment of an ID as local time; nothing for an ID that was not made from a time."""
    try:
        moment = datetime.fromtimestamp(ms / 1000)
    except (ValueError, OverflowError, OSError):
        return ""
    return f"{moment:%Y-%m-%d %H:%M:%S}.{ms % 1000:03d}"
