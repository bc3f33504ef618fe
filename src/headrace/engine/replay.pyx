# cython: nonecheck=True
"""Repeating effects: the way in for what was written before, while everybody else is told that data is loading.

A replayer runs commands as one client that is not refused anything, does not count in the statistics, and whose replies
nobody reads. It follows SELECT and MULTI … EXEC as that client would.
"""

cimport cython

from headrace.engine.engine cimport Engine
from headrace.formats.aof cimport AofReader


@cython.final
cdef class Replayer:
    """Replays effects on an engine, from `begin_loading` to `end_loading` of it."""

    def __cinit__(self, Engine engine not None):
        self.engine = engine
        self.client = engine.begin_loading()

    cpdef bytes run(self, list argv):
        """Run one command; the text of the error that it answered, or None."""
        self.engine.read_clocks()
        return self.run_now(argv) if argv else None

    cpdef Py_ssize_t run_many(self, AofReader reader, Py_ssize_t most) except -1:
        """Run up to so many commands of a reader, all at one moment; how many it were.

        It are fewer where the reader has no more, and behind one that answers an error: then there is an `error`, and
        `refused` is that command.
        """
        cdef Py_ssize_t count = 0
        cdef list argv
        self.engine.read_clocks()
        self.error = None
        while count < most:
            argv = reader.next()
            if argv is None:
                break
            count += 1
            self.error = self.run_now(argv)
            if self.error is not None:
                self.refused = argv
                break
        return count

    cdef bytes run_now(self, list argv):
        cdef bytes error = None
        self.engine.dispatch(self.client, argv)
        if self.client.reply.errors:
            error = first_error(b"".join(self.client.reply.take()))
            self.client.reply.errors = 0
        self.client.reply.rewind(0)
        return error

    @property
    def in_transaction(self) -> bool:
        """Whether a MULTI still waits for its EXEC."""
        return self.client.queue is not None

    def end(self) -> None:
        """Stop; a transaction that was not ended has not happened."""
        self.client.discard_transaction()
        self.engine.end_loading()


cdef bytes first_error(bytes reply):
    """The text of the first error in a reply: the reply itself, or an element of what EXEC answered."""
    for line in reply.split(b"\r\n"):
        if line.startswith(b"-"):
            return line[1:]
    return reply
