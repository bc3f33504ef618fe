from libc.stdint cimport uint64_t

from headrace.engine.effect_log cimport EffectLog, Subscriber
from headrace.storage.worker cimport Buffer, Worker

cdef enum:
    ALWAYS = 0
    EVERYSEC = 1
    NEVER = 2

    SHORT_SYNC = 1000000                # nanoseconds: a longer one is made beside the event loop, whoever waits for it
    SYNCS_TO_FILL = 2                   # how long a group is filled while the disk has nothing to do, in syncs
    FULL = 1 << 25                      # bytes of effects from which on requests wait for the disk


cdef class Held:
    """Replies that wait."""
    cdef uint64_t position              # of the journal, that must be safe
    cdef uint64_t offset                # of the effect log, that replicas must have confirmed
    cdef double since                   # seconds, monotonic; only where they wait for replicas
    cdef object channel
    cdef list chunks


cdef class Journal(Subscriber):
    cdef readonly object disk
    cdef readonly object file           # the open increment, as the disk knows it; None: nothing is written
    cdef object next_file               # … takes its place when the disk has what was taken before; None: nothing does
    cdef object on_changed              # … and then this is called
    cdef Worker worker
    cdef public bint immediate          # the worker has no thread, and does what it is given at once
    cdef int policy
    cdef Buffer filling                 # effects that are not being written yet
    cdef Buffer refused                 # effects that the disk did not take, sealed; those that are filled come after
    cdef readonly uint64_t position     # bytes of effects taken so far
    cdef readonly uint64_t written      # of these, the system has
    cdef readonly uint64_t synced       # of these, the disk has
    cdef readonly uint64_t safe         # what was replied up to here may leave
    cdef readonly uint64_t size         # bytes in the file
    cdef readonly bint busy             # the worker has something to do, or to tell
    cdef uint64_t sync_end              # … a sync without a write covers effects up to here
    cdef bint prepared                  # the file is written at places, not at its end: it has zeros …
    cdef uint64_t zeroed                # … from `size` up to here
    cdef public uint64_t room           # how many bytes are filled with zeros at a time; 0: it is written at its end
    cdef bint scheduled                 # a commit will come
    cdef uint64_t filled_since          # nanoseconds; 0: not since the last commit
    cdef uint64_t sync_took             # nanoseconds that the last group needed
    cdef readonly bint failing          # the disk does not take effects: replies leave, because nothing is written
    cdef readonly bint incomplete       # effects are missing in the file: only a new base can mend that
    cdef readonly bint collecting       # … which is made; effects since then are filled
    cdef list held                      # `Held` in order
    cdef EffectLog effects              # what it takes, and what replicas confirm
    cdef readonly bint confirms         # replies wait for replicas, too …
    cdef readonly uint64_t confirmed    # … until enough of them have the effects up to this offset on their disks
    cdef list stalled                   # channels whose requests wait for the disk
    cdef public bint eager              # the host has an event loop with turns: do not always wait for their end
    cdef public bint unscheduled        # the host calls `commit_here` when its turn is over: no commit is scheduled
    cdef public object schedule         # asks the host to call `commit` at the end of this turn, or of the next
    cdef public object on_failure       # takes an errno and whether it was the sync that failed
    cdef public object on_synced        # called when more is on disk
    cdef readonly uint64_t syncs
    cdef readonly uint64_t confirm_waits    # replies that have waited for replicas …
    cdef readonly double confirm_waited     # … and how many seconds altogether
    cdef readonly double synced_at      # seconds, monotonic: when a sync last began

    cdef inline bint must_hold(self, uint64_t told) noexcept:
        """Whether a reply that may tell of data up to an offset might tell of an effect that is not safe yet."""
        return (self.position != self.safe and not self.failing) or (self.confirms and told > self.confirmed)

    cdef inline int end_batch(self, uint64_t now) except -1:
        """Note that a client's requests were run and its replies held: take what the worker has done, or commit now.

        The event loop would tell of the worker, and commit, only after it has read from all clients that have sent.
        """
        if not self.eager:
            return 0
        if self.busy and self.worker.finished:
            self.completed()
        if not self.busy and self.policy == ALWAYS and self.filling.size:
            if self.filled_since == 0:
                self.filled_since = now
            if now - self.filled_since >= SYNCS_TO_FILL * self.sync_took:
                self.commit()
        return 0

    cdef inline bint is_full(self) noexcept:
        """Whether so much waits for the disk that more should not be taken."""
        return self.position - self.written > FULL and not self.failing

    cdef int hold(self, object channel, uint64_t told, list chunks) except -1
    cdef int send_safe(self) except -1
    cdef int send_confirmed(self) except -1
    cdef int seal(self) except -1
    cdef int stall(self, object channel) except -1
    cdef int resume_stalled(self) except -1
    cdef int commit_soon(self) except -1
    cdef int give(self) except -1
    cpdef int commit_here(self) except -1
    cdef int begin_sync(self) except -1
    cdef int set_target(self) except -1
    cdef int take_back(self) except -1
    cdef int await_worker(self) except -1
    cdef int advance_change(self) except -1
    cdef int end_change(self, object before) except -1
    cdef int prepare(self) except -1
    cdef int unprepare(self) except -1
    cdef int fail(self, int error, bint sync_failed) except -1
