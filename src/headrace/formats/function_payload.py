"""The payload of FUNCTION DUMP: the code of libraries, each as an RDB file has it.

F5 code, F5 code, … | RDB version: u16 little-endian | CRC-64: u64 little-endian        as of a DUMP payload
"""

from collections.abc import Iterable
from typing import Final

from headrace.formats.dump import open_payload, seal
from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_file import Opcode
from headrace.formats.rdb_primitives import RdbReader, RdbWriter

_VERSION: Final = 10  # the first RDB version that has functions


def dump_libraries(codes: Iterable[bytes], *, compress: bool) -> bytes:
    """Make a payload of the code of libraries."""
    writer = RdbWriter(compress=compress)
    for code in codes:
        writer.byte(Opcode.FUNCTION)
        writer.string(code)
    return seal(writer.getvalue(), _VERSION)


def read_libraries(payload: bytes) -> list[bytes]:
    """Give the code of each library of a payload; raises CorruptPayload, or WrongChecksum, which is one."""
    body, _ = open_payload(payload)
    reader = RdbReader(body)
    codes = []
    while reader.remaining:
        start = reader.position
        if reader.byte() != Opcode.FUNCTION:
            raise CorruptPayload(f"offset {start}: expected a library of functions")
        codes.append(reader.string())
    return codes
