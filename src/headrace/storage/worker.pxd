from libc.stdint cimport int64_t

from headrace.core.memory cimport byte_t

cdef extern from "<semaphore.h>" nogil:
    ctypedef struct sem_t:
        pass
    int sem_init(sem_t *semaphore, int shared, unsigned int value)
    int sem_post(sem_t *semaphore)
    int sem_wait(sem_t *semaphore)


cdef class Worker:
    cdef sem_t wake
    cdef bint stopping
    cdef int signalled                  # the pipe's end that the thread writes to …
    cdef readonly int fileno            # … and the one that can be read when a job is done
    cdef object thread
    # The job.
    cdef int file
    cdef const byte_t *data
    cdef size_t size
    cdef int64_t offset                 # where to write it; -1: at the end of the file
    cdef int64_t zeroed                 # the file has zeros from there to here …
    cdef int64_t to_zero                # … and is to have them up to here
    cdef bint sync
    # What became of it.
    cdef bint finished                  # it is done and not collected yet: seen without asking the system
    cdef int error                      # an errno; 0: done
    cdef bint sync_failed               # it was the sync that failed

    cdef int submit(self, int file, const byte_t *data, size_t size, bint sync) except -1
    cdef int submit_at(
        self, int file, const byte_t *data, size_t size, int64_t offset, int64_t zeroed, int64_t to_zero
    ) except -1
    cdef int collect(self) except -1
    cdef void work(self) noexcept nogil
    cdef int write_there(self) noexcept nogil


cdef int write_all(int file, const byte_t *data, size_t size) noexcept nogil
