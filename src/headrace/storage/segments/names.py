"""The names of segments: what their files are called, and how a base or snapshot names those that it refers to.

A base has them in a field at its front, so that they are known before any value is read.
"""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_file import MAGIC, SEGMENTS_FIELD
from headrace.formats.rdb_file_reader import leading_fields
from headrace.storage.disk import Disk

DIRECTORY: Final = "segments"  # in the data directory

_NAME: Final = re.compile(r"([0-9]{10})\.seg")
_DIGITS: Final = 10  # of the largest number


def segment_name(number: int) -> str:
    """Name the file of a segment."""
    return f"{number:010}.seg"


def segment_number(name: str) -> int | None:
    """Return the number that a file of this name has; None: it is no segment."""
    match = _NAME.fullmatch(name)
    return int(match[1]) or None if match is not None else None


def naming_field(numbers: Collection[int]) -> dict[bytes, bytes]:
    """Write the field that names these segments; there is none where there are none."""
    return {SEGMENTS_FIELD: b" ".join(b"%d" % number for number in sorted(numbers))} if numbers else {}


def named_in(text: bytes) -> frozenset[int]:
    """Read which segments the field names."""
    words = text.split(b" ")
    if not all(word.isdigit() and 0 < len(word) <= _DIGITS and int(word) for word in words):
        raise CorruptPayload(f"the field {SEGMENTS_FIELD.decode()} names no segments: {text[:60]!r}")
    return frozenset(map(int, words))


def named_by(disk: Disk, path: Path) -> frozenset[int]:
    """Read which segments a file refers to, of which there are none where it does not begin with a snapshot."""
    source = disk.read(path)
    if bytes(source[: len(MAGIC)]) != MAGIC:
        return frozenset()
    field = leading_fields(source).get(SEGMENTS_FIELD)
    return frozenset() if field is None else named_in(field.value)
