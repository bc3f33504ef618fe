"""Keys that the options name and that hold nothing: most often a misspelt name, otherwise a stream that comes later."""

import logging
from collections.abc import Iterable

from headrace.spark.connecting import is_pattern
from headrace.spark.errors import MissingStream

_LOG = logging.getLogger("headrace.spark")


def report_missing(names: Iterable[bytes], found: Iterable[bytes], where: str, *, fail: bool, then: str) -> None:
    """Raise, or warn, where a name without a pattern stands for no stream; `then` says what becomes of it."""
    there = set(found)
    missing = sorted(name for name in names if not is_pattern(name) and name not in there)
    if not missing:
        return
    shown = ", ".join(repr(name.decode(errors="backslashreplace")) for name in missing)
    told = f"option 'keys': there is no stream {shown} {where}"
    if fail:
        raise MissingStream(f"{told}, and option 'failOnMissing' is 'true'")
    _LOG.warning("%s; %s", told, then)
