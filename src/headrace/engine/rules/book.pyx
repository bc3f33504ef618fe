# cython: nonecheck=True
"""The book of rules: what is in force for each stream, as commands look it up, and what is due.

    headrace:{key}:policy, headrace:{pattern}:policy-match     the data: hashes like any others
              │ whatever changes them (engine.side_keys)
              ▼
    DatabaseRules   by_key, by_pattern     what is declared
                    resolved               key ─► StreamRules ─► GroupRules      what is in force, when first asked for
    timers          StreamRules, GroupRules                                      what has to be looked at, and when

A key's own rule wins over those of patterns, of the stream and of each group by itself. Of several patterns that match,
the longest wins, and of equally long ones the first in the order of their bytes.

`kept` says whether commands have to look here at all; where there is no rule, that comparison is all they do.
On a replica the rules sleep: its master keeps them. Effects that are repeated ask nothing here.

Nothing looks at streams that are not due. The exception is a pattern that is set, loaded or woken: then all keys are
looked at once, because a stream that nobody writes to any more may be too long or too old.

What concerns all streams is done a little at a time: ten thousand rules that were loaded, a pattern that matches them,
a promotion. A command that asks for a key before its turn finds what is in force for it all the same.
"""

cimport cython

from headrace.core.clock cimport monotonic_ns
from headrace.core.stream cimport ACKED, DELREF, KEEPREF, Stream
from headrace.engine.engine cimport Engine

from headrace.engine.glob import matcher
from headrace.engine.rules.dead_letters import default_stream
from headrace.engine.rules.rule import OF_KEY, OF_PATTERN, group_rule_of, groups_of, stream_rule_of
from headrace.engine.side_keys import side_key

RETRIES = b"retries"

cdef enum:
    PAUSE_MS = 2                # between two turns, each of which takes …
    TURN_NS = 200000            # … about so long
    SEARCHED_AT_ONCE = 16       # keys, for streams under patterns
    HELD_UP_MS = 100            # until the next look where nothing may be changed now
    RESOLVED_LEAST = 1024

cdef dict POLICIES = {b"keepref": KEEPREF, b"delref": DELREF, b"acked": ACKED}


@cython.final
cdef class Done:
    """See the declaration."""


@cython.final
cdef class StreamRules:
    """See the declaration."""


@cython.final
cdef class GroupRules:
    """See the declaration."""

    cdef int64_t backoff(self, uint64_t deliveries) noexcept:
        """How long an entry waits after it failed so often: the least, twice that, and so on, up to the most."""
        cdef uint64_t doublings = deliveries - 1 if deliveries else 0
        if doublings >= 40:
            return self.retry_max_ms
        return min(self.retry_max_ms, self.retry_min_ms << doublings)


class Declared:
    """What one hash says: a rule of the stream, or None, and rules of groups; and what each has done."""

    def __init__(self, held, former, now_ms: int):
        self.stream = stream_rule_of(held)
        self.groups = {}
        for name in groups_of(held):
            rule = group_rule_of(held, name)
            if rule is not None:
                self.groups[name] = rule
        self.done = {}
        for name, rule in ((None, self.stream), *self.groups.items()):
            if former is not None and former.rule_of(name) == rule:
                self.done[name] = former.done.get(name) or begin_counting(now_ms)
            else:
                self.done[name] = begin_counting(now_ms)

    def rule_of(self, group):
        """Return the rule of the stream (None), or of a group; None where there is none."""
        return self.stream if group is None else self.groups.get(group)

    def says_something(self) -> bool:
        """Tell whether there is any rule."""
        return self.stream is not None or bool(self.groups)


cdef Done begin_counting(int64_t now_ms):
    cdef Done done = Done.__new__(Done)
    done.since_ms = now_ms
    return done


@cython.final
cdef class DatabaseRules:
    """See the declaration."""

    def __cinit__(self):
        self.by_key = {}
        self.by_pattern = {}
        self.patterns = []
        self.unplanned = []
        self.resolved = {}
        self.resolved_most = RESOLVED_LEAST


@cython.final
cdef class RuleBook:
    """See the module."""

    def __init__(self, engine):
        self.engine = engine
        self.databases = [DatabaseRules() for _ in engine.databases]
        self.stale_keys = {}
        self.stale_patterns = {}
        self.outdated = []
        self.timers = TimerHeap()
        self.turn_ns = TURN_NS
        self.chore = engine.chores.register(self.run_due, in_unix_time=True, pause_ms=PAUSE_MS)
        for kind in (OF_KEY, OF_PATTERN, RETRIES):
            engine.side_keys.watch(kind, self)

    def equip(self, keep_stream, keep_group) -> None:
        """Give the book what does what is due, which is about commands, and so above it."""
        self.keep_stream = keep_stream
        self.keep_group = keep_group

    # --- what changes the data -----------------------------------------------------------------------------------

    def changed(self, db: Database, side: bytes, key: bytes) -> None:
        """Have a side key read again: it has come, changed or gone."""
        cdef StreamRules known
        cdef GroupRules group
        if self.writing:
            return
        if side.endswith(RETRIES):
            known = (<DatabaseRules>self.databases[db.number]).resolved.get(key)
            if known is not None:
                for group in known.groups.values():
                    group.waiting = None
                self.engine.keyspace.signal(db, key)
            return
        if side == side_key(key, OF_PATTERN):
            self.stale_patterns[db.number, key] = None
        else:
            self.stale_keys[db.number, key] = None
        if not self.engine.is_replica:
            self.kept = True
            self.chore.expect(self.engine.clocks.now_ms)

    def cleared(self, db: Database) -> None:
        """Forget the rules of a database, which has no keys any more."""
        cdef DatabaseRules rules = self.databases[db.number]
        self.stale_keys = {place: None for place in self.stale_keys if place[0] != db.number}
        self.stale_patterns = {place: None for place in self.stale_patterns if place[0] != db.number}
        self.forget_all(rules)
        rules.by_key = {}
        rules.by_pattern = {}
        rules.patterns = []
        self.decide_ruled()

    def swapped(self, db: Database, other: Database) -> None:
        """Exchange the rules of two databases."""
        cdef DatabaseRules rules
        self.refresh_swapped(db, other)
        self.databases[db.number], self.databases[other.number] = (
            self.databases[other.number], self.databases[db.number])
        for each in (db, other):
            rules = self.databases[(<Database>each).number]
            self.forget_all(rules)
            self.plan_all(each)

    def refresh_swapped(self, db: Database, other: Database) -> None:
        """Let what is still to be read be read in the database that has it now."""
        numbers = {db.number: other.number, other.number: db.number}
        self.stale_keys = {(numbers.get(number, number), key): None for number, key in self.stale_keys}
        self.stale_patterns = {(numbers.get(number, number), key): None for number, key in self.stale_patterns}

    def wake(self) -> None:
        """Keep the rules from now on: the data is there, and no master keeps them."""
        self.awake_ms = self.engine.clocks.now_ms
        self.dated_ms = self.engine.clocks.set_by_ms
        for db in self.engine.databases:
            self.forget_all(<DatabaseRules>self.databases[(<Database>db).number])
            self.plan_all(db)
        self.decide_ruled()
        if self.kept:
            self.chore.expect(self.engine.clocks.now_ms)

    def sleep(self) -> None:
        """Stop keeping the rules, because a master does."""
        for rules in self.databases:
            self.forget_all(<DatabaseRules>rules)
        self.kept = False

    cdef int decide_ruled(self) except -1:
        """Find out whether commands have to look here."""
        cdef DatabaseRules rules
        found = bool(self.stale_keys) or bool(self.stale_patterns)
        for rules in self.databases:
            found = found or bool(rules.by_key) or bool(rules.by_pattern)
        self.kept = found and not self.engine.is_replica
        return 0

    cdef bint declare(self, dict declared, Database db, bytes side, bytes key) except -1:
        """Read a side key again; whether that may have changed anything."""
        held = db.values.get(side)
        found = Declared(held, declared.get(key), self.engine.clocks.now_ms) if type(held) is dict else None
        if found is not None and found.says_something():
            declared[key] = found
            return True
        return declared.pop(key, None) is not None

    cdef int refresh_key(self, tuple place) except -1:
        """Read what is declared for a key, which has changed."""
        cdef Database db = self.engine.databases[place[0]]
        cdef DatabaseRules rules = self.databases[db.number]
        cdef bytes key = place[1]
        del self.stale_keys[place]
        if self.declare(rules.by_key, db, side_key(key, OF_KEY), key):
            self.forget(rules, key)
            self.plan(db, key)
            self.engine.keyspace.signal(db, key)
        if not self.stale_keys:
            self.decide_ruled()
        return 0

    cdef int refresh_patterns(self) except -1:
        """Read what is declared for patterns that have changed."""
        cdef dict stale = self.stale_patterns
        cdef DatabaseRules rules
        cdef Database db
        self.stale_patterns = {}
        for number, pattern in stale:
            db = self.engine.databases[number]
            rules = self.databases[number]
            if not self.declare(rules.by_pattern, db, side_key(pattern, OF_PATTERN), pattern):
                continue
            for waited in list(db.waiting):
                if matcher(pattern)(waited):
                    self.engine.keyspace.signal(db, waited)
            winning = sorted(rules.by_pattern, key=lambda pattern: (-len(pattern), pattern))
            rules.patterns = [(matcher(pattern), pattern) for pattern in winning]
            self.forget_all(rules)
            self.plan_all(db)
        return self.decide_ruled()

    cdef int refresh(self) except -1:
        """Read all side keys that have changed."""
        while self.stale_keys:
            self.refresh_key(next(iter(self.stale_keys)))
        return self.refresh_patterns() if self.stale_patterns else 0

    cdef int forget(self, DatabaseRules rules, bytes key) except -1:
        """Forget what is in force for a key; it is found out again when it is asked for."""
        cdef StreamRules known = rules.resolved.pop(key, None)
        return self.let_go(known) if known is not None else 0

    cdef int forget_all(self, DatabaseRules rules) except -1:
        """Forget what is in force for all keys; it is taken apart when there is time."""
        rules.cursor = None
        rules.unplanned = []
        if rules.resolved:
            self.outdated.append(rules.resolved)
            rules.resolved = {}
            self.chore.expect(self.engine.clocks.now_ms)
        return 0

    cdef int let_go(self, StreamRules known) except -1:
        """End the timers of a stream whose rules are in force no longer."""
        cdef GroupRules group
        if known.timer is not None:
            self.timers.remove(known.timer)
            known.timer = None
        for group in known.groups.values():
            if group.timer is not None:
                self.timers.remove(group.timer)
                group.timer = None
        known.groups = {}               # its groups know it, too: the two must not keep each other
        return 0

    cdef bint is_in_force(self, StreamRules known) except -1:
        """Whether nothing else is in force by now; a rule that was just changed or removed does nothing more."""
        return self.find(known.db, known.key) is known

    # --- looking up ----------------------------------------------------------------------------------------------

    cdef StreamRules find(self, Database db, bytes key):
        """What is in force for a key, or None."""
        cdef DatabaseRules rules
        if self.stale_patterns:
            self.refresh_patterns()
        if self.stale_keys and (db.number, key) in self.stale_keys:
            self.refresh_key((db.number, key))
        rules = <DatabaseRules>self.databases[db.number]
        found = rules.resolved.get(key, rules)
        return self.resolve(rules, db, key) if found is rules else <StreamRules>found

    cdef StreamRules resolve(self, DatabaseRules rules, Database db, bytes key):
        cdef StreamRules found
        cdef GroupRules group
        declared = []
        if key in rules.by_key:
            declared.append((None, rules.by_key[key]))
        for matches, pattern in rules.patterns:
            if matches(key):
                declared.append((pattern, rules.by_pattern[pattern]))
        if len(rules.resolved) > rules.resolved_most:
            for known in [known for known in rules.resolved if known not in db.values]:
                self.forget(rules, known)
            rules.resolved_most = max(RESOLVED_LEAST, 2 * len(rules.resolved))
        if not declared:
            rules.resolved[key] = None
            return None
        found = StreamRules.__new__(StreamRules)
        found.db = db
        found.key = key
        found.groups = {}
        found.retries_key = side_key(key, RETRIES)
        for pattern, each in declared:
            if found.rule is None and each.stream is not None:
                found.rule = each.stream
                found.pattern = pattern
                found.done = each.done[None]
                found.max_length = found.rule.max_length
                found.max_age_ms = found.rule.max_age_ms
                found.max_bytes = found.rule.max_bytes
                found.policy = POLICIES[found.rule.references]
                found.limits = bool(found.max_length or found.max_age_ms or found.max_bytes)
                found.drops_acked = found.rule.drops_acked
            for name, rule in each.groups.items():
                if name in found.groups:
                    continue
                group = GroupRules.__new__(GroupRules)
                group.stream = found
                group.name = name
                group.rule = rule
                group.pattern = pattern
                group.done = each.done[name]
                group.visibility_ms = rule.visibility_ms
                group.retry_min_ms = rule.retry_min_ms
                group.retry_max_ms = rule.retry_max_ms
                group.max_deliveries = rule.max_deliveries
                group.buries = rule.buries
                group.dead_letter = rule.dead_letter or default_stream(key)
                group.consumer_ttl_ms = rule.consumer_ttl_ms
                group.create_from = rule.create_from
                group.dated_ms = self.engine.clocks.set_by_ms
                group.redelivers = bool(group.visibility_ms or group.retry_min_ms)
                found.groups[name] = group
        rules.resolved[key] = found
        return found

    def in_force(self, db: Database, key: bytes) -> StreamRules | None:
        """Return what is in force for a key."""
        return self.find(db, key)

    def declared(self, db: Database, name: bytes, is_pattern: bool) -> Declared | None:
        """Return what is declared for a key or a pattern."""
        self.refresh()
        rules = <DatabaseRules>self.databases[db.number]
        return (rules.by_pattern if is_pattern else rules.by_key).get(name)

    def declarations(self, db: Database) -> list:
        """List all that is declared in a database: (name, whether it is a pattern, Declared), keys first."""
        self.refresh()
        rules = <DatabaseRules>self.databases[db.number]
        return [
            *((key, False, found) for key, found in sorted(rules.by_key.items())),
            *((pattern, True, found) for pattern, found in sorted(rules.by_pattern.items())),
        ]

    cdef int follow_clock(self) except -1:
        """Have everything looked at where somebody has set the clock: the times of what is held and waits follow it."""
        cdef int64_t set_by_ms = (<Engine>self.engine).clocks.set_by_ms
        if set_by_ms == self.dated_ms:
            return 0
        self.awake_ms += set_by_ms - self.dated_ms
        self.dated_ms = set_by_ms
        for db in self.engine.databases:
            self.plan_all(db)
        return 0

    # --- what is due ---------------------------------------------------------------------------------------------

    cdef int plan(self, Database db, bytes key) except -1:
        """Have a stream and its groups looked at soon, where there are rules that time concerns."""
        cdef StreamRules found
        cdef GroupRules group
        if type(db.values.get(key)) is not Stream or self.engine.is_replica:
            return 0
        found = self.find(db, key)
        if found is not None:
            if found.limits:
                self.expect_stream(found, self.engine.clocks.now_ms)
            for group in found.groups.values():
                self.expect_group(group, self.engine.clocks.now_ms)
        return 0

    def plan_all(self, db: Database) -> None:
        """Have all streams of a database looked at that have rules; those under patterns are searched for."""
        cdef DatabaseRules rules = self.databases[db.number]
        rules.unplanned = list(rules.by_key)
        rules.cursor = 0 if rules.patterns else None
        self.chore.expect(self.engine.clocks.now_ms)

    cdef int expect_stream(self, StreamRules rules, int64_t when_ms) except -1:
        """Have the limits of a stream looked at, at a time at the latest."""
        if rules.timer is not None:
            if rules.timer.due <= when_ms:
                return 0
            self.timers.remove(rules.timer)
        rules.timer = self.timers.add(when_ms, rules)
        self.chore.expect(when_ms)
        return 0

    cdef int expect_group(self, GroupRules rules, int64_t when_ms) except -1:
        """Have a group looked at, at a time at the latest, where there is something to find by time."""
        if not rules.consumer_ttl_ms and not (rules.visibility_ms and rules.max_deliveries):
            return 0
        if rules.timer is not None:
            if rules.timer.due <= when_ms:
                return 0
            self.timers.remove(rules.timer)
        rules.timer = self.timers.add(when_ms, rules)
        self.chore.expect(when_ms)
        return 0

    def run_due(self) -> int | None:
        """Do what is due, for a moment; return when the next is due, in Unix ms."""
        cdef uint64_t until = monotonic_ns() + self.turn_ns
        cdef Engine engine = <Engine>self.engine
        cdef int64_t now_ms = engine.clocks.now_ms
        cdef bint is_over = False
        if engine.is_replica:
            while self.take_apart() and monotonic_ns() < until:
                pass
            return now_ms if self.outdated else None
        if engine.loading or engine.pauses.are_on() or engine.refusals.writes is not None:
            return now_ms + HELD_UP_MS
        if self.stale_patterns:
            self.refresh_patterns()
        while monotonic_ns() < until:
            target = self.timers.pop_due(now_ms)
            if target is not None:
                self.keep(target)
            elif not self.take_step():
                is_over = True
                break
        return self.timers.first_due if is_over else now_ms

    cdef int keep(self, object target) except -1:
        """Do what is due for a stream or a group."""
        cdef Engine engine = <Engine>self.engine
        cdef StreamRules known
        if type(target) is StreamRules:
            known = <StreamRules>target
            known.timer = None
            if self.is_in_force(known):
                engine.act(known.db, self.keep_stream, known)
        else:
            known = (<GroupRules>target).stream
            (<GroupRules>target).timer = None
            if self.is_in_force(known):
                engine.act(known.db, self.keep_group, target)
        return 0

    cdef bint take_step(self) except -1:
        """Do a little of what concerns all streams; whether there was anything to do."""
        cdef DatabaseRules rules
        if self.stale_keys:
            self.refresh_key(next(iter(self.stale_keys)))
            return True
        for number, rules in enumerate(self.databases):
            if rules.unplanned:
                self.plan(self.engine.databases[number], rules.unplanned.pop())
                return True
            if rules.cursor is not None:
                db = self.engine.databases[number]
                cursor, keys = db.scan(rules.cursor, SEARCHED_AT_ONCE)
                rules.cursor = cursor or None
                for key in keys:
                    self.plan(db, key)
                return True
        return self.take_apart()

    cdef bint take_apart(self) except -1:
        """Let go of what is in force no longer, of one stream; whether there was any."""
        cdef dict outdated
        if not self.outdated:
            return False
        outdated = <dict>self.outdated[len(self.outdated) - 1]
        if outdated:
            _, known = outdated.popitem()
            if known is not None:
                self.let_go(known)
        else:
            self.outdated.pop()
        return True
