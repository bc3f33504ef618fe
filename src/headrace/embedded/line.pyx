# cython: nonecheck=True
"""A client of the engine in this process: what a connection is on a server, without the socket.

    call / feed ─► engine ─► flush ─┬─ nothing to wait for ─────────────► inbox ─► whoever waits
                                    └─ held by the journal ─► release ──┘

Replies that tell of effects which are not on disk yet are held, as on the server: that is all there is to durability
here. One thread at a time uses a line; what it may do without the host's lock is to wait, and to take what has come.

Requests are run in their order. While one waits (it blocks, or CLIENT PAUSE holds it back), those behind it wait, too.
So replies may come one by one: whoever sent several requests takes replies until there is one for each.
"""

cimport cython

from headrace.embedded.reply_reader cimport read_replies
from headrace.engine.client cimport REPLY_ON
from headrace.protocol.reply cimport ReplyWriter

import os
from _thread import allocate_lock

from headrace.engine.channel import ChannelFigures
from headrace.protocol.errors import ProtocolError


@cython.final
cdef class Line:
    """See the module. One that takes bytes is a client like others; else it is the program itself, who may do all."""

    def __init__(self, host: Host, *, takes_bytes: bool = False):
        self.host = host
        self.inbox = []
        if not takes_bytes:             # the engine need not know it: it can be made by who holds the lock
            self.client = Client(0, host.engine.databases[0], self, host.engine.steady_ms())
            self.client.user = host.engine.users.default
            self.client.authenticated = True
            self.client.reply.protocol = 3
            host.lines.add(self)
            return
        self.parser = RequestParser()
        host.enter()
        try:
            self.parser.max_bulk = host.engine.config["proto-max-bulk-len"]
            self.client = host.engine.connect(self)
            self.parser.trusted = self.client.authenticated
            host.lines.add(self)
        finally:
            host.exit()

    # --- requests ----------------------------------------------------------------------------------------------

    def call(self, *requests: list[bytes]) -> None:
        """Run requests, one after the other; behind one that waits, the others are kept."""
        cdef Host host = self.host
        cdef Client client = self.client
        cdef Py_ssize_t done = 0
        host.enter()
        try:
            host.engine.read_clocks()
            for argv in requests:
                host.engine.execute_next(client, argv)
                done += 1
                if client.wait is not None or client.postponed is not None:
                    break
            if done < len(requests):
                self.kept = list(requests[done:])
            host.settle()
        except BaseException:
            host.interrupted()
            raise
        finally:
            host.exit()

    def feed(self, data: bytes) -> None:
        """Take bytes of requests, and run those that are complete."""
        cdef Host host = self.host
        host.enter()
        try:
            if not self.over:
                self.received += len(data)
                host.engine.stats.bytes_in += len(data)
                self.parser.feed(data)
                self.process()
                host.settle()
        except BaseException:
            host.interrupted()
            raise
        finally:
            host.exit()

    cdef int run_kept(self) except -1:
        """Run the requests of `call` that were kept, until one waits."""
        cdef Client client = self.client
        self.host.engine.read_clocks()
        while self.kept and client.wait is None and client.postponed is None and not self.over:
            self.host.engine.execute_next(client, self.kept.pop(0))
        return 0

    cdef int process(self) except -1:
        """Run every complete request, until one blocks."""
        cdef Client client = self.client
        cdef Host host = self.host
        cdef list argv
        if self.processing or client.wait is not None or client.postponed is not None:
            return 0
        self.processing = True
        host.engine.read_clocks()
        try:
            while client.wait is None and client.postponed is None and not client.closing and not self.over:
                if host.journal.is_full():
                    host.journal.await_room(self)
                    break
                argv = self.parser.next()
                if argv is None:
                    break
                host.engine.execute_next(client, argv)
                argv = None             # so that the parser may use the list again
                self.parser.trusted = client.authenticated
        except ProtocolError as error:
            client.reply.error(error.text)
            client.closing = True
            host.engine.note_unflushed(client)
        finally:
            self.processing = False
        return 0

    # --- the engine's side -------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Deliver what was replied, or have it held until the disk has what it tells of."""
        cdef ReplyWriter reply = self.client.reply
        cdef size_t size = reply.written()
        if size and not self.over:
            self.sent += size
            self.host.engine.stats.bytes_out += size
            if self.host.journal.must_hold():
                self.host.journal.hold(self, reply.take())
                return
            self.deliver(reply.take())
        if self.client.closing:
            self.host.soon(self.end)

    def release(self, list chunks) -> None:
        """Deliver what was held."""
        if not self.over:
            self.deliver(chunks)
            if self.client.closing:
                self.host.soon(self.end)

    def disown(self, error: int) -> None:
        """Say that nobody knows whether what was held will last, and end: later replies would answer other requests."""
        if not self.over:
            self.deliver([
                b"-MISCONF The disk refused what was written (%s): whether this write lasts is not known.\r\n"
                % os.strerror(error).encode()
            ])
            self.end()

    def resume(self) -> None:
        """Go on with the requests that arrived while the client was blocked."""
        if self.parser is not None or self.kept:
            self.host.soon(self.go_on)

    def go_on(self) -> None:
        """Run the requests that wait for their turn."""
        if self.over:
            return
        if self.parser is not None:
            self.process()
        else:
            self.run_kept()

    def close(self) -> None:
        """End once what was replied is delivered."""
        self.flush()
        self.end()

    def figures(self) -> ChannelFigures:
        """Say what CLIENT LIST shows of the line."""
        waiting = self.parser.buffered() if self.parser is not None else 0
        return ChannelFigures(-1, waiting, 0, sum(map(len, self.inbox)), self.received, self.sent)

    # --- the end -----------------------------------------------------------------------------------------------

    def end(self) -> None:
        """Nothing comes any more; who holds the host's lock says so."""
        if not self.over:
            self.over = True
            self.host.engine.disconnect(self.client)
            self.host.lines.discard(self)
            self.deliver([])

    def break_off(self) -> None:
        """The same where the engine can be asked for nothing any more."""
        if not self.over:
            self.over = True
            self.deliver([])

    def leave(self) -> None:
        """The owner needs the line no more, whatever it waits for."""
        if not self.over and self.host.state == 0:
            if self.host.is_inside():   # a finalizer, which runs in the middle of a command of its thread
                self.host.soon(self.end)
                return
            self.host.enter()
            try:
                self.end()
                self.host.settle()
            finally:
                self.host.exit()

    # --- the owner's side --------------------------------------------------------------------------------------

    cdef int deliver(self, list chunks) except -1:
        self.inbox.extend(chunks)
        self.readable = True
        if self.waiter is not None:
            waiter = self.waiter
            self.waiter = None
            waiter.release()
        if self.listener is not None:
            self.listener()
        return 0

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until something has come, or the line is over; False when the time is up before."""
        if self.readable:
            return True
        if timeout is not None and timeout <= 0:
            return False
        waiter = allocate_lock()
        waiter.acquire()
        # Nothing can be delivered between this look and the next line: both are one step for other threads.
        if self.readable:
            return True
        self.waiter = waiter
        try:
            waiter.acquire(True, -1 if timeout is None else timeout)
        finally:
            self.waiter = None
        return self.readable

    def collect(self, replies: list, wanted: int) -> bool:
        """Add the replies that have come to a list; tell whether no more are wanted, or none will come."""
        cdef bint over = self.over      # asked before taking, because what came before the end is there then
        replies.extend(read_replies(self.take()))
        return over or len(replies) >= wanted

    @property
    def reusable(self) -> bool:
        """Whether it waits for nothing, owes no reply, and the next request finds it as the first one did."""
        cdef Client client = self.client
        return (
            not self.over and not self.readable and not self.kept
            and client.wait is None and client.postponed is None and client.queue is None
            and client.reply_mode == REPLY_ON and not client.subscribed
        )

    cpdef list take(self):
        """Take what has come, as bytes."""
        cdef list chunks = self.inbox
        self.inbox = []
        self.readable = self.over
        return chunks
