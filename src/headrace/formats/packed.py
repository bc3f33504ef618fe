"""Strings that hold a whole small collection: a listpack, a ziplist, a zipmap."""

from collections.abc import Callable

from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_primitives import RdbReader


def read_packed(reader: RdbReader, unpack: Callable[[bytes], list[bytes]]) -> list[bytes]:
    """Take a string and list the texts in it; what is wrong with it is told with the offset of the string."""
    start = reader.position
    data = reader.string()
    try:
        return unpack(data)
    except CorruptPayload as error:
        raise CorruptPayload(f"in the packed string at offset {start}: {error}") from None
