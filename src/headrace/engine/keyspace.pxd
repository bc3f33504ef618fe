from libc.stdint cimport int64_t

from headrace.engine.client cimport Client
from headrace.engine.command cimport WRITE, Command
from headrace.engine.database cimport Database
from headrace.engine.pubsub.notifications cimport KEY_MISS
from headrace.engine.stats cimport Stats


cdef class Keyspace:
    cdef object engine                  # an Engine, whose declaration names this class
    cdef readonly list databases
    cdef Stats stats
    cdef readonly int64_t second        # by the steady clock, as of the last tick: what accesses of keys are noted with
    cdef readonly int event_classes     # of keyspace events that are published; 0: none
    cdef bint minds_misses              # the command that runs publishes that it found no key
    cdef bint writing                   # the command that runs may change data
    cdef bint leave_access              # the client that runs a command does not want its accesses noted
    cdef list ready                     # (database, key) that may serve waiting clients
    cdef dict ready_set
    cdef public bint active_expiry      # whether keys expire without being looked at

    cpdef object find(self, Database db, bytes key)
    cpdef object peek(self, Database db, bytes key)
    cdef int count_miss(self, Database db, bytes key) except -1
    cpdef int expire_now(self, Database db, bytes key) except -1
    cdef int expire_messages(self, Database db) except -1
    cpdef int touch(self, Database db, bytes key) except -1
    cpdef int signal(self, Database db, bytes key) except -1
    cpdef int announce(self, Database db, int event_class, bytes event, bytes key) except -1
    cdef int announce_value(self, Database db, bytes key, object former, object value) except -1
    cdef bint is_reader(self, Command command)


cdef inline int begin_command(Keyspace keyspace, Client client, Command command) except -1:
    """Take over what the command that runs next means for the keys that it looks up."""
    keyspace.leave_access = client.no_touch
    keyspace.writing = command.flags & WRITE
    if keyspace.event_classes & KEY_MISS:
        keyspace.minds_misses = keyspace.is_reader(command)
    return 0
