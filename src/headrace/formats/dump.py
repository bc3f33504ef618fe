"""The envelope of a DUMP payload, which RESTORE takes.

    type byte + value | RDB version: u16 little-endian | CRC-64 of all before it: u64 little-endian
    ─── the body ────

The version says which RDB the body is written in. A CRC of 0 means that the writer computed none.
"""

from struct import Struct

from headrace.formats.crc64 import crc64
from headrace.formats.errors import UnsupportedVersion, WrongChecksum

NEWEST_VERSION = 15

_VERSION = Struct("<H")
_CRC = Struct("<Q")
_FOOTER = Struct("<HQ")


def seal(body: bytes, version: int) -> bytes:
    """Make `body` a DUMP payload of this RDB version."""
    signed = body + _VERSION.pack(version)
    return signed + _CRC.pack(crc64(signed))


def open_payload(payload: bytes, newest: int = NEWEST_VERSION) -> tuple[memoryview, int]:
    """Give the body of a DUMP payload, not copied, and its RDB version, which must not be over `newest`.

    A payload too short for the footer counts as WrongChecksum, because RESTORE answers both alike.
    """
    view = memoryview(payload)
    body_size = len(view) - _FOOTER.size
    if body_size < 0:
        raise WrongChecksum(f"expected a payload of at least {_FOOTER.size} bytes, found {len(view)}")
    version, stored = _FOOTER.unpack_from(view, body_size)
    if version > newest:
        raise UnsupportedVersion(f"offset {body_size}: expected an RDB version up to {newest}, found {version}")
    if stored != 0:
        computed = crc64(view[: -_CRC.size])
        if stored != computed:
            raise WrongChecksum(
                f"offset {body_size + _VERSION.size}: expected CRC {computed:016x} of the bytes before, "
                f"found {stored:016x}"
            )
    return view[:body_size], version
