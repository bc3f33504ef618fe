"""A thread that writes and syncs while the event loop goes on.

    give ─► inbox ─► writing: write, fdatasync ─► outcome, `fileno` can be read ─► collect
              ▲          │
              └──────────┘  as long as something is in there

Whatever is in the inbox when a sync ends is written next, together, and covered by the next sync: the disk never waits
for the event loop to hear of the last one.

Groups go to the end of a file, or to a place in it that has zeros already. A sync of such a place need not note that
the file has grown, which takes the system a third of the time or more (see storage.journal).

The thread runs without Python's lock from its beginning to its end, so that neither it nor the event loop ever waits
for the other longer than it takes to swap two buffers, or to seal a group. When the disk refuses something it stops,
and keeps what it has until somebody takes it back.

A worker that is given a disk has no thread. It does the same on the thread that collects the outcome, by calls of
that disk in place of the system's: so a simulated disk sees every write and sync that a real one would, in an order
that a test decides.
"""

cimport cython
from libc.errno cimport EINTR, EIO, errno
from libc.string cimport memcpy
from posix.unistd cimport close, write

from headrace.core.clock cimport monotonic_ns
from headrace.core.memory cimport byte_t, reallocate, release
from headrace.formats.aof_seal cimport SEAL_SIZE, put_seal

import os
from threading import Thread

cdef extern from "<unistd.h>" nogil:
    int fdatasync(int file)
    Py_ssize_t pwrite(int file, const void *data, size_t size, int64_t offset)

cdef enum:
    ZEROS = 1 << 16
    KEPT = 1 << 20              # a buffer that grew beyond this is given back when it is empty

cdef byte_t[ZEROS] zeros

# The upper bounds of the buckets of histograms, but for the last: steps of 1, 2 and 5.
cdef uint64_t[BUCKETS - 1] TIME_BOUNDS = [
    20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000,
    100_000_000, 200_000_000, 500_000_000, 1_000_000_000, 5_000_000_000,
]
cdef uint64_t[BUCKETS - 1] SIZE_BOUNDS = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000,
]

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
    int poll(pollfd *files, unsigned long count, int timeout_ms)
    short POLLIN


cdef int append(Buffer *buffer, const byte_t *data, size_t size) except -1:
    """Put bytes behind those that a buffer has."""
    cdef size_t needed = buffer.size + size
    cdef void *grown
    if size == 0:
        return 0                        # from an empty buffer, which may have no memory: memcpy takes no NULL
    if needed > buffer.capacity:
        grown = reallocate(buffer.data, needed + needed // 2)
        if grown == NULL:
            raise MemoryError
        buffer.data = <byte_t *>grown
        buffer.capacity = needed + needed // 2
    memcpy(buffer.data + buffer.size, data, size)
    buffer.size = needed
    return 0


cdef void see(Histogram *seen, const uint64_t *bounds, uint64_t value) noexcept nogil:
    """Count a value in the first bucket whose bound it does not pass."""
    cdef int bucket = 0
    while bucket < BUCKETS - 1 and value > bounds[bucket]:
        bucket += 1
    seen.counts[bucket] += 1
    seen.total += value


cdef void empty(Buffer *buffer) noexcept:
    buffer.size = 0
    buffer.units = 0
    if buffer.capacity > KEPT:
        release(buffer.data)
        buffer.data = NULL
        buffer.capacity = 0


cdef int write_all(int file, const byte_t *data, size_t size) noexcept nogil:
    """Write everything; 0, or the errno of what went wrong after some of it may have been written."""
    cdef Py_ssize_t written
    while size:
        written = write(file, data, size)
        if written < 0:
            if errno == EINTR:
                continue
            return errno
        data += written
        size -= <size_t>written
    return 0


cdef int write_all_at(int file, const byte_t *data, size_t size, int64_t offset) noexcept nogil:
    """The same at a place in the file."""
    cdef Py_ssize_t written
    while size:
        written = pwrite(file, data, size, offset)
        if written < 0:
            if errno == EINTR:
                continue
            return errno
        data += written
        size -= <size_t>written
        offset += written
    return 0


@cython.final
cdef class Worker:
    """See the module."""

    def __init__(self, disk=None):
        self.disk = disk
        self.threaded = disk is None
        sem_init(&self.wake, 0, 0)
        pthread_mutex_init(&self.lock, NULL)
        if self.threaded:
            self.fileno, self.signalled = os.pipe()
            self.thread = Thread(target=self.run, name="headrace-sync", daemon=True)
            self.thread.start()

    def __dealloc__(self):
        release(self.inbox.data)
        release(self.writing.data)

    # --- the thread --------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until `stop`; the thread's own function."""
        with nogil:
            self.work()

    cdef void work(self) noexcept nogil:
        while True:
            while sem_wait(&self.wake) != 0:
                pass                    # a signal
            if self.stopping:
                return
            self.take_inbox()
            while self.write_and_sync():
                pass

    cdef void take_inbox(self) noexcept nogil:
        pthread_mutex_lock(&self.lock)
        self.inbox, self.writing = self.writing, self.inbox
        pthread_mutex_unlock(&self.lock)

    cdef bint write_and_sync(self) noexcept nogil:
        """Bring out what was taken from the inbox; whether there is more now."""
        cdef uint64_t began = monotonic_ns()
        cdef bint sync_failed = False
        cdef int error = self.put_down()
        if error == 0:
            error = self.sync_file()
            sync_failed = error != 0
        return self.tell(error, sync_failed, monotonic_ns() - began)

    cdef int put_down(self) noexcept nogil:
        """Write it; where there are zeros, after more of them if they are not enough and the disk has room for them."""
        cdef Target *target = &self.target
        cdef int64_t end = target.end + <int64_t>self.writing.size
        cdef int64_t to_zero = end + target.room
        cdef size_t some
        cdef int error
        if not target.in_place:
            return self.write_end(target.file, self.writing.data, self.writing.size)
        if end > target.zeroed:
            while target.zeroed < to_zero:
                some = min(<size_t>(to_zero - target.zeroed), <size_t>ZEROS)
                if self.write_place(zeros, some, target.zeroed) != 0:
                    break
                target.zeroed += <int64_t>some
        error = self.write_place(self.writing.data, self.writing.size, target.end)
        if error == 0:
            target.end = end
            target.zeroed = max(target.zeroed, end)
        return error

    cdef bint tell(self, int error, bint sync_failed, uint64_t took) noexcept nogil:
        """Add to the outcome, let the event loop know of it, and take what was given meanwhile, if anything was."""
        cdef bint told
        cdef bint more
        pthread_mutex_lock(&self.lock)
        if error == 0:
            self.outcome.syncs += 1
            see(&self.sync_times, TIME_BOUNDS, took)
            if self.writing.units:      # none under `everysec`, where the event loop wrote them
                see(&self.group_sizes, SIZE_BOUNDS, self.writing.units)
        if error == 0 or sync_failed:
            self.outcome.written += self.writing.size
            self.writing.size = 0
            self.writing.units = 0
        self.outcome.error = error
        self.outcome.sync_failed = sync_failed
        self.outcome.took = took
        self.outcome.more = more = error == 0 and self.inbox.size != 0
        if more:
            self.inbox, self.writing = self.writing, self.inbox
        told = self.finished
        self.finished = True
        pthread_mutex_unlock(&self.lock)
        if not told and self.threaded and not self.here:
            write(self.signalled, b"!", 1)
        return more

    # --- files -------------------------------------------------------------------------------------------------
    # 0, or the errno of what went wrong after some of it may have been done.

    cdef int write_end(self, int file, const byte_t *data, size_t size) noexcept nogil:
        if self.threaded:
            return write_all(file, data, size)
        with gil:
            return self.call_disk(self.disk.append, (file, (<char *>data)[:size]))

    cdef int write_place(self, const byte_t *data, size_t size, int64_t offset) noexcept nogil:
        if self.threaded:
            return write_all_at(self.target.file, data, size, offset)
        with gil:
            return self.call_disk(self.disk.place, (self.target.file, (<char *>data)[:size], offset))

    cdef int sync_file(self) noexcept nogil:
        if self.threaded:
            return errno if fdatasync(self.target.file) != 0 else 0
        with gil:
            return self.call_disk(self.disk.sync, (self.target.file,))

    cdef int call_disk(self, object operation, tuple arguments) noexcept:
        """Call a disk. What it raises besides OSErrors is raised where the outcome is collected."""
        if self.raised is not None:
            return EIO
        try:
            operation(*arguments)
        except OSError as error:
            return error.errno or EIO
        except BaseException as raised:
            self.raised = raised
            return EIO
        return 0

    cdef int pass_on(self) except -1:
        """Raise what a disk has raised, and forget it: its traceback holds all that the callers have."""
        raised, self.raised = self.raised, None
        if raised is not None:
            raise raised
        return 0

    # --- its master --------------------------------------------------------------------------------------------

    cdef int give(self, Buffer *group) except -1:
        """Seal a group, which has room for the seal in front, and have it written and synced; the buffer is empty then.

        What is in the inbox is all that will not be on disk before the group is written.
        """
        cdef bint idle
        pthread_mutex_lock(&self.lock)
        put_seal(group.data, group.size - SEAL_SIZE, self.inbox.size)
        try:
            if self.inbox.size:
                append(&self.inbox, group.data, group.size)
                self.inbox.units += group.units
            else:
                self.inbox, group[0] = group[0], self.inbox
            empty(group)
            idle = not self.outcome.more and self.outcome.error == 0
            if idle:
                self.outcome.more = True
        finally:
            pthread_mutex_unlock(&self.lock)
        if idle and self.threaded:
            sem_post(&self.wake)
        return 0

    cdef int give_here(self, Buffer *group) except -1:
        """Seal, write and sync a group on this thread, while nothing is under way. The outcome can be collected."""
        put_seal(group.data, group.size - SEAL_SIZE, 0)
        group[0], self.writing = self.writing, group[0]
        self.here = True
        with nogil:
            self.write_and_sync()
        return self.pass_on()

    cdef int write_now(self, int file, Buffer *group) except -1:
        """Write at the end of a file on this thread, also while the file is synced; 0, or an errno."""
        cdef int error
        with nogil:
            error = self.write_end(file, group.data, group.size)
        self.pass_on()
        return error

    cdef int sync(self) except -1:
        """Have the file synced, into which nothing was given, while nothing else is under way."""
        self.outcome.more = True
        if self.threaded:
            sem_post(&self.wake)
        return 0

    cdef int await_outcome(self) except -1:
        """Return when there is an outcome; without a thread, work for it."""
        cdef pollfd done
        if self.here:
            self.here = False
            return 0
        if not self.threaded:
            if self.writing.size == 0:
                self.take_inbox()
            self.write_and_sync()
            return self.pass_on()
        done.fd = self.fileno
        done.events = POLLIN
        with nogil:
            while poll(&done, 1, -1) != 1:
                pass                    # a signal
        os.read(self.fileno, 1)         # an event loop that watches it calls only when there is something
        return 0

    cdef Outcome collect(self) except *:
        """Wait for an outcome, where there is none yet, and take it."""
        cdef Outcome outcome
        self.await_outcome()
        pthread_mutex_lock(&self.lock)
        self.finished = False
        outcome = self.outcome
        self.outcome.written = self.outcome.syncs = 0
        self.outcome.error = 0
        if not outcome.more and outcome.error == 0:
            empty(&self.writing)        # it does nothing now, and both are empty: a large one is given back
            empty(&self.inbox)
        pthread_mutex_unlock(&self.lock)
        return outcome

    cdef int take_back(self, Buffer *refused) except -1:
        """Take what it did not write, after the disk refused something."""
        refused[0], self.writing = self.writing, refused[0]
        try:
            append(refused, self.inbox.data, self.inbox.size)
        finally:
            empty(&self.inbox)          # where memory was too short: what comes after it must not be written behind it
        return 0

    cdef void forget(self) noexcept:
        """Drop what it did not write, because that is for a file which is no more; it has nothing to do."""
        empty(&self.writing)
        empty(&self.inbox)

    cdef list cumulated(self, const Histogram *seen, const uint64_t *bounds):
        """(bound, how many were at most that) for each bucket, and then (sum, how many there were)."""
        cdef Histogram copied
        cdef uint64_t below = 0
        cdef list rows = []
        cdef int bucket
        pthread_mutex_lock(&self.lock)
        copied = seen[0]
        pthread_mutex_unlock(&self.lock)
        for bucket in range(BUCKETS - 1):
            below += copied.counts[bucket]
            rows.append((bounds[bucket], below))
        rows.append((copied.total, below + copied.counts[BUCKETS - 1]))
        return rows

    def seen_sync_times(self) -> list:
        """The histogram of how long a write and its sync took, in nanoseconds; see `cumulated`."""
        return self.cumulated(&self.sync_times, TIME_BOUNDS)

    def seen_group_sizes(self) -> list:
        """The histogram of how many units one sync covered; see `cumulated`."""
        return self.cumulated(&self.group_sizes, SIZE_BOUNDS)

    def stop(self) -> None:
        """End the thread, once everything is collected."""
        if not self.threaded:
            return
        self.stopping = True
        sem_post(&self.wake)
        self.thread.join()
        close(self.fileno)
        close(self.signalled)
