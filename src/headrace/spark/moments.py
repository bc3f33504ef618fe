"""Texts that are moments: numbers since 1970, ISO 8601, or a pattern, with the zone that those without one have.

    timestampFormat       numbers are                  texts are
      (not given)         milliseconds, as in IDs      ISO 8601
      seconds … nanos     seconds … nanoseconds        ISO 8601
      yyyy/MM/dd HH:mm    nothing                      what Spark's letters say

A text without a zone is a clock time in the zone of the option `timeZone`, or else of the session. A timestamp_ntz is
what the clock of that zone shows.
"""

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from headrace.spark.errors import BadOption

UNITS: Final = {"seconds": 1_000_000, "milliseconds": 1000, "microseconds": 1, "nanoseconds": 0}
"""Microseconds of each unit; 0: less than one."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?", re.ASCII)
_INTEGERS: Final = r"^[+-]?[0-9]+$"
_OFFSET: Final = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?", re.ASCII)
_LETTERS: Final = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_DIRECTIVES: Final = (
    {"y": "%Y", "yyyy": "%Y", "u": "%Y", "uuuu": "%Y", "yy": "%y", "M": "%m", "MM": "%m", "MMM": "%b", "MMMM": "%B"}
    | {"d": "%d", "dd": "%d", "DDD": "%j", "H": "%H", "HH": "%H", "h": "%I", "hh": "%I", "m": "%M", "mm": "%M"}
    | {"s": "%S", "ss": "%S", "a": "%p", "E": "%a", "EEE": "%a", "EEEE": "%A"}
    | dict.fromkeys(("X", "XX", "XXX", "x", "xx", "xxx", "Z"), "%z")
    | {"S" * digits: "%f" for digits in range(1, 7)}
)
_SESSION_ZONE: Final = "spark.sql.session.timeZone"


@dataclass(frozen=True)
class Moments:
    """How texts are read as moments. Pickled to the tasks."""

    zone_name: str | None = None
    """Of the option; None: the session's."""
    format: str | None = None
    driver_zone: str = "UTC"
    """Of the driver's machine, which a session has that was given none."""

    def __reduce__(self) -> tuple[type["Moments"], tuple[str | None, str | None, str]]:
        return Moments, (self.zone_name, self.format, self.driver_zone)  # the session's zone is asked for in each task

    @property
    def plain(self) -> bool:
        """Whether ISO 8601 without a zone is UTC, and numbers are milliseconds: what compiled code reads."""
        return self.format in {None, "milliseconds"} and self._zone_text in {"UTC", "Z", "Etc/UTC", "GMT"}

    def moment(self, text: str) -> datetime:
        """Read a moment; raises ValueError."""
        if self._directives is not None:
            found = datetime.strptime(text, self._directives)
            return found if found.tzinfo else found.replace(tzinfo=self.zone)
        if _NUMBER.fullmatch(text):
            return _EPOCH + timedelta(microseconds=self._microseconds(text))
        found = datetime.fromisoformat(text)
        return found if found.tzinfo else found.replace(tzinfo=self.zone)

    def clock(self, text: str) -> datetime:
        """Read what the clock shows, without a zone."""
        if self._directives is None and not _NUMBER.fullmatch(text):
            found = datetime.fromisoformat(text)
            if found.tzinfo is None:
                return found
        return self.moment(text).astimezone(self.zone).replace(tzinfo=None)

    def column(self, texts: pa.Array) -> pa.Array | None:
        """Read a column of moments that are all written in one way, which is much faster; None where they are not."""
        if self._directives is not None:
            return None
        utc = pa.timestamp("us", "UTC")
        factor = UNITS[self.format or "milliseconds"]
        try:
            if factor and pc.all(pc.match_substring_regex(texts, _INTEGERS), min_count=0).as_py() is not False:
                return pc.cast(pc.multiply_checked(pc.cast(texts, pa.int64()), factor), utc)
            return pc.cast(texts, utc)
        except pa.ArrowInvalid:
            pass
        if not isinstance(self.zone, ZoneInfo) and self.zone is not UTC:
            return None
        try:
            local = pc.cast(texts, pa.timestamp("us"))
            zone = "UTC" if self.zone is UTC else str(self.zone)
            return pc.assume_timezone(local, zone, ambiguous="earliest").cast(utc)
        except pa.ArrowInvalid:
            return None

    def clock_column(self, texts: pa.Array) -> pa.Array | None:
        """Read a column of what the clock shows, all without a zone; None where they are not."""
        if self._directives is not None:
            return None
        try:
            return pc.cast(texts, pa.timestamp("us"))
        except pa.ArrowInvalid:
            return None

    @cached_property
    def zone(self) -> tzinfo:
        """The zone of texts that name none."""
        return read_zone(self._zone_text)

    @cached_property
    def _zone_text(self) -> str:
        if self.zone_name is not None:
            return self.zone_name
        context = TaskContext.get()
        return (context.getLocalProperty(_SESSION_ZONE) if context is not None else None) or self.driver_zone

    @cached_property
    def _directives(self) -> str | None:
        return None if self.format is None or self.format in UNITS else to_directives(self.format)

    def _microseconds(self, text: str) -> int:
        factor = UNITS[self.format or "milliseconds"]
        if factor and "." not in text:
            return int(text) * factor
        if self.format is None:
            raise ValueError
        return int(Decimal(text) * factor) if factor else int(Decimal(text)) // 1000


def read_zone(text: str) -> tzinfo:
    """Return a zone by what Spark calls it; raises BadOption."""
    if text in {"UTC", "Z", "GMT", "Etc/UTC"}:
        return UTC
    offset = _OFFSET.fullmatch(text)
    try:
        if offset is not None:
            sign = -1 if offset[1] == "-" else 1
            return timezone(sign * timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0)))
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadOption("timeZone", text, "expected a zone such as Europe/Prague, UTC or +02:00") from None


def to_directives(pattern: str) -> str:
    """Return a pattern of Spark's as strptime takes it; raises BadOption for letters that it has no word for."""
    made = []
    for part in _LETTERS.finditer(pattern):
        letters = part[0]
        if part[1] is not None:
            made.append((part[1] or "'").replace("''", "'").replace("%", "%%"))
        elif letters[0].isalpha():
            if letters not in _DIRECTIVES:
                raise BadOption(
                    "timestampFormat",
                    pattern,
                    f"expected {', '.join(UNITS)}, or a pattern such as yyyy-MM-dd HH:mm:ss; {letters!r} is not known",
                )
            made.append(_DIRECTIVES[letters])
        else:
            made.append(letters.replace("%", "%%"))
    return "".join(made)


def local_zone() -> str:
    """Return the zone of this machine by its name, as Java finds it; UTC where it has none."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if not named:
        place = str(Path("/etc/localtime").resolve())
        named = place.partition("/zoneinfo/")[2]
    try:
        read_zone(named or "UTC")
    except BadOption:
        return "UTC"
    return named or "UTC"
