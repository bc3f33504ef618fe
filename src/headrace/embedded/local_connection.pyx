# cython: nonecheck=True
"""A connection to the engine of this process: a list of replies in place of a socket.

    call / feed ─► session ─► engine ─► flush ─┬─ nothing to wait for ──────────► inbox ─► the thread that waits
                                               └─ held by the journal ─► send ──┘

Replies that tell of effects which are not on disk yet are held, as on the server: that is all there is to durability
here. One thread at a time uses a connection; without the host's lock it may wait, and take what has come.

Replies may come one by one, because a request that waits keeps those behind it waiting. A thread that sent several
requests takes replies until there is one for each.
"""

cimport cython
from libc.stdint cimport uint64_t

from headrace.protocol.reply_reader cimport read_replies
from headrace.engine.client cimport Client
from headrace.protocol.reply cimport ReplyWriter
from headrace.session.wire cimport Reason

from _thread import allocate_lock


@cython.final
cdef class LocalConnection(Wire):
    """See the module. One that takes bytes is a client like others; else it is the program itself, which may do all."""

    def __init__(self, host: Host, *, takes_bytes: bool = False):
        cdef Client client
        self.host = host
        self.inbox = []
        if not takes_bytes:             # the engine need not know it, so that it can be made while the lock is held
            client = Client(0, host.engine.databases[0], None, host.engine.clocks.steady_ms())
            client.user = host.engine.users.default
            client.authenticated = True
            client.reply.protocol = 3
            self.session = Session(host.engine, host.journal, self, host.limits, client)
            host.connections.add(self)
            return
        host.enter()
        try:
            self.session = Session(host.engine, host.journal, self, host.limits)
            self.session.parser.max_bulk = host.engine.config["proto-max-bulk-len"]
            host.connections.add(self)
        finally:
            host.exit()

    # --- requests ----------------------------------------------------------------------------------------------

    def call(self, *requests: list[bytes]) -> None:
        """Run requests, one after the other; behind one that waits, the others are kept."""
        cdef Host host = self.host
        host.enter()
        try:
            self.session.run(requests)
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
            if not self.ended:
                self.session.parser.feed(data)
                self.session.received(len(data))
                host.settle()
        except BaseException:
            host.interrupted()
            raise
        finally:
            host.exit()

    # --- what the session calls --------------------------------------------------------------------------------

    cdef bint is_closed(self) except -1:
        return self.ended

    cdef int send_reply(self, ReplyWriter reply) except -1:
        return self.deliver(reply.take())

    cdef int send(self, list chunks) except -1:
        return self.deliver(chunks)

    cdef uint64_t unsent(self) except? 0xffffffffffffffff:
        return sum(map(len, self.inbox))

    cdef int close(self) except -1:
        self.host.soon(self.end)
        return 0

    cdef int disconnect(self, Reason reason) except -1:
        self.host.soon(self.end)
        return 0

    cdef int call_soon(self, object callback) except -1:
        self.host.soon(callback)
        return 0

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

    # --- the end -----------------------------------------------------------------------------------------------

    def end(self) -> None:
        """End it; only the thread that holds the host's lock calls this."""
        if not self.ended:
            self.ended = True
            self.session.end()
            self.host.connections.discard(self)
            self.deliver([])

    def end_without_engine(self) -> None:
        """The same where the engine can be asked for nothing any more."""
        if not self.ended:
            self.ended = True
            self.deliver([])

    def leave(self) -> None:
        """End it from the thread that uses it, whatever it waits for."""
        if not self.ended and self.host.state == 0:
            if self.host.is_inside():   # a finalizer, which runs in the middle of a command of its thread
                self.host.soon(self.end)
                return
            self.host.enter()
            try:
                self.end()
                self.host.settle()
            finally:
                self.host.exit()

    # --- replies -----------------------------------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until something has come, or the connection has ended; False when the time is up before."""
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
        cdef bint ended = self.ended    # asked before taking, because what came before the end is there then
        replies.extend(read_replies(self.take()))
        return ended or len(replies) >= wanted

    @property
    def reusable(self) -> bool:
        """Whether it waits for nothing, owes no reply, and the next request finds it as the first one did."""
        return not self.ended and not self.readable and self.session.owes_nothing()

    cpdef list take(self):
        """Take what has come, as bytes."""
        cdef list chunks = self.inbox
        self.inbox = []
        self.readable = self.ended
        return chunks
