"""The pending list of a group as RDB writes it: compiled, because there may be millions of records.

    of the group       ID:16 bytes big-endian | delivery time: i64 little-endian | delivery count: length
    of a consumer      ID:16 bytes big-endian

Records are written in ID order. Readers take any order and leave it to the group to refuse what contradicts itself.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from headrace.core.group cimport Consumer, Group
from headrace.core.memory cimport byte_t
from headrace.core.pending cimport Place, SlotIndex
from headrace.core.stream_id cimport ID_KEY_SIZE, byteswap, make_id, read_key, wrap_id, write_key

from headrace.formats.errors import CorruptPayload

cdef enum:
    TIME_SIZE = 8
    LENGTH_MAX = 9
    RECORD_MAX = ID_KEY_SIZE + TIME_SIZE + LENGTH_MAX


cdef size_t put_length(byte_t *p, uint64_t value) noexcept nogil:
    """The shortest of the four forms of a length."""
    cdef uint64_t swapped
    if value < 1 << 6:
        p[0] = <byte_t>value
        return 1
    if value < 1 << 14:
        p[0] = 0x40 | <byte_t>(value >> 8)
        p[1] = <byte_t>(value & 0xFF)
        return 2
    swapped = byteswap(value)
    if value < <uint64_t>1 << 32:
        p[0] = 0x80
        memcpy(p + 1, <byte_t *>&swapped + 4, 4)
        return 5
    p[0] = 0x81
    memcpy(p + 1, &swapped, 8)
    return 9


cdef size_t take_length(const byte_t *p, size_t room, uint64_t *value) noexcept nogil:
    """How many bytes the length at `p` has; 0: it is none, or is cut off."""
    cdef uint64_t swapped = 0
    if room == 0:
        return 0
    if p[0] < 0x40:
        value[0] = p[0]
        return 1
    if p[0] < 0x80:
        value[0] = (<uint64_t>(p[0] & 0x3F) << 8) | p[1] if room >= 2 else 0
        return 2 if room >= 2 else 0
    if p[0] == 0x80 and room >= 5:
        memcpy(<byte_t *>&swapped + 4, p + 1, 4)
        value[0] = byteswap(swapped)
        return 5
    if p[0] == 0x81 and room >= 9:
        memcpy(&swapped, p + 1, 8)
        value[0] = byteswap(swapped)
        return 9
    return 0


def pack_records(group: Group) -> bytes:
    """Return every record of a group's pending list."""
    cdef SlotIndex index = group.pending.by_id
    cdef bytearray out = bytearray(index.length * RECORD_MAX)
    cdef byte_t *start = <byte_t *><char *>out
    cdef byte_t *p = start
    cdef Place place = index.seek(make_id(0, 0))
    cdef uint32_t slot
    while place.chunk != NULL:
        slot = index.slot_at(place)
        write_key(index.id_at(place), p)
        memcpy(p + ID_KEY_SIZE, &group.pending.slab.at(slot).time, TIME_SIZE)
        p += ID_KEY_SIZE + TIME_SIZE
        p += put_length(p, group.pending.get_deliveries(slot))
        index.advance(&place)
    return bytes(out[:p - start])


def unpack_records(source: memoryview, position: int, count: int) -> tuple[list, int]:
    """Take `count` records of a group as (ID, delivery time, deliveries), and tell the position behind them."""
    cdef const byte_t[::1] view = source
    cdef size_t at = position
    cdef size_t end = len(source)
    cdef size_t used
    cdef int64_t time
    cdef uint64_t deliveries = 0
    cdef list records = []
    cdef uint64_t left = count
    while left > 0:
        left -= 1
        used = 0
        if at + ID_KEY_SIZE + TIME_SIZE < end:
            used = take_length(&view[at + ID_KEY_SIZE + TIME_SIZE], end - at - ID_KEY_SIZE - TIME_SIZE, &deliveries)
        if used == 0:
            raise CorruptPayload(f"offset {at}: expected a pending record, but {end - at} bytes remain")
        memcpy(&time, &view[at + ID_KEY_SIZE], TIME_SIZE)
        records.append((wrap_id(read_key(&view[at])), time, deliveries))
        at += ID_KEY_SIZE + TIME_SIZE + used
    return records, at


def pack_owned(consumer: Consumer) -> bytes:
    """Return the IDs that a consumer owns."""
    cdef SlotIndex index = consumer.owned
    cdef bytearray out = bytearray(index.length * ID_KEY_SIZE)
    cdef byte_t *p = <byte_t *><char *>out
    cdef Place place = index.seek(make_id(0, 0))
    while place.chunk != NULL:
        write_key(index.id_at(place), p)
        p += ID_KEY_SIZE
        index.advance(&place)
    return bytes(out)


def unpack_ids(data: bytes) -> list:
    """Return the IDs that stand in `data`, 16 bytes each."""
    cdef const byte_t *p = data
    return [wrap_id(read_key(p + ID_KEY_SIZE * i)) for i in range(len(data) // ID_KEY_SIZE)]
