"""What an RDB file is made of, and whether it is whole.

    REDIS0014                               the version that its newest part needs, four digits
    FA name value …                         auxiliary fields: who wrote it, when, for what; before a stream, see
                                            stream_remainder
    FE db  FB keys expiring                 the database that the next keys are of, and how many there will be
    FC time | FD time   F8 idle | F9 freq   of the next key, where it has them: expiry (ms, or s), last access
    type key value                          see values
    …
    FF  CRC-64 of all before it             8 bytes little-endian, from version 5 on; 0: it was not computed

    F2 hash templates       F3 modules' notes on the next key       F4 slot sizes
    F5 F6 functions         F7 modules' notes on the file

`rdb_file_writer` writes such a file, `rdb_file_reader` reads one of any version.
"""

from enum import IntEnum
from struct import Struct
from typing import Final

from headrace.formats.crc64 import crc64
from headrace.formats.dump import NEWEST_VERSION
from headrace.formats.errors import CorruptPayload, UnsupportedVersion, WrongChecksum

MAGIC: Final = b"REDIS"
HEADER_SIZE: Final = 9
CHECKSUM: Final = Struct("<Q")
FIRST_CHECKSUM_VERSION: Final = 5
OWN_FIELD: Final = b"headrace-ver"
"""The auxiliary field that only our files have."""

HISTORY_FIELD: Final = b"repl-id"
OFFSET_FIELD: Final = b"repl-offset"
DATABASE_FIELD: Final = b"repl-stream-db"
"""The auxiliary fields that say which place of which history the data is of, and which database is selected there."""

ANCESTORS_FIELD: Final = b"headrace-ancestors"
"""The auxiliary field with the histories that led there: names and offsets; see engine.effect_log."""

SEGMENTS_FIELD: Final = b"headrace-segments"
"""The auxiliary field with the numbers of the segments that the values of a file may refer to."""

_VALKEY_MAGIC: Final = b"VALKEY"


class Opcode(IntEnum):
    """What a byte means where a type could stand."""

    HASH_TEMPLATE = 0xF2
    KEY_METADATA = 0xF3
    SLOT_INFO = 0xF4
    FUNCTION = 0xF5
    FUNCTION_7_0_RC = 0xF6
    MODULE_AUX = 0xF7
    IDLE = 0xF8
    FREQUENCY = 0xF9
    AUX = 0xFA
    RESIZE = 0xFB
    EXPIRES_MS = 0xFC
    EXPIRES_S = 0xFD
    SELECT = 0xFE
    END = 0xFF


def read_version(source: bytes | bytearray | memoryview) -> int:
    """Return the version that a file begins with; refuses what is no RDB file, or is newer than we know."""
    header = bytes(memoryview(source)[:HEADER_SIZE])
    if header.startswith(_VALKEY_MAGIC):
        raise UnsupportedVersion(
            f"offset 0: this is a file of Valkey 9 or later ({header.decode('latin-1')}), where types differ; "
            "save it with Valkey 8 or Redis"
        )
    if not MAGIC.startswith(header[: len(MAGIC)]) or not header:
        raise CorruptPayload(f"offset 0: expected an RDB file, which begins with REDIS, found {header[:5]!r}")
    digits = header[len(MAGIC) :]
    if len(header) < HEADER_SIZE:
        raise CorruptPayload(
            f"offset {len(header)}: expected the {HEADER_SIZE} bytes that begin a file, but it ends here"
        )
    if not digits.isdigit() or int(digits) < 1:
        raise CorruptPayload(f"offset {len(MAGIC)}: expected a version of four digits, found {digits!r}")
    version = int(digits)
    if version > NEWEST_VERSION:
        raise UnsupportedVersion(
            f"offset {len(MAGIC)}: expected an RDB version up to {NEWEST_VERSION}, found {version}"
        )
    return version


def verify_checksum(source: bytes | bytearray | memoryview) -> bool:
    """Check a whole file, before anything of it is believed; False: it has no checksum.

    Files before version 5 have none, and later ones where the server was told not to compute it.
    """
    view = memoryview(source)
    if read_version(view) < FIRST_CHECKSUM_VERSION:
        return False
    body = len(view) - CHECKSUM.size
    if body <= HEADER_SIZE or view[body - 1] != Opcode.END:
        raise CorruptPayload(f"offset {len(view)}: the file ends without its end mark; it was cut off or overwritten")
    return check_sum(view, body)


def check_sum(view: memoryview, body: int, computed: int | None = None) -> bool:
    """Compare the checksum behind the first `body` bytes with theirs, unless it is known; False: there is none."""
    (stored,) = CHECKSUM.unpack_from(view, body)
    if stored == 0:
        return False
    if computed is None:
        computed = crc64(view[:body])
    if stored != computed:
        raise WrongChecksum(
            f"offset {body}: expected CRC {computed:016x} of the bytes before, found {stored:016x}; the file is damaged"
        )
    return True
