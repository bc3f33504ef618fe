# cython: nonecheck=True
"""One command that runs, as its handler sees it.

    arguments    value, stream, integer                          a key's value by the place of the key, a number
    the data     find, peek, create, delete                      a key's value; a key that comes or goes
    what it did  changed, touch, notify, signal                  for snapshots, WATCH, events, waiting clients
    effects      emit, emit_nothing                              else the command itself is the effect
    the reply    reply, or block                                 now, or when a key is ready
"""

cimport cython

from headrace.core.stream_id cimport strict_integer
from headrace.engine.client cimport Wait
from headrace.engine.pubsub.notifications cimport NEW, OVERWRITTEN, TYPE_CHANGED

from headrace.engine.errors import NOT_AN_INTEGER, WRONG_TYPE, CommandError


@cython.final
@cython.no_gc
@cython.freelist(16)
cdef class Call:
    """One command that runs: its arguments, its client, its reply, and what it does to the data."""

    cpdef object value(self, Py_ssize_t index):
        """The value of the key at an argument, or None."""
        return self.engine.keyspace.find(self.db, <bytes>self.argv[index])

    cpdef object find(self, bytes key):
        """The value of a key of the client's database, or None; to look is an access."""
        return self.engine.keyspace.find(self.db, key)

    cpdef object peek(self, bytes key):
        """The same, but no access."""
        return self.engine.keyspace.peek(self.db, key)

    cpdef Stream stream(self, Py_ssize_t index):
        """The stream of the key at an argument, or None; refuses any other type."""
        cdef object value = self.engine.keyspace.find(self.db, <bytes>self.argv[index])
        if value is not None and type(value) is not Stream:
            raise CommandError(WRONG_TYPE)
        return <Stream>value

    cpdef int64_t integer(self, Py_ssize_t index, bytes refusal=NOT_AN_INTEGER) except? -1:
        """The argument as a signed 64-bit integer in its canonical spelling."""
        cdef bytes text = <bytes>self.argv[index]
        cdef int64_t value
        if not strict_integer(text, len(text), &value):
            raise CommandError(refusal)
        return value

    cpdef int changed(self, int64_t changes=1) except -1:
        """Note changes to the data; without any, a command has no effects."""
        self.engine.dirty += changes
        return 0

    cpdef int touch(self, bytes key) except -1:
        """Fail the transactions that watch the key."""
        return self.engine.keyspace.touch(self.db, key)

    cpdef int notify(self, int event_class, bytes event, bytes key) except -1:
        """Publish what happened to a key, where somebody wants to know."""
        if self.engine.keyspace.event_classes & event_class:
            self.engine.keyspace.announce(self.db, event_class, event, key)
        return 0

    cpdef int signal(self, bytes key) except -1:
        """Let the clients that wait for the key look at it when this command is over."""
        return self.engine.keyspace.signal(self.db, key)

    cpdef int create(self, bytes key, object value) except -1:
        """Give a key a value, whether it has one or not."""
        if self.engine.keyspace.event_classes & (NEW | OVERWRITTEN | TYPE_CHANGED):
            self.engine.keyspace.announce_value(self.db, key, self.db.values.get(key), value)
        cdef object former = self.db.values.get(key)
        self.db.put(key, value)
        if former is not None and type(former) is not bytes and former is not value:
            self.engine.freeing.discard(former, "lazyfree-lazy-server-del")
        self.db.note_access_to(key, value, self.engine.keyspace.second)
        return self.engine.keyspace.signal(self.db, key)

    cpdef bint delete(self, bytes key, str setting="lazyfree-lazy-server-del") except -1:
        """Remove a key; False where there is none. The setting says whether what is large is freed beside the loop."""
        cdef object value
        if self.engine.keyspace.find(self.db, key) is None:
            return False
        value = self.db.take(key)
        if type(value) is not bytes:
            self.engine.freeing.discard(value, setting)
        self.engine.keyspace.touch(self.db, key)
        self.engine.keyspace.signal(self.db, key)
        return True

    cpdef int emit(self, list argv) except -1:
        """Note an effect, in place of the command itself."""
        self.explicit_effects = True
        if self.engine.effects.wanted:
            self.engine.effects.add(self.db.number, argv)
        return 0

    cpdef int emit_nothing(self) except -1:
        """What changed need not be repeated."""
        self.explicit_effects = True
        return 0

    cpdef bint may_block(self):
        """Whether a reply may be kept waiting: not inside a transaction, nor when effects are applied."""
        return not self.client.executing and not self.engine.applying

    cpdef int block(self, list keys, bytes kind, int64_t timeout_ms, bint without_key, list argv) except -1:
        """Answer later: run `argv` again when a key is ready, or answer nothing after the timeout (0: never)."""
        cdef int64_t deadline = self.engine.clocks.steady_now_ms + timeout_ms if timeout_ms else 0
        if self.client.retrying:
            deadline = self.client.wait.deadline
        self.engine.waiting.enter(self.client, Wait(self.db, argv, keys, kind, without_key, deadline))
        return 0
