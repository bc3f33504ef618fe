"""Writes an RDB file from front to back, a block at a time: see rdb_file for the layout.

    writer = RdbFileWriter(file.write, compatibility="7.0", aux={b"ctime": b"1700000000"})
    writer.begin()
    writer.select(0, keys=2, expiring=1)
    writer.key(b"plain", b"text")
    writer.key(b"brief", b"text", expires_ms=1_800_000_000_000)
    writer.end()

The version stands at the front, before any value is known. So it is not chosen by what the values need, as that of a
DUMP payload is, but is that of the servers which the file is meant for: `auto` is the newest form we write.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from headrace.core.stream import Stream
from headrace.formats.crc64 import crc64
from headrace.formats.key_writer import write_keys
from headrace.formats.rdb_file import CHECKSUM, MAGIC, Opcode
from headrace.formats.rdb_primitives import RdbWriter
from headrace.formats.stream_nodes import has_cold_nodes
from headrace.formats.stream_remainder import IDENTITY_FIELD, REMAINDER_FIELD, remainder_of
from headrace.formats.stream_value import REFERRING_STREAM, Form, write_referring_stream
from headrace.formats.values import Value, type_byte, write_value

NEWEST_FORM: Final = Form.REDIS_8_8
NEWEST_SERVER: Final = b"8.10.0"

_NO_FIELDS: Final[Mapping[bytes, bytes]] = MappingProxyType({})


def encode_field(name: bytes, value: bytes) -> bytes:
    """Return an auxiliary field as it stands in a file."""
    out = RdbWriter()
    out.byte(Opcode.AUX)
    out.strings((name, value))
    return out.getvalue()


def encode_referring_stream(key: bytes, stream: Stream) -> bytes:
    """Return a key with a stream that refers to segments as it stands in a file, from its type on."""
    out = RdbWriter()
    out.byte(REFERRING_STREAM)
    out.string(key)
    write_referring_stream(out, stream)
    return out.getvalue()


class RdbFileWriter:
    """Hands a file to `write` in blocks of some 1 MB, which are its to keep, and holds no more than one.

    Not even a stream is collected: its nodes are written one after another. `write` must take all of each block.
    What it raises passes through; the file is then without its end, and every reader will say so.
    """

    def __init__(
        self,
        write: Callable[[bytearray | memoryview], object],
        *,
        compress: bool = True,
        compatibility: str = "auto",
        aux: Mapping[bytes, bytes] = _NO_FIELDS,
        refer: bool = False,
    ) -> None:
        """Begin a file; with `refer`, streams refer to the segments that some of their nodes lie in."""
        named = Form.named(compatibility)
        self._form = named or NEWEST_FORM
        server = NEWEST_SERVER if named is None else b"%s.0" % named.server.encode()
        self._aux = {b"redis-ver": server, b"redis-bits": b"64", **aux}
        self._write = write
        self._refer = refer
        self._crc = 0
        self._out = RdbWriter(compress=compress, sink=self._take_block)

    def begin(self) -> None:
        """Write what stands before the first key: the version, and the auxiliary fields."""
        self._out.raw(MAGIC + b"%04d" % self._form.rdb_version)
        for field in self._aux.items():
            self._field(*field)

    def _field(self, name: bytes, value: bytes) -> None:
        self._out.byte(Opcode.AUX)
        self._out.strings((name, value))

    def library(self, code: bytes) -> None:
        """Write a library of functions; all of them stand before the first database."""
        self._out.byte(Opcode.FUNCTION)
        self._out.string(code)

    def select(self, db: int, keys: int, expiring: int) -> None:
        """Begin a database, which will have that many keys, and that many of them with an expiry."""
        self._out.byte(Opcode.SELECT)
        self._out.length(db)
        self._out.byte(Opcode.RESIZE)
        self._out.length(keys)
        self._out.length(expiring)

    def key(self, key: bytes, value: Value, expires_ms: int | None = None, idle_s: int | None = None) -> None:
        """Write a key; the value must not change meanwhile, not even by what `write` does."""
        out = self._out
        if isinstance(value, Stream):
            remainder = remainder_of(value, self._form)
            if remainder is not None:
                self._field(REMAINDER_FIELD, remainder)
            if value.identity is not None:
                self._field(IDENTITY_FIELD, value.identity)
        if expires_ms is not None:
            out.byte(Opcode.EXPIRES_MS)
            out.milliseconds(expires_ms)
        if idle_s is not None:
            out.byte(Opcode.IDLE)
            out.length(idle_s)
        if self._refer and isinstance(value, Stream) and has_cold_nodes(value):
            out.byte(REFERRING_STREAM)
            out.string(key)
            write_referring_stream(out, value)
            return
        out.byte(type_byte(value, self._form))
        out.string(key)
        write_value(out, value, self._form)

    def keys(
        self, values: dict[bytes, Value], expires: dict[bytes, int], report: Callable[[int], None] = lambda _: None
    ) -> None:
        """Write keys with their values and times; `report` is told now and then how many are done.

        Strings and hashes, of which there may be millions, are written without touching them.
        """
        write_keys(self._out, values, expires, self.key, report)

    def end(self) -> None:
        """Write the end mark and the checksum: now the file is one."""
        self._out.byte(Opcode.END)
        self._out.flush()
        self._write(bytearray(CHECKSUM.pack(self._crc)))

    def _take_block(self, block: bytearray | memoryview) -> None:
        self._crc = crc64(block, self._crc)
        self._write(block)
