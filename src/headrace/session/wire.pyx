"""The wire of a session: what carries its bytes to the client, and may be slow, full or gone.

A server's wire is a socket with the event loop behind it (`headrace.server.connection`), with or without TLS. In
process it is a list that the program reads (`headrace.embedded.local_connection`). The class here carries nothing: a
session has such a wire once it has ended.
"""


cdef class Wire:
    """See the module."""

    cdef bint is_closed(self) except -1:
        """Whether nothing more can be sent: it is being closed, or gone."""
        return True

    cdef int send_reply(self, ReplyWriter reply) except -1:
        """Send what a writer has, and empty it."""
        reply.take()
        return 0

    cdef int send(self, list chunks) except -1:
        """Send bytes."""
        return 0

    cdef uint64_t unsent(self) except? 0xffffffffffffffff:
        """How many bytes the client has not taken yet."""
        return 0

    cdef int descriptor(self) except -2:
        """The descriptor of the socket; -1: there is none."""
        return -1

    cdef int pause_reading(self) except -1:
        """Read nothing more from the client, so that the network holds back what it sends."""
        return 0

    cdef int resume_reading(self) except -1:
        """Read again."""
        return 0

    cdef int close(self) except -1:
        """End once everything that was sent has left."""
        return 0

    cdef int disconnect(self, Reason reason) except -1:
        """End now, whatever was sent and not taken yet, and report why."""
        return 0

    cdef int call_soon(self, object callback) except -1:
        """Call back in a moment, after what happens now."""
        return 0

    cdef int flush_soon(self) except -1:
        """Have the engine flush all clients once everything that has arrived was read."""
        return 0

    cdef int notify_above(self, uint64_t size) except -1:
        """Tell the session that its client is slow when more than so many bytes are unsent."""
        return 0
