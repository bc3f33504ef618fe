# cython: nonecheck=True
"""Repeating effects: the way in for what was written before, while everybody else is told that data is loading.

A replayer runs commands as one client that is not refused anything, does not count in the statistics, and whose replies
nobody reads. It follows SELECT and MULTI … EXEC as that client would.
"""

cimport cython

from headrace.engine.engine cimport Engine


@cython.final
cdef class Replayer:
    """Replays effects on an engine, from `begin_loading` to `end_loading` of it."""

    def __cinit__(self, Engine engine not None):
        self.engine = engine
        self.client = engine.begin_loading()

    cpdef bytes run(self, list argv):
        """Run one command; the text of the error that it answered, or None."""
        cdef bytes error = None
        if not argv:
            return None
        self.engine.read_clocks()
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
