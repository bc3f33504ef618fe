from libc.stdint cimport uint64_t

from headrace.core.memory cimport byte_t


cdef class EffectLog


cdef class Subscriber:
    cdef bint starts_anew               # what it takes next does not follow what it took last

    cdef int begin(self, EffectLog log) except -1
    cdef int take(self, const byte_t *data, size_t size) except -1
    cdef int skip(self, const byte_t *data, size_t size) except -1
    cdef int miss(self) except -1


cdef class CallbackSubscriber(Subscriber):
    cdef object callback


cdef class EffectLog:
    cdef readonly bint wanted           # somebody takes effects, so that commands must say what they did
    cdef readonly uint64_t offset       # bytes of all effects, since the data began to be
    cdef readonly bytes history         # the name of the history that the offset is of: 40 hexadecimal digits
    cdef readonly list ancestors        # (name, offset where it was left), the youngest first
    cdef readonly bint continuous       # every change of the data since that offset was counted
    cdef readonly str vocabulary        # which servers know the words of the effects: see rdb-compatibility-version
    # The effects of the command that runs: nearly always there is one, for which no list is made.
    cdef list pending                   # the argv of the first; None: there is no effect yet
    cdef int pending_database
    cdef list more_pending              # (database number, argv) of the others
    cdef list subscribers
    cdef bint paused
    cdef bint following                 # effects are a master's: what is done here by others is none
    cdef readonly int selected          # the database of the last effect; -1: the next one names its own
    cdef bint names_next                # the next one names its database, whichever it is
    cdef byte_t *data                   # the effects of one command, encoded
    cdef size_t size
    cdef size_t capacity

    cdef inline int add(self, int database, list argv) except -1:
        """Note an effect of the command that runs."""
        if self.pending is None:
            self.pending = argv
            self.pending_database = database
        else:
            self.more_pending.append((database, argv))
        return 0

    cdef int decide_wanted(self) except -1
    cdef int relocate(self) except -1
    cdef int begin_subscribers(self) except -1
    cdef int settle(self) except -1
    cdef bint encode(self) except -1
    cdef bint put_effect(self, int database, list argv) except -1
    cdef bint put(self, list argv) noexcept
    cdef bint put_select(self, int number) except -1
    cdef bint put_hidden(self, list argv) except -1
