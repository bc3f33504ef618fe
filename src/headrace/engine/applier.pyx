# cython: nonecheck=True
"""The applier: repeats effects on an engine, from whatever source gives them.

It runs commands as one client that is refused nothing and decides nothing: limits, permissions and the clock were asked
when the effects came to be. What it does is not an effect again, does not count in the statistics, and its replies go
nowhere. It follows SELECT and MULTI … EXEC as that client would.

The engine serves clients between two runs, unless it was told that data is loading. The time at which
effects are applied, for the few of Redis's that tell of none, is given to the applier: it reads no clock.
"""

cimport cython

from headrace.engine.blocking.waking cimport serve_waiting
from headrace.engine.client cimport Client
from headrace.engine.engine cimport Engine


@cython.final
cdef class Applier:
    """See the module."""

    def __cinit__(self, Engine engine not None, int64_t now_ms):
        self.engine = engine
        self.now_ms = now_ms
        self.client = Client(0, engine.databases[0], None, 0)
        self.client.authenticated = True

    cpdef bytes run(self, list argv):
        """Run one command; the text of the error that it answered, or None."""
        if not argv:
            return None
        self.begin()
        try:
            return self.run_now(argv)
        finally:
            self.end_run()

    cpdef Py_ssize_t run_many(self, CommandSource source, Py_ssize_t most) except -1:
        """Run up to so many commands of a source; returns how many were run.

        Fewer are run where the source has no more, and after one that answers an error: then `error` is what it
        answered, and `refused` is that command.
        """
        cdef Py_ssize_t count = 0
        cdef list argv
        self.error = None
        self.begin()
        try:
            while count < most:
                argv = source.next()
                if argv is None:
                    break
                count += 1
                self.error = self.run_now(argv)
                if self.error is not None:
                    self.refused = argv
                    break
                argv = None             # so that the source may use the list again
        finally:
            self.end_run()
        return count

    cdef int begin(self) except -1:
        self.engine.applying = True
        self.engine.clocks.now_ms = self.now_ms
        self.engine.effects.pause()
        return 0

    cdef int end_run(self) except -1:
        self.engine.effects.resume()
        self.engine.applying = False
        return 0

    cdef bytes run_now(self, list argv):
        cdef bytes error = None
        self.engine.apply(self.client, argv)
        if self.client.reply.errors:
            error = first_error(b"".join(self.client.reply.take()))
            self.client.reply.errors = 0
        self.client.reply.rewind(0)
        return error

    def serve_clients(self) -> None:
        """Let clients see what was done: those that listen, and those that wait for a key."""
        if self.engine.outbox.behind:
            self.engine.send_messages()
        serve_waiting(self.engine)
        self.engine.flush_clients()

    @property
    def in_transaction(self) -> bool:
        """Whether a MULTI still waits for its EXEC."""
        return self.client.queue is not None

    @property
    def database(self) -> int:
        """The number of the database that is selected."""
        return self.client.db.number

    def end(self) -> None:
        """Stop; a transaction that was not ended has not happened."""
        self.client.discard_transaction()


cdef bytes first_error(bytes reply):
    """The text of the first error in a reply: the reply itself, or an element of what EXEC answered."""
    for line in reply.split(b"\r\n"):
        if line.startswith(b"-"):
            return line[1:]
    return reply
