"""A thread that writes and syncs while the event loop goes on.

    submit ─► write, fdatasync ─► `fileno` can be read ─► collect

One job at a time: bytes for the end of a file, or for a place in it that has zeros already. A sync of such a place need
not note that the file has grown, which takes the system a third of the time or more (see storage.journal).

The thread runs without Python's lock from its first job to its last, so that neither it nor the event loop ever waits
for the other.
"""

cimport cython
from libc.errno cimport EINTR, errno
from posix.unistd cimport close, write

from headrace.core.memory cimport byte_t
from headrace.storage.worker cimport sem_init, sem_post, sem_wait

import os
from threading import Thread

cdef extern from "<unistd.h>" nogil:
    int fdatasync(int file)
    Py_ssize_t pwrite(int file, const void *data, size_t size, int64_t offset)

cdef enum:
    ZEROS = 1 << 16

cdef byte_t[ZEROS] zeros

cdef extern from "<poll.h>" nogil:
    struct pollfd:
        int fd
        short events
    int poll(pollfd *files, unsigned long count, int timeout_ms)
    short POLLIN

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

    def __init__(self):
        sem_init(&self.wake, 0, 0)
        self.fileno, self.signalled = os.pipe()
        self.thread = Thread(target=self.run, name="headrace-sync", daemon=True)
        self.thread.start()

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
            self.sync_failed = False
            self.error = write_all(self.file, self.data, self.size) if self.offset < 0 else self.write_there()
            if self.error == 0 and self.sync:
                if fdatasync(self.file) != 0:
                    self.error = errno
                    self.sync_failed = True
            self.finished = True
            write(self.signalled, b"!", 1)

    cdef int write_there(self) noexcept nogil:
        """Write where there are zeros, after more of them where there are not enough and the disk has room for them."""
        cdef size_t some
        while self.zeroed < self.to_zero:
            some = min(<size_t>(self.to_zero - self.zeroed), <size_t>ZEROS)
            if write_all_at(self.file, zeros, some, self.zeroed) != 0:
                break
            self.zeroed += <int64_t>some
        return write_all_at(self.file, self.data, self.size, self.offset)

    cdef int submit(self, int file, const byte_t *data, size_t size, bint sync) except -1:
        """Begin a job; its bytes must stay where they are until it is collected."""
        self.file = file
        self.data = data
        self.size = size
        self.offset = -1
        self.sync = sync
        sem_post(&self.wake)
        return 0

    cdef int submit_at(
        self, int file, const byte_t *data, size_t size, int64_t offset, int64_t zeroed, int64_t to_zero
    ) except -1:
        """The same for a place in the file, with a sync; the file must not be open for appending only."""
        self.file = file
        self.data = data
        self.size = size
        self.offset = offset
        self.zeroed = zeroed
        self.to_zero = to_zero
        self.sync = True
        sem_post(&self.wake)
        return 0

    cdef int collect(self) except -1:
        """Wait for the job to be done, where it is not yet, and take its result: `error` and `sync_failed`."""
        cdef pollfd done
        done.fd = self.fileno
        done.events = POLLIN
        with nogil:
            while poll(&done, 1, -1) != 1:
                pass                    # a signal
        self.finished = False
        os.read(self.fileno, 1)         # an event loop that watches it lets nobody wait in here
        return 0

    def stop(self) -> None:
        """End the thread, once its job is collected."""
        self.stopping = True
        sem_post(&self.wake)
        self.thread.join()
        close(self.fileno)
        close(self.signalled)
