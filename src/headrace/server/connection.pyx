# cython: nonecheck=True
"""A client's connection to the server: a socket, with or without TLS, that carries the bytes of a session.

    socket ─► the parser's own buffer ─► session: every complete request ─► replies of all, one write ─► socket

The parser's own buffer takes what the socket has (asyncio.BufferedProtocol), and the replies of a turn leave together,
once the event loop has read from every client that has sent something: a peer that is busy reading one reply need not
be woken for the next.
"""

from libc.stdint cimport uint64_t

from headrace.core.memory cimport byte_t
from headrace.engine.client cimport Client
from headrace.engine.engine cimport Engine
from headrace.protocol.reply cimport ReplyWriter
from headrace.session.session cimport Limits, Session
from headrace.session.wire cimport FILE_UNREADABLE, FILE_UNTAKEN, NO_MEMORY, OUTPUT_LIMIT, Reason, Wire
from headrace.storage.journal cimport Journal

cdef extern from "<sys/socket.h>" nogil:
    Py_ssize_t send(int socket, const void *data, size_t size, int flags)
    int MSG_DONTWAIT
    int MSG_NOSIGNAL


cdef class Connection(Wire):
    """An asyncio.BufferedProtocol; `host` is the server, which is told of connections that begin and end."""

    cdef Engine engine
    cdef Journal journal
    cdef Limits limits
    cdef object host
    cdef object transport               # None: it is gone
    cdef Session session                # None: the server refused the connection
    cdef int socket                     # where short replies go without the event loop's help; -1: nowhere
    cdef bint queued                    # the event loop may still have some to send

    def __init__(self, engine: Engine, journal: Journal, host, limits: Limits):
        self.engine = engine
        self.journal = journal
        self.host = host
        self.limits = limits

    @property
    def client(self) -> Client:
        """The engine's client of this connection."""
        return self.session.client

    # --- what the event loop calls -----------------------------------------------------------------------------

    def connection_made(self, transport) -> None:
        self.transport = transport
        refusal = self.host.refusal(transport)
        if refusal is not None:
            transport.write(refusal)
            transport.close()
            return
        self.session = Session(self.engine, self.journal, self, self.limits)
        self.socket = -1 if transport.get_extra_info("sslcontext") else self.descriptor()
        self.host.welcome(self, transport)
        self.session.set_high_water()

    def connection_lost(self, exc) -> None:
        self.transport = None
        if self.session is not None:
            self.session.end()
            self.host.farewell(self)

    def get_buffer(self, sizehint: int):
        if self.session is None:
            return bytearray(1024)      # of a connection that was refused: it is not read
        return self.session.parser.space(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        cdef Session session = self.session
        if session is not None:
            session.parser.received(nbytes)
            session.received(nbytes)

    def eof_received(self) -> bool:
        """Nothing more comes. What came before still runs, what is held goes out, and then the connection ends."""
        return self.session is not None and self.session.end_requests()

    def pause_writing(self) -> None:
        """The peer reads slowly: from now on measure what it leaves."""
        if self.session is not None:
            self.session.set_congested(True)
            self.host.congested(self)

    def resume_writing(self) -> None:
        """The peer has caught up."""
        if self.session is not None:
            self.host.relieved(self)
            self.session.set_congested(False)

    # --- what the session calls --------------------------------------------------------------------------------

    cdef bint is_closed(self) except -1:
        return self.transport is None or self.transport.is_closing()

    cdef int send_reply(self, ReplyWriter reply) except -1:
        """Send a short reply from where it was written.

        The event loop's own way takes a copy, a queue and some 2,000 instructions: without them an XADD at pipeline 1
        takes 7 % less of the processor.
        """
        if not reply.chunked and not reply.open_headers and self.send_now(reply.data, reply.size):
            reply.clear()
            return 0
        return self.send_chunks(reply.take())

    cdef int send(self, list chunks) except -1:
        for chunk in chunks:
            if not self.send_now(<bytes>chunk, len(chunk)):
                self.send_chunks([chunk])
        return 0

    cdef int send_chunks(self, list chunks) except -1:
        """Have the event loop send."""
        if self.transport is not None:
            self.queued = True
            for chunk in chunks:
                self.transport.write(chunk)
        return 0

    cdef bint send_now(self, const byte_t *data, size_t size) except -1:
        """Send bytes unless the peer is slow, or there are others to be sent before them; False: not one was sent."""
        cdef Py_ssize_t sent
        if self.socket < 0 or self.transport is None:
            return False
        if self.queued:
            if self.transport.get_write_buffer_size():
                return False
            self.queued = False
        if self.transport.is_closing():
            return False                # the descriptor may be somebody else's by now
        sent = send(self.socket, data, size, MSG_DONTWAIT | MSG_NOSIGNAL)
        if sent <= 0:
            return False                # what is wrong, the event loop will find out
        if <size_t>sent < size:
            self.queued = True
            self.transport.write((<const char *>data)[sent:size])
        return True

    cdef uint64_t unsent(self) except? 0xffffffffffffffff:
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    cdef int descriptor(self) except -2:
        opened = self.transport.get_extra_info("socket") if self.transport is not None else None
        return opened.fileno() if opened is not None else -1

    cdef int pause_reading(self) except -1:
        self.transport.pause_reading()
        return 0

    cdef int resume_reading(self) except -1:
        self.transport.resume_reading()
        return 0

    cdef int close(self) except -1:
        if self.transport is not None:
            self.transport.close()
        return 0

    cdef int disconnect(self, Reason reason) except -1:
        if self.transport is None:
            return 0
        self.transport.abort()
        self.transport = None
        if reason == OUTPUT_LIMIT:
            self.host.left_too_much(self.session.client)
        elif reason == NO_MEMORY:
            self.host.could_not_hold(self.session.client)
        elif reason == FILE_UNREADABLE:
            self.host.could_not_read(self.session.client)
        elif reason == FILE_UNTAKEN:
            self.host.took_nothing(self.session.client)
        else:
            self.host.sent_too_much(self.session.client)
        return 0

    cdef int call_soon(self, object callback) except -1:
        self.host.soon(callback)
        return 0

    cdef int flush_soon(self) except -1:
        self.host.flush_soon()
        return 0

    cdef int notify_above(self, uint64_t size) except -1:
        if self.transport is not None:
            self.transport.set_write_buffer_limits(size)
        return 0

    # --- what the server calls ---------------------------------------------------------------------------------

    def check_output(self) -> None:
        """Disconnect a client that has left too much unread, or for too long."""
        if self.transport is not None:
            self.session.within_output_limits()

    def follow_limits(self) -> None:
        """Follow a change of the limits."""
        self.session.follow_limits()

    def close_after_replies(self) -> None:
        """End the connection once what was replied has left."""
        self.session.close()
