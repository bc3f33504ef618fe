"""The pending list of a group as RDB writes it: compiled, because there may be millions of records.

    of the group       ID:16 bytes big-endian | delivery time: i64 little-endian | delivery count: length
    of a consumer      ID:16 bytes big-endian

Records are written in ID order. Readers take any order and leave it to the group to refuse what contradicts itself.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from headrace.core.group cimport Consumer, Group
from headrace.core.memory cimport byte_t
from headrace.core.slot_index cimport Place, SlotIndex
from headrace.core.stream_id cimport ID_KEY_SIZE, make_id, read_key, wrap_id, write_key
from headrace.formats.rdb_primitives cimport LENGTH_MAX, RdbReader, put_length, take_length

from collections.abc import Iterator

cdef enum:
    TIME_SIZE = 8
    RECORD_MAX = ID_KEY_SIZE + TIME_SIZE + LENGTH_MAX
    # How many records are packed or unpacked at a time: a pending list of millions takes no memory twice.
    BATCH = 8192


def pack_records(group: Group) -> Iterator[bytes]:
    """Iterate over the records of a group's pending list, many at a time; the group must not change meanwhile."""
    cdef SlotIndex index = group.pending.by_id
    cdef bytearray out = bytearray(min(index.length, BATCH) * RECORD_MAX)
    cdef byte_t *start = <byte_t *><char *>out
    cdef byte_t *p = start
    cdef Place place = index.seek(make_id(0, 0))
    cdef uint32_t slot
    cdef uint64_t packed = 0
    while place.chunk != NULL:
        slot = index.slot_at(place)
        write_key(index.id_at(place), p)
        memcpy(p + ID_KEY_SIZE, &group.pending.slab.at(slot).time, TIME_SIZE)
        p += ID_KEY_SIZE + TIME_SIZE
        p += put_length(p, group.pending.get_deliveries(slot))
        packed += 1
        if packed == BATCH:
            yield (<char *>start)[:p - start]
            p = start
            packed = 0
        index.advance(&place)
    yield (<char *>start)[:p - start]


def unpack_records(reader: RdbReader, count: int) -> Iterator[list]:
    """Take `count` records of a group, as lists of (ID, delivery time, deliveries)."""
    cdef size_t used
    cdef const byte_t *p
    cdef int64_t time
    cdef uint64_t deliveries = 0
    cdef list records = []
    cdef uint64_t left = count
    cdef RdbReader source = reader
    while left > 0:
        left -= 1
        used = 0
        if source.size - source.at > ID_KEY_SIZE + TIME_SIZE:
            p = source.data + source.at
            used = take_length(
                p + ID_KEY_SIZE + TIME_SIZE, source.size - source.at - ID_KEY_SIZE - TIME_SIZE, &deliveries
            )
        if used == 0:
            source.refuse_overrun("a pending record")
        memcpy(&time, p + ID_KEY_SIZE, TIME_SIZE)
        records.append((wrap_id(read_key(p)), time, deliveries))
        source.at += ID_KEY_SIZE + TIME_SIZE + used
        if len(records) == BATCH:
            yield records
            records = []
    yield records


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
