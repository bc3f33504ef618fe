"""How the pending list and the consumers of a group come from a file: in three steps, each of which refuses nonsense.

    load_pending ── every record, owned by nobody yet
    load_consumer ── each consumer, with the records that it owns
    load_released ── the rest must be listed here; now the records have their order

What is refused raises CorruptStream, and the group is of no use then. The group is a new one, which nobody reads yet.
"""

from libc.stdint cimport uint32_t, uint64_t

from headrace.core.group cimport Consumer, Group
from headrace.core.record_slab cimport NO_SLOT, NOBODY
from headrace.core.stream_id cimport StreamID

from headrace.core.errors import CorruptStream


def load_pending(Group group, records: list[tuple[StreamID, int, int]]) -> None:
    """Fill an empty group's pending list with (ID, delivery time, deliveries)."""
    cdef StreamID id
    for id, time, deliveries in records:
        if group.pending.find(id.id) != NO_SLOT:
            raise CorruptStream(f"group {group.name!r} has two pending records of {id}")
        group.pending.add_unlinked(id.id, time, deliveries)


def load_consumer(Group group, name: bytes, seen_ms: int, active_ms: int, owned: list[StreamID]) -> None:
    """Add a consumer that owns these records."""
    cdef Consumer consumer
    cdef StreamID id
    cdef uint32_t slot
    if group.find_consumer(name) is not None:
        raise CorruptStream(f"group {group.name!r} has two consumers {name!r}")
    consumer = group.add_consumer(name, seen_ms)
    consumer.active_time = active_ms
    for id in owned:
        slot = group.pending.find(id.id)
        if slot == NO_SLOT:
            raise CorruptStream(f"consumer {name!r} owns {id}, which is not pending in group {group.name!r}")
        if group.pending.slab.at(slot).owner != NOBODY:
            raise CorruptStream(f"{id} is owned by two consumers of group {group.name!r}")
        consumer.owned.insert(slot)
        group.pending.slab.at(slot).owner = consumer.number


def load_released(Group group, released: list[StreamID]) -> None:
    """End the loading: these records, in this order, are nobody's; every other one must have an owner."""
    cdef list zone = []
    cdef StreamID id
    cdef uint32_t slot
    cdef Consumer consumer
    cdef uint64_t owned = 0
    for id in released:
        slot = group.pending.find(id.id)
        if slot == NO_SLOT or group.pending.slab.at(slot).owner != NOBODY:
            raise CorruptStream(f"{id} is listed as released in group {group.name!r} but is owned or not pending")
        zone.append(slot)
    for consumer in group.consumer_list():
        owned += consumer.owned.length
    if len(set(zone)) != len(zone) or owned + len(zone) != group.pending.by_id.length:
        raise CorruptStream(f"a pending record of group {group.name!r} has no owner and is not listed as released")
    group.pending.link_all(zone)
