"""Payloads of packed entries, made of plain Python rows without Arrow."""

from collections.abc import Sequence
from struct import pack

from headrace.columns.row_packer import ArrowColumn, pack_maps

Row = Sequence[tuple[bytes, bytes]]


def text_column(texts: Sequence[bytes | None], name: bytes = b"", wide: bool = False) -> ArrowColumn:
    """Lay texts out as Arrow does."""
    ends, data, valid = [0], b"", bytearray((len(texts) + 7) // 8)
    for place, text in enumerate(texts):
        if text is not None:
            data += text
            valid[place >> 3] |= 1 << (place & 7)
        ends.append(len(data))
    offsets = pack(f"<{len(ends)}{'q' if wide else 'i'}", *ends)
    return ArrowColumn(name, len(texts), 0, bytes(valid), offsets, data, 8 if wide else 4)


def packed(
    rows: Sequence[Row], ids: Sequence[bytes] | None = None, max_bytes: int = 4096, max_entries: int = 100
) -> bytes:
    """Pack rows; with IDs of their own where there are any."""
    ends = [0]
    for row in rows:
        ends.append(ends[-1] + len(row))
    maps = ArrowColumn(b"", len(rows), 0, None, pack(f"<{len(ends)}i", *ends), None, 4)
    pairs = [pair for row in rows for pair in row]
    return pack_maps(
        maps,
        text_column([name for name, _ in pairs]),
        text_column([text for _, text in pairs]),
        text_column(ids) if ids is not None else None,
        max_bytes,
        max_entries,
    )


def numbered(count: int, word: bytes = b"v") -> bytes:
    """Pack so many rows that tell their place."""
    return packed([[(b"n", b"%d" % place), (b"word", word)] for place in range(count)])
