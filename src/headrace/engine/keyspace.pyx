# cython: nonecheck=True
"""The keys of all databases, as commands find them: expired keys are gone, and clients learn of keys that change.

    looking     find, peek                                       a key whose time has come expires when it is looked up
    changing    touch, signal, announce                          transactions that watch, clients that wait, events
    time        expire_due                                       a chore for each database, which expires what nobody
                                                                 looks up, and what producers sent too long ago
    loading     load, close_places, clear

The effect of expiry is the deletion of the key, as if a client had sent it. A pause of writes, and data that is still
loading or repeated, keep keys whose time has come: there, deletions come as effects. So does a replica.
"""

cimport cython

from headrace.core.stream cimport Stream
from headrace.engine.command cimport READ
from headrace.engine.database cimport is_side_key
from headrace.engine.engine cimport Engine
from headrace.engine.pubsub.notifications cimport EXPIRED, KEYEVENT, KEYSPACE, NEW, OVERWRITTEN, TYPE_CHANGED

from functools import partial

from headrace.engine.effects import deletion, forgetting
from headrace.engine.pubsub.notifications import NO_READERS, READERS
from headrace.engine.values import kind_of

cdef enum:
    EXPIRED_AT_ONCE = 1000      # keys of a database that one tick expires, so that no client waits long


@cython.final
cdef class Keyspace:
    """See the module."""

    def __init__(self, Engine engine not None):
        self.engine = engine
        self.stats = engine.stats
        self.ready = []
        self.ready_set = {}
        self.active_expiry = True
        self.databases = [Database(number) for number in range(engine.config["databases"])]
        for db in self.databases:
            db.expiring = engine.chores.register(partial(self.expire_due, db), in_unix_time=True)
            db.side_keys = engine.side_keys
        engine.config.watch("notify-keyspace-events", self.events_changed)
        self.events_changed(engine.config["notify-keyspace-events"])

    # --- looking -----------------------------------------------------------------------------------------------

    cpdef object find(self, Database db, bytes key):
        """The value of a key that has not expired, or None; to look is an access."""
        cdef object value = self.peek(db, key)
        if value is not None and not self.leave_access:
            # A stream remembers it itself, which costs nothing that shows; in the database's list it cost an XADD 33 ns
            # of 342 and an XLEN 43 of 247 (in-process, 1000 keys).
            if type(value) is Stream:
                (<Stream>value).accessed_s = self.second
            else:
                db.note_access_to(key, value, self.second)
        return value

    cpdef object peek(self, Database db, bytes key):
        """The value of a key that has not expired, or None, as the commands see it that are no access to it."""
        cdef object value = db.look_up(key)
        cdef Engine engine
        if value is None:
            self.count_miss(db, key)
            return None
        if db.expires and key in db.expires:
            engine = <Engine>self.engine
            if db.expires[key] < engine.clocks.now_ms and not engine.loading and not engine.applying:
                # A pause keeps the data as it is. A command that writes removes the key nevertheless: it would write
                # into a key whose time has come, and what it wrote would be gone with it. A replica keeps the key, too,
                # until its master says that it is gone.
                if self.writing or not (engine.is_replica or engine.pauses.are_on()):
                    self.expire_now(db, key)
                self.count_miss(db, key)
                return None
        self.stats.hits += 1
        return value

    cdef int count_miss(self, Database db, bytes key) except -1:
        self.stats.misses += 1
        if self.event_classes & KEY_MISS and (<Engine>self.engine).depth and self.minds_misses:
            self.announce(db, KEY_MISS, b"keymiss", key)
        return 0

    cdef bint is_reader(self, Command command):
        """Whether a key that a command does not find was one to read."""
        if command.flags & READ:
            return command.name not in NO_READERS
        return command.name in READERS

    # --- changing ----------------------------------------------------------------------------------------------

    cpdef int touch(self, Database db, bytes key) except -1:
        """Fail the transactions that watch a key, and let clients that track it know."""
        cdef Client client
        if db.watchers and key in db.watchers:
            for client in db.watchers[key]:
                client.watch_failed = True
        if (<Engine>self.engine).observers.present:
            (<Engine>self.engine).observers.tracker.invalidate(key)
        if is_side_key(key):
            db.note_side_key(key)
        return 0

    cpdef int signal(self, Database db, bytes key) except -1:
        """Let the clients that wait for a key look at it when the command that runs is over."""
        if db.waiting and key in db.waiting and (db, key) not in self.ready_set:
            self.ready_set[db, key] = None
            self.ready.append((db, key))
        return 0

    cpdef int announce(self, Database db, int event_class, bytes event, bytes key) except -1:
        """Publish what happened to a key of a database, where the configuration asks for events of its class."""
        cdef Engine engine
        if self.event_classes & event_class:
            engine = <Engine>self.engine
            if self.event_classes & KEYSPACE:
                engine.exchange.publish(b"__keyspace@%d__:%s" % (db.number, key), event)
            if self.event_classes & KEYEVENT:
                engine.exchange.publish(b"__keyevent@%d__:%s" % (db.number, event), key)
        return 0

    cdef int announce_value(self, Database db, bytes key, object former, object value) except -1:
        """Publish that a key gets its first value, or another one."""
        if former is None:
            return self.announce(db, NEW, b"new", key)
        self.announce(db, OVERWRITTEN, b"overwritten", key)
        if kind_of(former) != kind_of(value):
            self.announce(db, TYPE_CHANGED, b"type_changed", key)
        return 0

    def events_changed(self, classes) -> None:
        """Take over which events are published: none where it is not said on which channels."""
        self.event_classes = classes if classes & (KEYSPACE | KEYEVENT) else 0

    # --- time --------------------------------------------------------------------------------------------------

    def expire_due(self, db: Database) -> int | None:
        """Expire keys of a database, and forget what was sent to it, as far as due; returns the next due Unix ms."""
        cdef Engine engine = <Engine>self.engine
        if engine.is_replica:
            return None                 # its master says what has expired; `plan_expiry` is called when it is none
        # While data is loading, a key whose time has come may be one that is still to be changed.
        if not self.active_expiry or engine.loading or engine.pauses.are_on():
            return engine.clocks.now_ms
        for key in db.expired(engine.clocks.now_ms, EXPIRED_AT_ONCE):
            self.expire_now(db, key)
        self.expire_messages(db)
        return db.next_due()

    def plan_expiry(self) -> None:
        """Have expired what is due, which was not planned as long as a master decided it."""
        cdef Database db
        for db in self.databases:
            due = db.next_due()
            if due is not None:
                db.expiring.expect(due)

    cpdef int expire_now(self, Database db, bytes key) except -1:
        """Remove a key whose time has come; the effect is its deletion."""
        cdef Engine engine = <Engine>self.engine
        cdef object value = db.take(key)
        if type(value) is not bytes:
            engine.freeing.discard(value, "lazyfree-lazy-expire")
        self.stats.expired += 1
        self.announce(db, EXPIRED, b"expired", key)
        self.touch(db, key)
        self.signal(db, key)
        return engine.record(db, deletion(key))

    cdef int expire_messages(self, Database db) except -1:
        """Forget what producers sent too long ago; the effect says how much that was."""
        cdef Engine engine = <Engine>self.engine
        for key in db.forgetting(engine.clocks.now_ms, EXPIRED_AT_ONCE):
            value = db.values.get(key)
            if type(value) is Stream:
                forgotten = value.producers.expire(engine.clocks.now_ms)
                if forgotten:
                    engine.record(db, forgetting(key, forgotten))
                db.expect_forgetting(key, value)
        return 0

    def expire_watched(self, client: Client) -> None:
        """Let keys that a client watches expire where their time has come, which fails its transaction."""
        for db, keys in client.watched.items():
            for key in keys:
                self.find(db, key)

    # --- loading -----------------------------------------------------------------------------------------------

    def load(self, number: int, key: bytes, value: object, expires_ms: int | None, idle_s: int | None) -> None:
        """Give a key of a database a value that was saved, and what else was saved of it."""
        cdef Database db = self.databases[number]
        db.put(key, value)
        if expires_ms is not None:
            db.set_expiry(key, expires_ms)
        db.note_access(key, self.second - (idle_s or 0))

    def close_places(self) -> None:
        """Close the places that removed keys have left, so that walks of before a restart go on."""
        cdef Database db
        for db in self.databases:
            db.close_places()

    def clear(self) -> None:
        """Free all keys of all databases, because nobody will look at them any more."""
        cdef Database db
        for db in self.databases:
            db.clear()
