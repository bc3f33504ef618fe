"""The rules of a queue as plain Python: one stream, a group `g` that has rules, and a group `h` that has none.

    entries     the IDs that the stream holds, in order
    pending     of each group: ID -> Record; the released first in the order in which they were, then the owned by time
    retries     of `g`: ID -> when a released entry is due
    dead        dead letters in order: (ID, deliveries, reason, last consumer)

IDs are (ms, seq). Whatever happens by time happens in `pass_time`, which is told what time it is.
"""

from dataclasses import dataclass, field
from itertools import count

Id = tuple[int, int]
FATAL_COUNT = 2**63 - 1
LOOKED_AT_ONCE = 500


@dataclass
class Rules:
    """What is in force; 0 and None: nothing is said."""

    max_length: int = 0
    max_age_ms: int = 0
    references: str = "KEEPREF"
    drops_acked: bool = False
    visibility_ms: int = 0
    retry: tuple[int, int] | None = None
    max_deliveries: int = 0
    dead_letter: bool = False
    consumer_ttl_ms: int = 0
    create_from: str | None = None

    @property
    def buries(self) -> bool:
        return bool(self.max_deliveries) or self.dead_letter

    def exhausted(self, deliveries: int) -> bool:
        """Tell whether what fails now is given up."""
        return self.buries and (
            deliveries == FATAL_COUNT or bool(self.max_deliveries and deliveries >= self.max_deliveries)
        )

    def wait_ms(self, deliveries: int) -> int:
        """Return how long an entry waits that was delivered so often."""
        if self.retry is None:
            return 0
        least, most = self.retry
        return most if deliveries > 40 else min(most, least << max(deliveries - 1, 0))


@dataclass
class Record:
    """A pending entry; nobody owns one that was released."""

    id: Id
    owner: str | None
    time: int
    deliveries: int
    turn: int  # of two that are alike otherwise, the first that became so is first
    last_owner: str = ""

    @property
    def place(self) -> tuple[bool, int, int]:
        return (self.owner is not None, self.time if self.owner is not None else 0, self.turn)


@dataclass
class Group:
    """How far a group has read, what is pending, and who was seen when."""

    last: Id = (0, 0)
    pending: dict[Id, Record] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)

    def in_order(self, *, owned: bool | None = None) -> list[Record]:
        """List the records in the order in which they are looked at; only owned ones, or only released ones."""
        found = [each for each in self.pending.values() if owned is None or (each.owner is not None) == owned]
        return sorted(found, key=lambda each: each.place)


class QueueModel:
    """See the module."""

    def __init__(self) -> None:
        self.rules = Rules()
        self.entries: list[Id] = []
        self.last: Id = (0, 0)
        self.groups: dict[str, Group] = {}
        self.retries: dict[Id, int] = {}
        self.dead: list[tuple[Id, int, str, str]] = []
        self.awake_ms = 0
        self.trim_soon = False
        self._turns = count()

    # --- what clients do -----------------------------------------------------------------------------------------

    def add(self, entry: Id, now: int) -> None:
        """Append an entry."""
        self.entries.append(entry)
        self.last = entry
        self.trim(now)

    def read(self, name: str, consumer: str, most: int, now: int) -> list[Id]:
        """Read with `>`, and return what the consumer gets; KeyError where there is no group."""
        rules = self.rules if name == "g" else Rules()
        if name not in self.groups and rules.create_from is not None:
            self.groups[name] = Group(self.last if rules.create_from == "$" else (0, 0))
        group = self.groups[name]
        given: list[Id] = []
        if rules.visibility_ms or rules.retry:
            for record in self._take_due(group, most, now):
                record.deliveries += record.deliveries < FATAL_COUNT
                self._own(record, consumer, now)
                self.retries.pop(record.id, None)
                given.append(record.id)
        return given + self._give_new(group, consumer, most - len(given), now)

    def _give_new(self, group: Group, consumer: str, most: int, now: int) -> list[Id]:
        group.seen[consumer] = now
        given = [entry for entry in self.entries if entry > group.last][:most]
        for entry in given:
            group.last = entry
            record = Record(entry, None, 0, 1, 0)
            group.pending[entry] = record
            self._own(record, consumer, now)
        return given

    def _own(self, record: Record, consumer: str, now: int) -> None:
        record.owner, record.time, record.turn, record.last_owner = consumer, now, next(self._turns), consumer

    def _take_due(self, group: Group, most: int, now: int) -> list[Record]:
        due: list[Record] = []
        if self.rules.retry:
            self._fail_overdue(group, now)
            waiting = [(self.retries.get(each.id, 0), each.id, each) for each in group.in_order(owned=False)]
            candidates = [each for when, _, each in sorted(waiting, key=lambda row: row[:2]) if when <= now]
        else:
            candidates = [each for each in group.in_order() if each.owner is None or self._overdue(each, now)]
        for record in candidates:
            if len(due) == most:
                break
            if record.id not in self.entries:
                del group.pending[record.id]
            elif self.rules.exhausted(record.deliveries):
                self._bury(group, record, "deliveries")
            else:
                due.append(record)
        return due

    def read_own(self, consumer: str, behind: Id, most: int, now: int) -> list[tuple[Id, bool]]:
        """Read what a consumer of `g` has pending behind an ID: each, and whether the stream still holds it."""
        group = self.groups["g"]
        group.seen[consumer] = now
        shown: list[tuple[Id, bool]] = []
        for record in sorted(group.pending.values(), key=lambda each: each.id):
            if record.owner != consumer or record.id <= behind or len(shown) == most:
                continue
            if self.rules.exhausted(record.deliveries):
                self._bury(group, record, "deliveries")
                continue
            held = record.id in self.entries
            if held:
                record.deliveries += record.deliveries < FATAL_COUNT
                self._own(record, consumer, now)
            shown.append((record.id, held))
        return shown

    def claim(self, consumer: str, idle_ms: int, ids: list[Id], now: int, *, counts: bool) -> list[Id]:
        """XCLAIM in `g`, with JUSTID where it does not count; return what the consumer gets."""
        group = self.groups["g"]
        group.seen[consumer] = now
        claimed = [self._claim_one(group, consumer, entry, idle_ms, now, counts=counts) for entry in ids]
        return [entry for entry in claimed if entry is not None]

    def _claim_one(self, group: Group, consumer: str, entry: Id, idle_ms: int, now: int, *, counts: bool) -> Id | None:
        record = group.pending.get(entry)
        if record is None:
            return None
        if entry not in self.entries:
            del group.pending[entry]
        elif record.owner is None or now - record.time >= idle_ms:
            if not (counts and self.rules.exhausted(record.deliveries)):
                record.deliveries += counts and record.deliveries < FATAL_COUNT
                self._own(record, consumer, now)
                return entry
            self._bury(group, record, "deliveries")
        return None

    def claim_longest(self, consumer: str, idle_ms: int, most: int, now: int) -> list[Id]:
        """XREADGROUP with CLAIM in `g`: what waited longest, and then new entries."""
        group = self.groups["g"]
        given: list[Id] = []
        for record in group.in_order():
            if len(given) < most and (record.owner is None or now - record.time >= idle_ms):
                if self.rules.exhausted(record.deliveries):
                    self._bury(group, record, "deliveries")
                elif record.id in self.entries:
                    given.append(record.id)
        self.claim(consumer, idle_ms, given, now, counts=True)
        return given + self._give_new(group, consumer, most - len(given), now)

    def acknowledge(self, name: str, ids: list[Id]) -> int:
        """Take IDs off the pending list; return how many were on it."""
        group = self.groups[name]
        found = sum(group.pending.pop(entry, None) is not None for entry in ids)
        if found:
            if name == "g":
                for entry in ids:
                    self.retries.pop(entry, None)
            self._drop_finished(ids)
            self.trim_soon = True
        return found

    def reject(self, verdict: str, entry: Id, now: int) -> int:
        """XNACK in the group that has rules."""
        group = self.groups["g"]
        record = group.pending.get(entry)
        if record is None:
            return 0
        former = record.deliveries
        if verdict == "FATAL":
            record.deliveries = FATAL_COUNT
            if self.rules.buries:
                record.deliveries = former
                self._bury(group, record, "fatal")
                return 1
        elif verdict == "SILENT":
            record.deliveries = max(former - 1, 0)
        elif self.rules.exhausted(record.deliveries):
            self._bury(group, record, "deliveries")
            return 1
        waits = verdict == "FAIL" and self.rules.retry is not None
        self._release(record, now + self.rules.wait_ms(record.deliveries) if waits else 0)
        return 1

    def remove(self) -> None:
        """Remove the stream with its groups."""
        self.entries, self.last, self.groups = [], (0, 0), {}

    # --- failures ------------------------------------------------------------------------------------------------

    def _overdue(self, record: Record, now: int) -> bool:
        visibility = self.rules.visibility_ms
        return bool(visibility) and record.owner is not None and now - record.time >= visibility

    def _release(self, record: Record, due: int) -> None:
        record.owner, record.turn = None, next(self._turns)
        if due or self.rules.buries:
            self.retries[record.id] = due
        else:
            self.retries.pop(record.id, None)
            record.last_owner = ""  # nobody needed to know when it was released

    def _fail(self, group: Group, record: Record, failed_ms: int) -> None:
        if record.id not in self.entries:
            del group.pending[record.id]
        elif self.rules.exhausted(record.deliveries):
            self._bury(group, record, "deliveries")
        else:
            self._release(record, failed_ms + self.rules.wait_ms(record.deliveries) if self.rules.retry else 0)

    def _fail_overdue(self, group: Group, now: int) -> None:
        for record in group.in_order(owned=True):
            if self._overdue(record, now):
                self._fail(group, record, record.time + self.rules.visibility_ms)

    def _bury(self, group: Group, record: Record, reason: str) -> None:
        del group.pending[record.id]
        self.retries.pop(record.id, None)
        if record.id in self.entries:
            shown = "fatal" if record.deliveries == FATAL_COUNT else reason
            self.dead.append((record.id, record.deliveries, shown, record.last_owner))
            self._drop_finished([record.id])
            self.trim_soon = True

    # --- retention -----------------------------------------------------------------------------------------------

    def referred(self, entry: Id) -> bool:
        """Tell whether a group has an entry pending, or has yet to be given it."""
        return any(entry in group.pending or entry > group.last for group in self.groups.values())

    def _drop_finished(self, ids: list[Id]) -> None:
        if self.rules.drops_acked:
            self.entries = [entry for entry in self.entries if entry not in ids or self.referred(entry)]

    def trim(self, now: int) -> None:
        """Keep the limits, now."""
        if self.rules.max_length:
            self.cut(len(self.entries) - self.rules.max_length)
        if self.rules.max_age_ms:
            self.cut(sum(entry[0] < now - self.rules.max_age_ms for entry in self.entries))

    def cut(self, most: int) -> None:
        """Remove so many entries from the front, as far as the rule allows."""
        for entry in self.entries[: max(most, 0)]:
            if self.rules.references == "ACKED" and self.referred(entry):
                return
            self.entries.remove(entry)
            if self.rules.references == "DELREF":
                for group in self.groups.values():
                    group.pending.pop(entry, None)

    def reload(self) -> None:
        """Files have no order of records that were delivered in the same millisecond: after a start they are by ID."""
        for group in self.groups.values():
            owned = [record for record in group.pending.values() if record.owner is not None]
            for record in sorted(owned, key=lambda each: (each.time, each.id)):
                record.turn = next(self._turns)

    # --- by time -------------------------------------------------------------------------------------------------

    def pass_time(self, now: int) -> None:
        """Do what the server does without anybody's help."""
        group = self.groups.get("g")
        rules = self.rules
        if group is not None and rules.visibility_ms and rules.max_deliveries:
            if rules.retry:
                self._fail_overdue(group, now)
            for record in group.in_order(owned=True)[:LOOKED_AT_ONCE]:
                if self._overdue(record, now) and rules.exhausted(record.deliveries):
                    self._bury(group, record, "deliveries")
        if group is not None and rules.consumer_ttl_ms:
            for name in sorted(group.seen):
                if now - max(group.seen[name], self.awake_ms) >= rules.consumer_ttl_ms:
                    for record in sorted(group.pending.values(), key=lambda each: each.id):
                        if record.owner == name:
                            self._fail(group, record, now)
                    del group.seen[name]
        if self.trim_soon or rules.max_age_ms:
            self.trim(now)
