"""A whole DUMP payload, cut into its parts from the type byte to the checksum; see `formats.stream_value`.

A string that is stored compressed is one part: what is in it can be seen with the node that it holds. A listpack that
is stored plainly is cut to its elements where it stands.
"""

from typing import Final

from headrace.core.stream_id import StreamID
from headrace.formats.anatomy.node import Part, cut_listpack
from headrace.formats.dump import open_payload
from headrace.formats.rdb_primitives import LZF, RdbReader

_UNKNOWN: Final = 2**64 - 1  # how many entries a group has read, where nobody knows
_NAMES: Final = {15: "Redis 5.0", 19: "Redis 7.0", 21: "Redis 7.2", 26: "Redis 8.6", 27: "Redis 8.8"}
_ID_BYTES: Final = 16


def cut_payload(payload: bytes) -> list[Part]:
    """Cut a payload that `restore_stream` has accepted."""
    return _Cutter(payload).cut()


class _Cutter:
    """Walks over a payload as its reader does, and notes what it passes."""

    def __init__(self, payload: bytes) -> None:
        body, self._version = open_payload(payload)
        self._payload = payload
        self._body = len(body)
        self._type = payload[0]
        self._reader = RdbReader(body, 1)
        self._parts = [Part(0, payload[:1], "type", self._type, f"a stream as of {_NAMES[self._type]}", "payload")]

    def cut(self) -> list[Part]:
        self._nodes()
        self._state()
        for number in range(self._length("groups", "groups")):
            self._group(f"group {number + 1}")
        if self._type >= 26:
            self._producers()
        end = self._body
        self._parts += [
            Part(end, self._payload[end : end + 2], "u16", self._version, "version of RDB", "payload"),
            Part(end + 2, self._payload[end + 2 :], "u64", None, "CRC-64 of all before", "payload"),
        ]
        return self._parts

    # --- what is in a payload --------------------------------------------------------------------------------------

    def _nodes(self) -> None:
        for number in range(self._length("nodes", "nodes")):
            of = f"node {number + 1}"
            master = StreamID.from_key(self._string("master ID", of))
            self._listpack(master, of)

    def _state(self) -> None:
        self._length("entries alive", "state")
        self._id("last ID", "state")
        if self._type >= 19:
            self._id("first ID", "state")
            self._id("greatest ID deleted", "state")
            self._length("entries ever added", "state")

    def _group(self, of: str) -> None:
        self._string("name of the group", of)
        self._id("last ID delivered", of)
        if self._type >= 19:
            self._length("entries read", of)
        for _ in range(self._length("pending records", of)):
            self._raw(_ID_BYTES, "id", "pending entry", of)
            self._milliseconds("delivered at", of)
            self._length("deliveries", of)
        for _ in range(self._length("consumers", of)):
            self._string("name of a consumer", of)
            self._milliseconds("last seen at", of)
            if self._type >= 21:
                self._milliseconds("last active at", of)
            self._ids("entries pending to it", of)
        if self._type >= 27:
            self._ids("released records", of)

    def _producers(self) -> None:
        of = "producers"
        self._length("seconds that IDs are remembered", of)
        self._length("IDs that are remembered of each", of)
        for _ in range(self._length("producers", of)):
            self._string("name of a producer", of)
            for _ in range(self._length("IDs remembered", of)):
                self._string("idempotent ID", of)
                self._id("the entry that it made", of)
        self._length("IDs ever recorded", of)
        self._length("duplicates refused", of)

    # --- how it is written -----------------------------------------------------------------------------------------

    def _note(
        self, start: int, encoding: str, value: bytes | int | None, meaning: str, of: str, *, head: int = 0
    ) -> None:
        data = self._payload[start : self._reader.position]
        self._parts.append(Part(start, data, encoding, value, meaning, of, head))

    def _length(self, meaning: str, of: str) -> int:
        start = self._reader.position
        value = self._reader.length()
        first = self._payload[start]
        encoding = ("len6", "len14", "len64" if first & 1 else "len32")[first >> 6]
        self._note(start, encoding, None if value == _UNKNOWN else value, meaning, of)
        return value

    def _id(self, meaning: str, of: str) -> None:
        self._length(f"{meaning}: ms", of)
        self._length(f"{meaning}: seq", of)

    def _ids(self, meaning: str, of: str) -> None:
        for _ in range(self._length(meaning, of)):
            self._raw(_ID_BYTES, "id", "ID", of)

    def _raw(self, size: int, encoding: str, meaning: str, of: str) -> None:
        start = self._reader.position
        data = self._reader.raw(size)
        self._note(start, encoding, str(StreamID.from_key(data)).encode(), meaning, of)

    def _milliseconds(self, meaning: str, of: str) -> None:
        start = self._reader.position
        self._note(start, "ms", self._reader.milliseconds(), meaning, of)

    def _string(self, meaning: str, of: str) -> bytes:
        start = self._reader.position
        value = self._reader.string()
        encoding, head = self._string_form(start, len(value))
        shown = value
        if meaning == "master ID":
            shown = str(StreamID.from_key(value)).encode()
        self._note(start, encoding, shown, meaning, of, head=head)
        return value

    def _string_form(self, start: int, size: int) -> tuple[str, int]:
        """Name how a string is stored, and how many bytes are in front of its text."""
        first = self._payload[start]
        if first >> 6 < 3:
            return "string", self._reader.position - start - size
        return ("lzf" if first & 0x3F == LZF else "integer"), 1

    def _listpack(self, master: StreamID, of: str) -> None:
        start = self._reader.position
        value = self._reader.string()
        encoding, head = self._string_form(start, len(value))
        if encoding != "string":
            text = f"the listpack, compressed from {len(value)} bytes"
            self._note(start, encoding, None, text, of, head=head)
            return
        self._parts.append(Part(start, self._payload[start : start + head], "length", len(value), "size of it", of))
        self._parts += cut_listpack(value, master, start + head)
