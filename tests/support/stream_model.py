"""A stream and its groups in plain Python: slow, and meant to be believed by reading it next to docs/behaviour.md.

IDs are pairs (ms, seq), which Python already orders as streams do. The numbers in the comments are sections
of that page. In three things the model departs from Redis as Headrace does: a node goes as soon as its last live entry
goes; tombstones behind the last live entry go when the last ID is set back before them; and no group has read more
entries than were ever added.
"""

import bisect
import copy
from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.core.errors import GroupExists, InvalidStreamState, StreamExhausted, StreamIDTooSmall
from headrace.core.group import Verdict
from headrace.core.stream import Fate, Policy

ID = tuple[int, int]
ZERO: ID = (0, 0)
GREATEST: ID = (2**64 - 1, 2**64 - 1)
MOST = 2**63 - 1
HARD_LIMIT = 2**30


def successor(id: ID) -> ID | None:
    ms, seq = id
    if id == GREATEST:
        return None
    return (ms, seq + 1) if seq < 2**64 - 1 else (ms + 1, 0)


def predecessor(id: ID) -> ID | None:
    ms, seq = id
    if id == ZERO:
        return None
    return (ms, seq - 1) if seq else (ms - 1, 2**64 - 1)


# --- the bytes of a node (2.1 to 2.4) --------------------------------------------------------------------------


def backlen(size: int) -> bytes:
    """7 bits a byte, the most significant first, all but the first marked."""
    groups = [size & 127]
    while size := size >> 7:
        groups.insert(0, size & 127)
    return bytes([groups[0], *(group | 128 for group in groups[1:])])


def is_integer_text(text: bytes) -> bool:
    if not 1 <= len(text) <= 20 or not text.isascii():
        return False
    digits = text.removeprefix(b"-")
    return digits.isdigit() and str(int(text)).encode() == text and -(2**63) <= int(text) < 2**63


def element(value: int | bytes) -> bytes:
    if isinstance(value, bytes) and is_integer_text(value):
        value = int(value)
    if isinstance(value, bytes):
        if len(value) <= 63:
            body = bytes([0x80 | len(value)]) + value
        elif len(value) <= 4095:
            body = (0xE000 | len(value)).to_bytes(2, "big") + value
        else:
            body = b"\xf0" + len(value).to_bytes(4, "little") + value
    elif 0 <= value <= 127:
        body = bytes([value])
    elif -4096 <= value <= 4095:
        body = (0xC000 | value & 0x1FFF).to_bytes(2, "big")
    else:
        width = next(width for width in (2, 3, 4, 8) if -(2 ** (8 * width - 1)) <= value < 2 ** (8 * width - 1))
        marker = {2: 0xF1, 3: 0xF2, 4: 0xF3, 8: 0xF4}[width]
        body = bytes([marker]) + value.to_bytes(width, "little", signed=True)
    return body + backlen(len(body))


def signed(difference: int) -> int:
    """A difference modulo 2^64, as the signed number that is stored."""
    difference %= 2**64
    return difference - 2**64 if difference >= 2**63 else difference


@dataclass(eq=False)
class ModelEntry:
    id: ID
    fields: tuple[bytes, ...]
    alive: bool = True


class ModelNode:
    """A master entry and the entries under it, tombstones included."""

    def __init__(self, first: ModelEntry) -> None:
        self.master = first.id
        self.names = first.fields[::2]
        self.entries: list[ModelEntry] = []
        self.live = 0
        self._unchanging = len(element(len(self.names)) + b"".join(map(element, self.names)) + element(0))
        self.add(first)

    @property
    def dead(self) -> int:
        return len(self.entries) - self.live

    @property
    def size(self) -> int:
        return 7 + len(element(self.live)) + len(element(self.dead)) + self._unchanging

    def add(self, entry: ModelEntry) -> None:
        self.entries.append(entry)
        self.live += 1
        self._unchanging += len(b"".join(map(element, self._elements(entry))))

    def tombstone(self, entry: ModelEntry) -> None:
        entry.alive = False
        self.live -= 1

    def cut_tombstones(self) -> None:
        while not self.entries[-1].alive:
            self._unchanging -= len(b"".join(map(element, self._elements(self.entries.pop()))))

    def _elements(self, entry: ModelEntry) -> list[int | bytes]:
        same = entry.fields[::2] == self.names
        flags = (2 if same else 0) | (0 if entry.alive else 1)
        head = [flags, signed(entry.id[0] - self.master[0]), signed(entry.id[1] - self.master[1])]
        body: list[int | bytes] = (
            [*head, *entry.fields[1::2]] if same else [*head, len(entry.fields) // 2, *entry.fields]
        )
        return [*body, len(body)]

    def listpack(self) -> bytes:
        elements: list[int | bytes] = [self.live, self.dead, len(self.names), *self.names, 0]
        for entry in self.entries:
            elements += self._elements(entry)
        body = b"".join(map(element, elements))
        return (7 + len(body)).to_bytes(4, "little") + min(len(elements), 65535).to_bytes(2, "little") + body + b"\xff"


# --- groups (5.1) ----------------------------------------------------------------------------------------------


@dataclass(eq=False)
class ModelRecord:
    id: ID
    owner: bytes | None
    time: int
    deliveries: int

    @property
    def row(self) -> tuple[ID, bytes | None, int, int]:
        return (self.id, self.owner, self.time, self.deliveries)


@dataclass
class ModelConsumer:
    seen: int
    active: int = -1


@dataclass
class ModelGroup:
    stream: "ModelStream"
    last_id: ID
    entries_read: int | None
    pending: dict[ID, ModelRecord] = field(default_factory=dict)
    zone: list[ModelRecord] = field(default_factory=list)  # 5.3: released, first come first
    timed: list[ModelRecord] = field(default_factory=list)  # 5.3: owned, by time, then as they came
    consumers: dict[bytes, ModelConsumer] = field(default_factory=dict)

    # --- records -----------------------------------------------------------------------------------------------

    def _leave_order(self, record: ModelRecord) -> None:
        (self.zone if record.owner is None else self.timed).remove(record)

    def _enter_order(self, record: ModelRecord) -> None:
        if record.owner is None:
            self.zone.append(record)
        else:
            self.timed.insert(bisect.bisect_right(self.timed, record.time, key=lambda other: other.time), record)

    def give(self, id: ID, owner: bytes | None, time: int, deliveries: int) -> None:
        record = self.pending.get(id)
        if record is None:
            record = self.pending[id] = ModelRecord(id, owner, time, deliveries)
        else:
            self._leave_order(record)
            record.owner, record.time, record.deliveries = owner, time, deliveries
        self._enter_order(record)

    def forget(self, id: ID) -> bool:
        record = self.pending.pop(id, None)
        if record is not None:
            self._leave_order(record)
        return record is not None

    def rows(
        self, start: ID = ZERO, end: ID = GREATEST, count: int = 0, consumer: bytes | None = None
    ) -> list[tuple[ID, bytes | None, int, int]]:
        found = [
            self.pending[id].row
            for id in sorted(self.pending)
            if start <= id <= end and consumer in (None, self.pending[id].owner)
        ]
        return found[:count] if count else found

    def delivery_order(self) -> list[tuple[ID, bytes | None, int, int]]:
        return [record.row for record in self.zone + self.timed]

    def sort_as_loaded(self) -> None:
        """7.5: a loaded list is ordered by time, equal times by ID; the zone keeps its order."""
        self.timed.sort(key=lambda record: (record.time, record.id))

    # --- consumers (5.2) ---------------------------------------------------------------------------------------

    def see(self, name: bytes, now: int) -> ModelConsumer:
        consumer = self.consumers.setdefault(name, ModelConsumer(now))
        consumer.seen = now
        return consumer

    def create_consumer(self, name: bytes, now: int) -> bool:
        if name in self.consumers:
            return False
        self.consumers[name] = ModelConsumer(now)
        return True

    def delete_consumer(self, name: bytes) -> int:
        owned = self.owned_by(name)
        for id in owned:
            self.forget(id)
        self.consumers.pop(name, None)
        return len(owned)

    def owned_by(self, name: bytes) -> list[ID]:
        return sorted(id for id, record in self.pending.items() if record.owner == name)

    # --- how far (5.4, 5.5) ------------------------------------------------------------------------------------

    def set_id(self, id: ID, position: int | None = None) -> None:
        self.last_id, self.entries_read = id, position
        self.cap_position()

    def cap_position(self) -> None:
        if self.entries_read is not None:
            self.entries_read = min(self.entries_read, self.stream.entries_added)

    def _advance(self, id: ID) -> None:
        stream = self.stream
        counts_on = self.last_id >= stream.first_id and not stream.has_tombstones_from(self.last_id)
        if self.entries_read is not None and counts_on:
            self.entries_read += 1
            self.cap_position()
        elif stream.entries_added > 0:
            self.entries_read = stream.position_of(id)
        self.last_id = id

    @property
    def lag(self) -> int | None:
        stream = self.stream
        if stream.entries_added == 0 or stream.length == 0:
            return 0
        if self.last_id < stream.first_id and stream.max_deleted_id < stream.first_id:
            return stream.length
        if self.entries_read is not None and not stream.has_tombstones_from(self.last_id):
            return stream.entries_added - self.entries_read
        position = stream.position_of(self.last_id)
        return None if position is None else stream.entries_added - position

    # --- delivering (4.5) --------------------------------------------------------------------------------------

    def read_new(self, consumer: bytes, now: int, count: int, noack: bool) -> list[tuple[ID, list[bytes]]]:
        reader = self.see(consumer, now)
        start = successor(self.last_id)
        found = [] if start is None else self.stream.range(start, GREATEST, count)
        for id, _ in found:
            if not noack:
                self.give(id, consumer, now, 1)
                reader.active = now
            self._advance(id)
        return found

    def read_history(self, consumer: bytes, after: ID, now: int, count: int) -> list[tuple[ID, list[bytes] | None]]:
        self.see(consumer, now)
        owned = [id for id in self.owned_by(consumer) if id > after]
        found = []
        for id in owned[:count] if count else owned:
            fields = self.stream.get(id)
            found.append((id, fields))
            if fields is not None:
                self.give(id, consumer, now, min(self.pending[id].deliveries + 1, MOST))
        return found

    def read_stale(
        self, consumer: bytes, min_idle: int, now: int, count: int
    ) -> list[tuple[ID, list[bytes], int, int]]:
        reader = self.see(consumer, now)
        found: list[tuple[ID, list[bytes], int, int]] = []
        for id, _, time, deliveries in self.delivery_order():
            if now - time < min_idle or (count and len(found) == count):
                break
            fields = self.stream.get(id)
            if fields is not None:
                found.append((id, fields, now - time, deliveries))
                self.give(id, consumer, now, min(deliveries + 1, MOST))
                reader.active = now
        return found

    # --- settling (4.7, 4.11, 4.15, 4.16) ----------------------------------------------------------------------

    def acknowledge(self, ids: list[ID]) -> int:
        return sum(self.forget(id) for id in ids)

    def _may_claim(self, record: ModelRecord, min_idle: int, now: int) -> bool:
        return record.owner is None or min_idle <= 0 or now - record.time >= min_idle

    def claim(
        self,
        consumer: bytes,
        ids: list[ID],
        min_idle: int,
        now: int,
        *,
        time: int | None,
        deliveries: int | None,
        force: bool,
        just_id: bool,
    ) -> list[ID]:
        reader = self.see(consumer, now)
        if time is None or not 0 <= time <= now:
            time = now
        claimed = []
        for id in ids:
            if self.stream.get(id) is None:
                self.forget(id)
                continue
            record = self.pending.get(id)
            if record is None and not force:
                continue
            if record is not None and not self._may_claim(record, min_idle, now):
                continue
            count = 1 if record is None else record.deliveries
            if deliveries is not None:
                count = deliveries
            elif not just_id:
                count = min(count + 1, MOST)
            self.give(id, consumer, time, count)
            reader.active = now
            claimed.append(id)
        return claimed

    def auto_claim(
        self, consumer: bytes, min_idle: int, start: ID, now: int, *, count: int, just_id: bool
    ) -> tuple[ID, list[ID], list[ID]]:
        reader = self.see(consumer, now)
        claimed: list[ID] = []
        deleted: list[ID] = []
        for examined, id in enumerate(id for id in sorted(self.pending) if id >= start):
            if examined == 10 * count or len(claimed) + len(deleted) == count:
                return id, claimed, deleted
            record = self.pending[id]
            if self.stream.get(id) is None:
                self.forget(id)
                deleted.append(id)
            elif self._may_claim(record, min_idle, now):
                self.give(id, consumer, now, record.deliveries if just_id else min(record.deliveries + 1, MOST))
                reader.active = now
                claimed.append(id)
        return ZERO, claimed, deleted

    def release_ids(self, ids: list[ID], verdict: Verdict, deliveries: int | None, force: bool) -> int:
        released = 0
        for id in ids:
            if id in self.pending:
                count = self.pending[id].deliveries
            elif force and self.stream.get(id) is not None:
                count = 0
            else:
                continue
            by_verdict = {Verdict.SILENT: max(count - 1, 0), Verdict.FAIL: count, Verdict.FATAL: MOST}
            self.give(id, None, 0, by_verdict[verdict] if deliveries is None else deliveries)
            released += 1
        return released


# --- streams ---------------------------------------------------------------------------------------------------


class ModelStream:
    """See the module."""

    def __init__(self, max_bytes: int = 4096, max_entries: int = 100) -> None:
        self.max_bytes = max_bytes
        self.max_entries = max_entries
        self.nodes: list[ModelNode] = []
        self.alive: dict[ID, ModelEntry] = {}  # in the order of IDs, which only rise
        self.last_id = ZERO
        self.max_deleted_id = ZERO
        self.entries_added = 0
        self.groups: dict[bytes, ModelGroup] = {}

    def copy(self) -> "ModelStream":
        return copy.deepcopy(self)

    @property
    def length(self) -> int:
        return len(self.alive)

    @property
    def first_id(self) -> ID:
        return next(iter(self.alive), ZERO)

    # --- entries (1.5, 2.5) ------------------------------------------------------------------------------------

    def new_id(self, request: ID | int | None, now: int) -> ID:
        """The ID for an explicit one, for `ms-*` (ms alone), or for `*` (None)."""
        if self.last_id == GREATEST:
            raise StreamExhausted
        if request is None:
            following = successor(self.last_id)
            return (now, 0) if now > self.last_id[0] or following is None else following
        if isinstance(request, int):
            if request == self.last_id[0]:
                if self.last_id[1] == GREATEST[1]:
                    raise StreamIDTooSmall
                return (request, self.last_id[1] + 1)
            request = (request, 0)
        if request <= self.last_id:
            raise StreamIDTooSmall
        return request

    def append(self, fields: tuple[bytes, ...], request: ID | int | None, now: int) -> ID:
        entry = ModelEntry(self.new_id(request, now), fields)
        limit = self.max_bytes if 0 < self.max_bytes < HARD_LIMIT else HARD_LIMIT
        tail = self.nodes[-1] if self.nodes else None
        if (
            tail is None
            or tail.size + sum(map(len, fields)) >= limit
            or (self.max_entries and len(tail.entries) >= self.max_entries)
        ):
            self.nodes.append(ModelNode(entry))
        else:
            tail.add(entry)
        self.alive[entry.id] = entry
        self.last_id = entry.id
        self.entries_added = min(self.entries_added + 1, MOST)
        return entry.id

    def get(self, id: ID) -> list[bytes] | None:
        return list(self.alive[id].fields) if id in self.alive else None

    def range(
        self, start: ID = ZERO, end: ID = GREATEST, count: int = 0, reverse: bool = False
    ) -> list[tuple[ID, list[bytes]]]:
        ids: Iterator[ID] = reversed(self.alive) if reverse else iter(self.alive)
        found = [(id, list(self.alive[id].fields)) for id in ids if start <= id <= end]
        return found[:count] if count else found

    def set_id(self, last_id: ID, entries_added: int | None, max_deleted_id: ID | None) -> None:
        """4.12."""
        if entries_added is not None and not 0 <= entries_added <= MOST:
            raise InvalidStreamState
        if last_id < max(max_deleted_id or ZERO, self.max_deleted_id):
            raise InvalidStreamState
        if self.alive:
            if last_id < next(reversed(self.alive)):
                raise InvalidStreamState
            if entries_added is not None and entries_added < self.length:
                raise InvalidStreamState
            if last_id < self.nodes[-1].entries[-1].id:
                self.nodes[-1].cut_tombstones()
        self.last_id = last_id
        if entries_added is not None:
            self.entries_added = entries_added
            for group in self.groups.values():
                group.cap_position()
        if max_deleted_id is not None and max_deleted_id != ZERO:
            self.max_deleted_id = max_deleted_id

    # --- counting (5.4) ----------------------------------------------------------------------------------------

    def has_tombstones_from(self, id: ID) -> bool:
        return bool(self.alive) and self.max_deleted_id != ZERO and id <= self.max_deleted_id

    def position_of(self, id: ID) -> int | None:
        if self.entries_added == 0:
            return 0
        if not self.alive and id <= self.last_id:
            return self.entries_added
        if id != ZERO and id < self.max_deleted_id:
            return None
        if id == self.last_id:
            return self.entries_added
        if id > self.last_id:
            return None
        if self.max_deleted_id == ZERO or self.max_deleted_id < self.first_id:
            if id < self.first_id:
                return self.entries_added - self.length
            if id == self.first_id:
                return self.entries_added - self.length + 1
        return None

    # --- groups ------------------------------------------------------------------------------------------------

    def create_group(self, name: bytes, id: ID, position: int | None) -> None:
        if name in self.groups:
            raise GroupExists
        self.groups[name] = ModelGroup(self, id, position)
        self.groups[name].cap_position()

    def destroy_group(self, name: bytes) -> bool:
        return self.groups.pop(name, None) is not None

    def referring_to(self, id: ID) -> list[bytes]:
        """5.6, by group: it has the ID pending, or has yet to be given it."""
        return [name for name, group in sorted(self.groups.items()) if id > group.last_id or id in group.pending]

    # --- deleting (4.8, 4.9, 4.10) -----------------------------------------------------------------------------

    def _tombstone(self, node: ModelNode, entry: ModelEntry) -> None:
        node.tombstone(entry)
        del self.alive[entry.id]
        if node.live == 0:
            self.nodes.remove(node)

    def _drop_references(self, id: ID) -> None:
        for group in self.groups.values():
            group.forget(id)

    def _delete(self, id: ID, policy: Policy) -> Fate:
        if policy == Policy.ACKED and self.referring_to(id):
            return Fate.REFERENCED
        if policy == Policy.DELREF:
            self._drop_references(id)
        if id not in self.alive:
            return Fate.MISSING
        entry = self.alive[id]
        self._tombstone(next(node for node in self.nodes if entry in node.entries), entry)
        self.max_deleted_id = max(self.max_deleted_id, id)
        return Fate.DELETED

    def delete_with(self, ids: list[ID], policy: Policy) -> list[Fate]:
        return [self._delete(id, policy) for id in ids]

    def acknowledge_and_delete(self, group: bytes, ids: list[ID], policy: Policy) -> list[Fate]:
        fates = []
        for id in ids:
            if group not in self.groups or not self.groups[group].forget(id):
                fates.append(Fate.MISSING)
            else:
                referenced = self._delete(id, policy) == Fate.REFERENCED
                fates.append(Fate.REFERENCED if referenced else Fate.DELETED)
        return fates

    # --- trimming (4.13) ---------------------------------------------------------------------------------------

    def trim(self, length: int | None, min_id: ID, approximate: bool, limit: int, policy: Policy) -> int:
        """To a length; where that is None, to an ID."""
        removed = 0
        for node in list(self.nodes):
            if length is not None and self.length <= length:
                break
            if limit and removed + node.live > limit:
                break
            eligible = node.entries[-1].id < min_id if length is None else self.length - node.live >= length
            if policy == Policy.KEEPREF and approximate and not eligible:
                break
            for entry in list(node.entries):
                # An eligible node goes whole where nothing but its own entries has to be looked at.
                whole = policy == Policy.KEEPREF and eligible
                reached = self.length <= length if length is not None else entry.id >= min_id
                if reached and not whole:
                    break
                if not entry.alive or (policy == Policy.ACKED and self.referring_to(entry.id)):
                    continue
                if policy == Policy.DELREF:
                    self._drop_references(entry.id)
                self._tombstone(node, entry)
                removed += 1
            if not eligible:
                break
        return removed
