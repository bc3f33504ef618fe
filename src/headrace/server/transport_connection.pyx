# cython: nonecheck=True
"""A connection over a transport of the event loop, which encrypts and decrypts: that of a client of the TLS port.

    transport ─► the parser's own buffer ─► session: every complete request ─► replies of all, one write ─► transport
"""

from libc.stdint cimport uint64_t

from headrace.protocol.reply cimport ReplyWriter
from headrace.server.connection cimport Connection
from headrace.session.session cimport Session
from headrace.session.wire cimport Reason


cdef class TransportConnection(Connection):
    """An asyncio.BufferedProtocol."""

    cdef object transport               # None: it is gone

    # --- what the event loop calls -----------------------------------------------------------------------------

    def connection_made(self, transport) -> None:
        self.transport = transport
        peer = transport.get_extra_info("peername")
        refusal = self.host.refusal(peer, secure=transport.get_extra_info("sslcontext") is not None)
        if refusal is not None:
            transport.write(refusal)
            transport.close()
            return
        self.begin()
        self.host.welcome(self, transport.get_extra_info("socket"), peer, transport.get_extra_info("sockname"))
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
        return self.send(reply.take())

    cdef int send(self, list chunks) except -1:
        if self.transport is not None:
            for chunk in chunks:
                self.transport.write(chunk)
        return 0

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
        if self.transport is not None:
            self.transport.abort()
            self.transport = None
            self.report(reason)
        return 0

    cdef int notify_above(self, uint64_t size) except -1:
        if self.transport is not None:
            self.transport.set_write_buffer_limits(size)
        return 0

    # --- what the server calls ---------------------------------------------------------------------------------

    def abort(self) -> None:
        """End the connection now, whatever was sent and not taken yet."""
        if self.transport is not None:
            self.transport.abort()
