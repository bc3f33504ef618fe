"""What every byte of a stream is for: a node's listpack, or a whole DUMP payload, cut into named parts.

    offset  bytes            encoding   value     meaning
         6  02 01            uint7      2         entries alive
        12  83 64 65 76 04   str6       "dev"     field 1

Parts come in order and without gaps: their bytes, joined, are the bytes that were cut. `head` and `tail` say how many
bytes of a part are its encoding, and its backlen. Only bytes that a `Stream` has accepted may come here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.core.listpack import Listpack
from headrace.core.stream_id import StreamID

FLAG_SAME_FIELDS: Final = 2
MASTER: Final = "master"
ENVELOPE: Final = ""

_CLASS_BITS: Final = {"uint7": 1, "str6": 2, "int13": 3, "str12": 4}  # of the first byte; the rest are of the value
_HEADS: Final = {"uint7": 0, "int13": 0, "str12": 2, "str32": 5}  # all others have one byte
_FLAGS: Final = ("own fields", "own fields, deleted", "fields of the master", "fields of the master, deleted")


@dataclass(frozen=True)
class Part:
    """Some bytes in a row that mean one thing."""

    offset: int
    data: bytes
    encoding: str
    value: bytes | int | None
    meaning: str
    of: str = ENVELOPE  # the master, the ID of an entry, or a piece of the payload
    head: int = 0
    tail: int = 0

    @property
    def bits(self) -> str:
        """The first byte as its encoding divides it: what it is, and what it already holds of the value."""
        width = _CLASS_BITS.get(self.encoding)
        if width is None:
            return ""
        bits = f"{self.data[0]:08b}"
        return f"{bits[:width]}·{bits[width:]}"


def cut_listpack(data: bytes, master: StreamID, offset: int = 0) -> list[Part]:
    """Cut the listpack of a node, which stands at an offset of something larger."""
    count = int.from_bytes(data[4:6], "little")
    elements = list(_elements(data))
    meanings = node_meanings([value for _, _, value, _, _ in elements], master)
    parts = [
        Part(offset, data[:4], "u32", len(data), "bytes in this listpack"),
        Part(offset + 4, data[4:6], "u16", count, "elements" if count < 0xFFFF else "elements: too many to be counted"),
    ]
    for (at, encoding, value, body, backlen), (meaning, of) in zip(elements, meanings, strict=True):
        end = at + body + backlen
        parts.append(
            Part(offset + at, data[at:end], encoding, value, meaning, of, _HEADS.get(encoding, 1), backlen),
        )
    parts.append(Part(offset + len(data) - 1, data[-1:], "end", None, "end of the listpack"))
    return parts


def _elements(data: bytes) -> Iterator[tuple[int, str, bytes | int, int, int]]:
    """Give offset, encoding, value, size of encoding and data, and size of the backlen, of each element.

    There are two widths of backlen, and `Listpack` has the newer one. A backlen of the older width begins with a zero,
    as no other does, and everything behind it stands one byte further.
    """
    shift = 0
    for at, encoding, value, body, backlen in Listpack.from_bytes(data).describe():
        wider = data[at + shift + body] == 0
        yield at + shift, encoding, value, body, backlen + wider
        shift += wider


def node_meanings(values: Sequence[bytes | int], master: StreamID) -> list[tuple[str, str]]:
    """Say what each element of a node is, and what it belongs to."""
    fields = int(values[2])
    names = [_text(value) for value in values[3 : 3 + fields]]
    meanings = [("entries alive", MASTER), ("entries deleted", MASTER), ("number of fields", MASTER)]
    meanings += [(f"name of field {number}", MASTER) for number in range(1, fields + 1)]
    meanings.append(("end of the master entry", MASTER))
    while len(meanings) < len(values):
        meanings += _entry_meanings(values, len(meanings), master, names)
    return meanings


def _entry_meanings(
    values: Sequence[bytes | int], at: int, master: StreamID, names: Sequence[str]
) -> Iterator[tuple[str, str]]:
    flags, ms, seq = (int(value) for value in values[at : at + 3])
    id = str(StreamID((master.ms + ms) % 2**64, (master.seq + seq) % 2**64))
    yield f"flags: {_FLAGS[flags & 3]}", id
    yield f"ms: {master.ms} + {ms}", id
    yield f"seq: {master.seq} + {seq}", id
    if flags & FLAG_SAME_FIELDS:
        for name in names:
            yield f"value of {name}", id
    else:
        fields = int(values[at + 3])
        yield "number of fields", id
        for number in range(fields):
            yield f"name of field {number + 1}", id
            yield f"value of {_text(values[at + 4 + 2 * number])}", id
    yield "elements to step back over", id


def _text(value: bytes | int) -> str:
    text = str(value) if isinstance(value, int) else value.decode("utf-8", "backslashreplace")
    return text if len(text) <= 32 else f"{text[:31]}…"
