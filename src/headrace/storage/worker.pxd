from libc.stdint cimport int64_t, uint64_t

from headrace.core.memory cimport byte_t

cdef extern from "<semaphore.h>" nogil:
    ctypedef struct sem_t:
        pass
    int sem_init(sem_t *semaphore, int shared, unsigned int value)
    int sem_post(sem_t *semaphore)
    int sem_wait(sem_t *semaphore)

cdef extern from "<pthread.h>" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    int pthread_mutex_init(pthread_mutex_t *mutex, void *attributes)
    int pthread_mutex_lock(pthread_mutex_t *mutex)
    int pthread_mutex_unlock(pthread_mutex_t *mutex)


cdef struct Buffer:
    byte_t *data
    size_t size
    size_t capacity
    uint64_t units                      # commands and transactions whose effects it has


cdef enum:
    BUCKETS = 17


# How often something was seen, by its size; the bounds are in the module.
cdef struct Histogram:
    uint64_t[BUCKETS] counts            # the last is for what is beyond all bounds
    uint64_t total                      # of all that was seen


# Where groups go, and how. While the worker works it belongs to the worker, else to the journal.
cdef struct Target:
    int file
    bint in_place                       # groups are written at `end`, where zeros are; else they are appended
    int64_t end
    int64_t zeroed                      # the file has zeros from `end` up to here
    int64_t room                        # how many zeros are written at a time


# What became of what was given, since somebody last asked.
cdef struct Outcome:
    uint64_t written                    # bytes that the system has; without an error, the disk has them
    uint64_t syncs
    int error                           # an errno; 0: none
    bint sync_failed                    # it was the sync that failed
    bint more                           # it goes on: another outcome will come
    uint64_t took                       # nanoseconds that the last group needed


cdef class Worker:
    cdef sem_t wake
    cdef pthread_mutex_t lock           # of `inbox`, `finished`, `outcome` and the histograms
    cdef bint stopping
    cdef int signalled                  # the pipe's end that the thread writes to …
    cdef readonly int fileno            # … and the one that can be read when there is an outcome
    cdef object thread
    cdef object disk                    # what is called in place of the system; None: there is a thread
    cdef bint threaded
    cdef bint here                      # its master's own thread has worked: nobody need be told
    cdef object raised                  # by the disk, and not an OSError
    cdef Target target
    cdef Buffer inbox                   # sealed groups that are not being written yet
    cdef Buffer writing                 # those that are written now, or that the disk refused
    cdef bint finished                  # there is an outcome: seen without asking the system
    cdef Outcome outcome
    cdef Histogram sync_times           # nanoseconds of a write and its sync; `lock` is its lock, too
    cdef Histogram group_sizes          # units that one sync covered

    cdef int give(self, Buffer *group) except -1
    cdef int give_here(self, Buffer *group) except -1
    cdef int write_now(self, int file, Buffer *group) except -1
    cdef int sync(self) except -1
    cdef Outcome collect(self) except *
    cdef int take_back(self, Buffer *refused) except -1
    cdef void forget(self) noexcept
    cdef void work(self) noexcept nogil
    cdef void take_inbox(self) noexcept nogil
    cdef bint write_and_sync(self) noexcept nogil
    cdef int put_down(self) noexcept nogil
    cdef int await_outcome(self) except -1
    cdef int write_end(self, int file, const byte_t *data, size_t size) noexcept nogil
    cdef int write_place(self, const byte_t *data, size_t size, int64_t offset) noexcept nogil
    cdef int sync_file(self) noexcept nogil
    cdef int call_disk(self, object operation, tuple arguments) noexcept
    cdef int pass_on(self) except -1
    cdef list cumulated(self, const Histogram *seen, const uint64_t *bounds)
    cdef bint tell(self, int error, bint sync_failed, uint64_t took) noexcept nogil


cdef int append(Buffer *buffer, const byte_t *data, size_t size) except -1
cdef void empty(Buffer *buffer) noexcept
