# cython: nonecheck=True
"""One client's connection: bytes in, commands run, bytes out, in one call of the event loop.

    socket ─► RequestParser ─► engine.execute, for every complete request ─► replies of all, one write

The parser's own buffer takes what the socket has (asyncio.BufferedProtocol), and the replies of a batch leave together,
once the event loop has read from every client that has sent something: a peer that is busy reading one reply need not
be woken for the next.
A client that is blocked or paused keeps its later requests in the parser until `resume`.

Replies that tell of effects which are not on disk yet are held by the journal until they are (see storage.journal).

A client that does not read its replies is bounded: beyond `client-output-buffer-limit` it is disconnected. That costs
nothing while a client reads: only once the event loop says that its replies pile up are they measured.

A stranger, who has not logged in where that is asked for, gets kilobytes: while it waits or does not read, nothing more
is read from it, and the network holds back what it sends.
"""

from libc.stdint cimport int64_t, uint64_t

from headrace.core.memory cimport byte_t
from headrace.engine.client cimport Client
from headrace.engine.engine cimport Engine
from headrace.protocol.reply cimport ReplyWriter
from headrace.protocol.request cimport RequestParser
from headrace.storage.journal cimport Journal

import os

from headrace.engine.channel import ChannelFigures
from headrace.protocol.errors import ProtocolError

cdef extern from "<sys/socket.h>" nogil:
    Py_ssize_t send(int socket, const void *data, size_t size, int flags)
    int MSG_DONTWAIT
    int MSG_NOSIGNAL

cdef enum:
    FLUSHED_EARLY = 1 << 18     # replies of a batch that are not kept until its end, so that the limit sees them
    HIGH_WATER = 1 << 16        # unsent replies from which on a client is slow, unless a limit is smaller
    HELD_MOST = 1 << 20         # replies that wait for the disk, from which on its requests wait, too
    STRANGER_MOST = 1 << 14     # requests, or replies, of a client that has not logged in, from which on it is not read


cdef class Limits:
    """What a connection may use. One object for all connections of a server: a change takes effect at once."""

    cdef public uint64_t query_buffer       # bytes
    cdef public uint64_t bulk               # bytes
    cdef public uint64_t output_hard        # bytes; 0: any
    cdef public uint64_t output_soft        # bytes; 0: any
    cdef public int64_t output_soft_ms      # how long more than `output_soft` is borne
    cdef public uint64_t pubsub_hard        # the same three for those who listen to channels
    cdef public uint64_t pubsub_soft
    cdef public int64_t pubsub_soft_ms


cdef class Connection:
    """An asyncio.BufferedProtocol; `host` is the server, which is told who comes and goes."""

    cdef Engine engine
    cdef object host
    cdef object transport
    cdef Limits limits
    cdef Journal journal
    cdef RequestParser parser
    cdef readonly Client client         # None: refused
    cdef bint processing                # inside `process`: what it leaves will be flushed by the batch
    cdef int socket                     # where short replies go without the event loop's help; -1: nowhere
    cdef bint queued                    # the event loop may still have some to send
    cdef uint64_t sent                  # bytes
    cdef uint64_t held                  # bytes that the journal holds
    cdef bint stalled                   # requests wait for the disk
    cdef bint reading_stopped           # the event loop was told to read nothing
    cdef bint disowned                  # the end: what was held was never sent
    cdef bint broken                    # a protocol error, or the end: no more requests are taken
    cdef bint congested                 # replies pile up
    cdef int64_t soft_since             # ms of the steady clock since when they exceed the soft limit; 0: they do not

    def __init__(self, engine: Engine, journal: Journal, host, limits: Limits):
        self.engine = engine
        self.journal = journal
        self.host = host
        self.limits = limits
        self.parser = RequestParser()
        self.parser.max_bulk = limits.bulk

    # --- the event loop's side ---------------------------------------------------------------------------------

    def connection_made(self, transport) -> None:
        self.transport = transport
        refusal = self.host.refusal(transport)
        if refusal is not None:
            self.broken = True
            transport.write(refusal)
            transport.close()
            return
        self.client = self.engine.connect(self)
        self.parser.trusted = self.client.authenticated
        self.socket = -1 if transport.get_extra_info("sslcontext") else self.descriptor()
        self.host.welcome(self, transport)

    def connection_lost(self, exc) -> None:
        self.broken = True
        if self.client is not None:
            self.engine.disconnect(self.client)
            self.host.farewell(self)
        self.transport = None
        self.parser.drop()              # now, not when somebody's last reference to this object goes

    def get_buffer(self, sizehint: int):
        return self.parser.space(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        cdef Client client = self.client
        self.parser.received(nbytes)
        if client is None:
            return
        self.engine.stats.bytes_in += nbytes
        client.active_ms = self.engine.steady_now_ms
        if self.parser.buffered() + client.queued_bytes > self.limits.query_buffer:
            self.break_off()
            self.host.sent_too_much(client)
            return
        if client.wait is None and client.postponed is None:
            self.process()
            if self.journal.must_hold():
                self.engine.flush_clients()         # into the journal's hands, each as far as it has come
                if self.journal.has_news():
                    self.journal.completed()
                if self.journal.is_ripe(self.engine.clock_ns):
                    self.journal.commit()
            elif not self.engine.flush_due:
                self.engine.flush_due = True
                self.host.flush_soon()
        elif not client.authenticated and self.parser.buffered() > STRANGER_MOST:
            self.stop_reading()

    def eof_received(self) -> bool:
        """Nothing more comes; what is held still goes out, and then the connection ends."""
        self.engine.flush_clients()
        if self.held and not self.disowned:
            self.client.closing = True
            return True
        return False

    def pause_writing(self) -> None:
        """The peer reads slowly: from now on measure what it leaves."""
        self.congested = True
        self.host.congested(self)

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self.congested = False
        self.soft_since = 0
        self.host.relieved(self)
        self.resume()

    # --- requests ----------------------------------------------------------------------------------------------

    cdef int process(self) except -1:
        """Run every complete request, until one blocks or the replies grow long.

        Then the event loop gets its turn: it writes, and finds out whether the peer reads, before more is replied.
        """
        cdef Client client = self.client
        cdef list argv
        if self.processing:
            return 0
        self.processing = True
        self.engine.read_clocks()
        self.follow_login()
        try:
            while not self.broken and client.wait is None and client.postponed is None and not client.closing:
                if self.held > (HELD_MOST if client.authenticated else STRANGER_MOST) or self.journal.is_full():
                    self.stall()
                    break
                if self.congested and not client.authenticated:
                    self.stop_reading()
                    break
                argv = self.parser.next()
                if argv is None:
                    self.read_again()
                    break
                self.engine.execute_next(client, argv)
                argv = None             # so that the parser may use the list again
                if client.authenticated != self.parser.trusted:
                    self.follow_login()
                if client.reply.written() > (FLUSHED_EARLY if client.authenticated else STRANGER_MOST) \
                        and client.postponed is None:
                    if not client.authenticated:
                        self.stop_reading()         # until what it has sent was run
                    self.flush()
                    self.host.soon(self.run_waiting)
                    break
        except ProtocolError as error:
            self.broken = True
            client.reply.error(error.text)
            client.closing = True
            self.engine.note_unflushed(client)
        except MemoryError:
            argv = None
            self.parser.drop()          # first of all: what follows needs memory, too
            if self.transport is not None:
                self.break_off()
                self.host.could_not_hold(client)
        finally:
            self.processing = False
        return 0

    cdef int follow_login(self) except -1:
        """Give the client the limits of who it is by now."""
        if self.client.authenticated != self.parser.trusted:
            self.parser.trusted = self.client.authenticated
            self.set_high_water()
        return 0

    cdef int stop_reading(self) except -1:
        if not self.reading_stopped and self.transport is not None and not self.transport.is_closing():
            self.reading_stopped = True
            self.transport.pause_reading()
        return 0

    cdef int read_again(self) except -1:
        """Read what comes, unless there is still a reason not to."""
        if self.reading_stopped and not self.stalled and self.transport is not None \
                and not self.transport.is_closing() and not (self.congested and not self.client.authenticated):
            self.reading_stopped = False
            self.transport.resume_reading()
        return 0

    # --- the engine's side -------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send what was replied, or have it held until the disk has what it tells of."""
        cdef ReplyWriter reply = self.client.reply
        cdef size_t size = reply.written()
        if self.transport is None or self.disowned:
            reply.take()
            return
        if size:
            self.engine.stats.bytes_out += size
            if self.journal.must_hold():
                self.held += size
                self.journal.hold(self, reply.take())
                return
            self.sent += size
            if not self.send_straight(reply):
                self.queued = True
                for chunk in reply.take():
                    self.transport.write(chunk)
            if self.congested and not self.bear_congestion():
                return
        if self.client.closing and not self.held:
            self.broken = True
            self.transport.close()

    cdef bint send_straight(self, ReplyWriter reply) except -1:
        """Send a short reply from where it was written; False: not a byte of it was sent.

        The event loop's own way takes a copy, a queue and some 2,000 instructions: without them an XADD at pipeline 1
        takes 7 % less of the processor.
        """
        if reply.chunked or reply.open_headers or not self.send_now(reply.data, reply.size):
            return False
        reply.clear()
        return True

    cdef bint send_now(self, const byte_t *data, size_t size) except -1:
        """Send bytes unless the peer is slow, or there are others to be sent before them; False: not one was sent."""
        cdef Py_ssize_t sent
        if self.socket < 0:
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

    def release(self, list chunks) -> None:
        """Send what was held."""
        cdef size_t size = 0
        if self.transport is None:
            return
        for chunk in chunks:
            size += len(chunk)
            if not self.send_now(<bytes>chunk, len(chunk)):
                self.queued = True
                self.transport.write(chunk)
        self.held -= size
        self.sent += size
        if self.congested and not self.bear_congestion():
            return
        if self.client.closing and not self.held:
            self.broken = True
            self.transport.close()

    def disown(self, error: int) -> None:
        """Say that nobody knows whether what was held will last, and end: later replies would answer other requests."""
        if self.transport is None or self.transport.is_closing():
            return
        self.broken = self.disowned = True
        self.transport.write(
            b"-MISCONF The disk refused what was written (%s): whether this write lasts is not known.\r\n"
            % os.strerror(error).encode()
        )
        self.transport.close()

    cdef int stall(self) except -1:
        """Read and run no more requests until the disk has taken something."""
        if not self.stalled and self.transport is not None and not self.transport.is_closing():
            self.stalled = True
            self.stop_reading()
            self.journal.await_room(self)
        return 0

    def go_on(self) -> None:
        """The disk has taken something: try again."""
        self.stalled = False
        if self.transport is not None and not self.transport.is_closing():
            self.resume()

    def resume(self) -> None:
        """Go on with the requests that arrived while the client was blocked, and read more."""
        if self.client.authenticated or not self.parser.buffered():
            self.read_again()
        if self.parser.buffered():
            self.host.soon(self.run_waiting)

    def run_waiting(self) -> None:
        if not self.broken and self.client.wait is None and self.client.postponed is None:
            self.process()
            self.engine.flush_clients()

    def close(self) -> None:
        """End the connection once what was replied has left."""
        self.broken = True
        self.flush()
        if self.transport is not None:
            self.transport.close()

    def figures(self) -> ChannelFigures:
        """Say what CLIENT LIST shows of the connection."""
        cdef RequestParser parser = self.parser
        waiting = self.held + (self.transport.get_write_buffer_size() if self.transport is not None else 0)
        return ChannelFigures(
            self.descriptor(), parser.buffered(), parser.capacity - parser.end + parser.begin, waiting,
            parser.arrived, self.sent,
        )

    cdef int descriptor(self) except -2:
        opened = self.transport.get_extra_info("socket") if self.transport is not None else None
        return opened.fileno() if opened is not None else -1

    # --- the server's side -------------------------------------------------------------------------------------

    def bear_congestion(self) -> bool:
        """Disconnect a client that has left too much unread, or for too long; False where that was so."""
        cdef uint64_t unread
        cdef uint64_t hard = self.limits.output_hard
        cdef uint64_t soft = self.limits.output_soft
        cdef int64_t soft_ms = self.limits.output_soft_ms
        cdef bint too_much = False
        if self.transport is None:
            return False
        if self.client.subscribed:
            hard, soft, soft_ms = self.limits.pubsub_hard, self.limits.pubsub_soft, self.limits.pubsub_soft_ms
        unread = self.transport.get_write_buffer_size()
        if soft and unread > soft:
            if not self.soft_since:
                self.soft_since = self.engine.steady_now_ms
            too_much = self.engine.steady_now_ms - self.soft_since > soft_ms
        else:
            self.soft_since = 0
        if too_much or (hard and unread > hard):
            self.break_off()
            self.host.left_too_much(self.client)
            return False
        return True

    def take_limits(self) -> None:
        """Follow a change of the limits."""
        self.parser.max_bulk = self.limits.bulk
        self.set_high_water()

    def set_high_water(self) -> None:
        """Have the event loop say when replies pile up, in time for the smallest limit."""
        cdef uint64_t high = HIGH_WATER if self.client.authenticated else STRANGER_MOST
        for limit in (
            self.limits.output_hard, self.limits.output_soft, self.limits.pubsub_hard, self.limits.pubsub_soft,
        ):
            if limit:
                high = min(high, limit)
        if self.transport is not None:
            self.transport.set_write_buffer_limits(high)

    cdef int break_off(self) except -1:
        """End the connection now, whatever it was sent or still has to read."""
        self.broken = True
        self.transport.abort()
        self.transport = None           # a tick before connection_lost must not find it congested again, and count it
        return 0
