# cython: nonecheck=True
"""A session: what a client is to the engine, on a server and in process alike.

    wire ─► RequestParser ─► engine.execute_next, for every complete request ─► flush ─┬──────────────► wire
                                                                                       └─ journal ─► send ─► wire

The requests of a client run in their order. While one waits (it blocks, or CLIENT PAUSE holds it back), those behind it
stay in the parser until `resume`. The replies of a turn leave together, when the host flushes.

Replies that tell of effects which are not on disk yet are held by the journal until they are (see storage.journal).
Where the disk refuses these effects, the session fails.

A client that does not read its replies is bounded: beyond `client-output-buffer-limit` it is disconnected. That costs
nothing while a client reads: its replies are measured only once the wire says that they pile up.

A client that has not logged in, where that is asked for, gets kilobytes: while it waits or does not read, nothing more
is read from it, and the network holds back what it sends.
"""

cimport cython
from libc.stdint cimport uint64_t

from headrace.engine.client cimport REPLY_ON
from headrace.protocol.reply cimport ReplyWriter
from headrace.session.wire cimport FILE_UNREADABLE, FILE_UNTAKEN, NO_MEMORY, OUTPUT_LIMIT, QUERY_LIMIT

from headrace.engine.channel import ChannelFigures
from headrace.protocol.errors import ProtocolError

cdef enum:
    FLUSHED_EARLY = 1 << 18     # replies of a turn that are not kept until its end, so that the limit sees them
    HIGH_WATER = 1 << 16        # unsent replies from which on a client is slow, unless a limit is smaller
    HELD_MOST = 1 << 20         # replies that wait for the disk, from which on its requests wait, too
    FILE_PIECE = 1 << 17        # of a file that is sent, in one turn of the event loop
    STRANGER_MOST = 1 << 14     # requests, or replies, of a client that has not logged in, from which on it is not read

cdef Wire NO_WIRE = Wire()


cdef class Limits:
    """What a session may use. Sessions of one host share one object, so that a change takes effect at once."""

    def __cinit__(self):
        self.query_buffer = self.bulk = <uint64_t>-1


@cython.final
cdef class Session:
    """See the module; `headrace.engine.channel.Channel` names what the engine and the journal call."""

    def __init__(self, engine: Engine, journal: Journal, wire: Wire, limits: Limits, client: Client | None = None):
        """Begin a session for a client of the network, or for a given one, whose requests come as lists."""
        self.engine = engine
        self.journal = journal
        self.wire = wire
        self.limits = limits
        self.requests = []
        if client is not None:
            self.client = client
            client.channel = self
            return
        self.parser = RequestParser()
        self.parser.max_bulk = limits.bulk
        self.client = engine.connect(self)
        self.parser.trusted = self.client.authenticated

    # --- requests ----------------------------------------------------------------------------------------------

    cdef int received(self, Py_ssize_t size) except -1:
        """Run the requests that are complete now that so many bytes came into the parser's buffer."""
        cdef Client client = self.client
        self.engine.stats.bytes_in += size
        client.active_ms = self.engine.clocks.steady_now_ms
        if self.parser.buffered() + client.queued_bytes > self.limits.query_buffer:
            return self.disconnect(QUERY_LIMIT)
        if client.wait is None and client.postponed is None:
            self.process()
            if self.journal.must_hold(client.told):
                self.engine.flush_clients()         # into the journal's hands, each as far as it has come
                self.journal.end_batch(self.engine.clocks.last_ns)
            elif not self.engine.outbox.flush_due:
                self.engine.outbox.flush_due = True
                self.wire.flush_soon()
        elif not client.authenticated and self.parser.buffered() > STRANGER_MOST:
            self.pause_reading()
        return 0

    cdef int run(self, tuple requests) except -1:
        """Run requests that came as lists, behind those that have not run yet."""
        self.requests.extend(requests)
        return self.process()

    cdef int process(self) except -1:
        """Run every complete request, until one blocks or the replies grow long.

        Then the wire gets its turn: it sends, and finds out whether the client reads, before more is replied.
        """
        cdef Client client = self.client
        cdef list argv
        if self.processing:
            return 0
        self.processing = True
        self.engine.clocks.read()
        self.follow_login()
        try:
            while not self.broken and client.wait is None and client.postponed is None and not client.closing:
                if self.held > (HELD_MOST if client.authenticated else STRANGER_MOST) or self.journal.is_full():
                    self.stall()
                    break
                if self.congested and not client.authenticated:
                    self.pause_reading()
                    break
                argv = self.next_request()
                if argv is None:
                    if self.ended:
                        client.closing = True
                        self.engine.outbox.note(client)
                    else:
                        self.resume_reading()
                    break
                self.engine.execute_next(client, argv)
                argv = None             # so that the parser may use the list again
                self.follow_login()
                if client.reply.written() > (FLUSHED_EARLY if client.authenticated else STRANGER_MOST) \
                        and client.postponed is None:
                    if not client.authenticated:
                        self.pause_reading()        # until what it has sent was run
                    self.flush()
                    self.wire.call_soon(self.run_waiting)
                    break
        except ProtocolError as error:
            self.broken = True
            client.reply.error(error.text)
            client.closing = True
            self.engine.outbox.note(client)
        except MemoryError:
            argv = None
            if self.parser is not None:
                self.parser.drop()      # first of all: what follows needs memory, too
            self.disconnect(NO_MEMORY)
        finally:
            self.processing = False
        return 0

    cdef bint end_requests(self) except -1:
        """Nothing more comes: run what is complete, and then close; False: the session is over already.

        Requests that have come run although the client may have left, as on a redis-server: now, or when the disk has
        taken something. Behind one that blocks, they do not: no client is left that would wait.
        """
        cdef Client client = self.client
        self.ended = True
        if client.wait is None and client.postponed is None:
            self.process()
            self.engine.flush_clients()
            if not client.closing and client.wait is None and client.postponed is None:
                return True
        client.closing = True
        return self.has_more_to_send()

    cdef list next_request(self):
        """The next complete request, or None."""
        if self.parser is not None:
            return self.parser.next()
        return self.requests.pop(0) if self.requests else None

    cdef bint has_requests(self) noexcept:
        """Whether requests, or parts of one, have not run yet."""
        return self.parser.buffered() > 0 if self.parser is not None else bool(self.requests)

    cdef bint owes_nothing(self) noexcept:
        """Whether no request waits, and the next one finds the session as the first did."""
        cdef Client client = self.client
        return (
            not self.broken and not self.has_requests() and client.wait is None and client.postponed is None
            and client.queue is None and client.reply_mode == REPLY_ON and not client.subscribed
        )

    cdef int follow_login(self) except -1:
        """Give the client the limits of one that has logged in, or has not."""
        if self.parser is not None and self.client.authenticated != self.parser.trusted:
            self.parser.trusted = self.client.authenticated
            self.set_high_water()
        return 0

    cdef int pause_reading(self) except -1:
        if not self.reading_paused and not self.wire.is_closed():
            self.reading_paused = True
            self.wire.pause_reading()
        return 0

    cdef int resume_reading(self) except -1:
        """Read what comes, unless there is still a reason not to."""
        if self.reading_paused and not self.stalled and not (self.congested and not self.client.authenticated) \
                and not self.wire.is_closed():
            self.reading_paused = False
            self.wire.resume_reading()
        return 0

    cdef int stall(self) except -1:
        """Read and run no more requests until the disk has taken something."""
        if not self.stalled and not self.wire.is_closed():
            self.stalled = True
            self.pause_reading()
            self.journal.stall(self)
        return 0

    def resume_stalled(self) -> None:
        """Try again: the disk has taken something."""
        self.stalled = False
        if not self.wire.is_closed():
            self.resume()

    def resume(self) -> None:
        """Go on with the requests that arrived while the client was blocked, and read more."""
        if self.client.authenticated or not self.has_requests():
            self.resume_reading()
        if self.has_requests() or self.ended:
            self.wire.call_soon(self.run_waiting)

    def run_waiting(self) -> None:
        """Run the requests that are complete, unless one blocks."""
        if not self.broken and self.client.wait is None and self.client.postponed is None:
            self.process()
            self.engine.flush_clients()

    # --- replies -----------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send what was replied, or have it held until the disk has what it tells of."""
        cdef ReplyWriter reply = self.client.reply
        cdef size_t size = reply.written()
        if self.failed or self.wire is NO_WIRE:
            reply.take()
            return
        if size:
            self.engine.stats.bytes_out += size
            if self.journal.must_hold(self.client.told):
                self.held += size
                self.journal.hold(self, self.client.told, reply.take())
                return
            self.sent += size
            self.wire.send_reply(reply)
            if self.congested and not self.within_output_limits():
                return
        if self.client.closing and not self.held:
            self.broken = True
            self.wire.close()
        elif self.file is not None:
            self.send_more()

    cdef int hold(self, list chunks) except -1:
        """Send these bytes when everything that was done so far is safe."""
        for chunk in chunks:
            self.held += <uint64_t>len(chunk)
        return self.journal.hold(self, self.client.told, chunks)

    def send(self, chunks: list) -> None:
        """Send what was held."""
        cdef size_t size = 0
        for chunk in chunks:
            size += len(chunk)
        self.held -= size
        if self.failed:
            return
        self.sent += size
        self.wire.send(chunks)
        if self.file is not None:
            self.send_more()
            return
        if self.congested and not self.within_output_limits():
            return
        if self.client.closing and not self.held:
            self.broken = True
            self.wire.close()

    def fail(self, text: bytes) -> None:
        """Say that nobody knows whether what was held will last, and end: later replies would answer other requests."""
        if self.wire.is_closed():
            return
        self.broken = self.failed = True
        self.wire.send([b"-%s\r\n" % text])
        self.wire.close()

    cdef bint has_more_to_send(self) noexcept:
        """Whether replies wait for the disk that the client should get before its session ends."""
        return self.held != 0 and not self.failed

    # --- a source ----------------------------------------------------------------------------------------------

    def send_from(self, source) -> None:
        """Send what a source gives, behind what was replied: a piece when the client has taken the one before.

        Where a source has no more and is not `endless`, the session ends; otherwise `send_more` is to be called again.
        One that `calls` has given all that it has, and whoever adds to it calls `send_more` then.
        """
        if self.broken or self.wire.is_closed():
            source.close()
            return
        self.file = source
        self.untaken = 0
        self.taken_at_ms = self.engine.clocks.steady_now_ms
        self.send_more()

    @property
    def sends_file(self) -> bool:
        """Whether there is a source that it sends from."""
        return self.file is not None

    def send_more(self) -> None:
        """Send the next piece of the source, unless the one before, or a reply, still waits to be sent."""
        if self.file is None or self.held or self.congested or self.client.reply.written() or self.wire.is_closed():
            return
        if self.broken:                 # a source may be what ends the session: it is not asked again
            return
        source = self.file
        try:
            piece = source.read(FILE_PIECE)
        except OSError:
            self.disconnect(FILE_UNREADABLE)
            return
        if piece:
            self.sent += <uint64_t>len(piece)
            self.engine.stats.bytes_out += len(piece)
            self.wire.send([piece])
            if not source.calls:
                self.wire.call_soon(self.send_more)     # others have their turn first
        elif self.file is not None and not self.file.endless:
            self.broken = True
            self.close_file()
            self.wire.close()

    cdef int close_file(self) except -1:
        if self.file is not None:
            self.file.close()
            self.file = None
        return 0

    # --- limits ------------------------------------------------------------------------------------------------

    cdef int set_congested(self, bint congested) except -1:
        """Note that replies pile up, or that the client has caught up."""
        self.congested = congested
        if not congested:
            self.soft_since = 0
            self.resume()
            self.send_more()
        return 0

    cdef bint within_output_limits(self) except -1:
        """Disconnect a client that has left too much unread, or for too long; False where that was so."""
        cdef uint64_t unread = self.wire.unsent()
        cdef uint64_t hard = self.limits.output_hard
        cdef uint64_t soft = self.limits.output_soft
        cdef int64_t soft_ms = self.limits.output_soft_ms
        cdef bint too_long = False
        if self.file is not None:
            return self.is_taken()
        if self.client.subscribed:
            hard, soft, soft_ms = self.limits.pubsub_hard, self.limits.pubsub_soft, self.limits.pubsub_soft_ms
        if soft and unread > soft:
            if not self.soft_since:
                self.soft_since = self.engine.clocks.steady_now_ms
            too_long = self.engine.clocks.steady_now_ms - self.soft_since > soft_ms
        else:
            self.soft_since = 0
        if too_long or (hard and unread > hard):
            self.disconnect(OUTPUT_LIMIT)
            return False
        return True

    cdef bint is_taken(self) except -1:
        """Disconnect a client that takes nothing of the file that it is sent; False where that was so."""
        cdef uint64_t untaken = self.wire.unsent()
        if untaken != self.untaken:
            self.untaken = untaken
            self.taken_at_ms = self.engine.clocks.steady_now_ms
        elif self.engine.clocks.steady_now_ms - self.taken_at_ms > self.limits.untaken_ms:
            self.disconnect(FILE_UNTAKEN)
            return False
        return True

    cdef int follow_limits(self) except -1:
        """Follow a change of the limits."""
        self.parser.max_bulk = self.limits.bulk
        return self.set_high_water()

    cdef int set_high_water(self) except -1:
        """Have the wire say when replies pile up, in time for the smallest limit."""
        cdef uint64_t high = HIGH_WATER if self.client.authenticated else STRANGER_MOST
        for limit in (
            self.limits.output_hard, self.limits.output_soft, self.limits.pubsub_hard, self.limits.pubsub_soft,
        ):
            if limit:
                high = min(high, limit)
        return self.wire.notify_above(high)

    # --- the end -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End once what was replied has left."""
        self.broken = True
        self.flush()
        self.wire.close()

    cdef int disconnect(self, Reason reason) except -1:
        """End now, whatever was sent or still has to be read."""
        cdef Wire wire = self.wire
        self.broken = True
        self.wire = NO_WIRE             # a tick before the end must not find it congested again, and count it
        return wire.disconnect(reason)

    cdef int end(self) except -1:
        """The wire is gone: forget the client, and what was read from it."""
        self.broken = True
        self.wire = NO_WIRE
        self.engine.disconnect(self.client)
        self.requests = []
        self.close_file()
        if self.parser is not None:
            self.parser.drop()          # now, not when somebody's last reference to this object goes
        return 0

    def figures(self) -> ChannelFigures:
        """Say what CLIENT LIST shows of the connection."""
        cdef RequestParser parser = self.parser
        waiting = self.held + self.wire.unsent()
        if parser is None:
            return ChannelFigures(-1, 0, 0, 0, waiting, 0, self.sent)
        return ChannelFigures(
            self.wire.descriptor(), parser.in_buffer(self.processing), parser.room(self.processing),
            parser.argument_bytes(), waiting, parser.arrived, self.sent,
        )
