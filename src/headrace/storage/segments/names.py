"""What segments are called."""

import re
from typing import Final

DIRECTORY: Final = "segments"  # in the data directory

_NAME: Final = re.compile(r"([0-9]{10})\.seg")


def segment_name(number: int) -> str:
    """Name the file of a segment."""
    return f"{number:010}.seg"


def segment_number(name: str) -> int | None:
    """Return the number that a file of this name has; None: it is no segment."""
    match = _NAME.fullmatch(name)
    return int(match[1]) or None if match is not None else None
