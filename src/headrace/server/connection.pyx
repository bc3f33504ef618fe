# cython: nonecheck=True
"""A client's connection to the server: a wire whose host is the server.

    SocketConnection       TCP and unix sockets: reads and writes its socket itself (server.socket_connection)
    TransportConnection    TLS: the event loop does, and encrypts and decrypts (server.transport_connection)

Both read into the parser's own buffer, and the replies of a turn leave together once every client was read that has
sent something: a peer that is busy reading one reply need not be woken for the next.
"""

from headrace.session.wire cimport FILE_UNREADABLE, FILE_UNTAKEN, NO_MEMORY, OUTPUT_LIMIT


cdef class Connection(Wire):
    """See the module."""

    def __init__(self, engine: Engine, journal: Journal, host, limits: Limits):
        self.engine = engine
        self.journal = journal
        self.host = host
        self.limits = limits

    @property
    def client(self) -> Client:
        """The engine's client of this connection."""
        return self.session.client

    cdef int begin(self) except -1:
        """Let the engine know the client."""
        self.session = Session(self.engine, self.journal, self, self.limits)
        return 0

    # --- what the session calls --------------------------------------------------------------------------------

    cdef int call_soon(self, object callback) except -1:
        self.host.soon(callback)
        return 0

    cdef int flush_soon(self) except -1:
        self.host.flush_soon()
        return 0

    cdef int report(self, Reason reason) except -1:
        """Tell the server why the client was disconnected."""
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

    # --- what the server calls ---------------------------------------------------------------------------------

    @property
    def is_ending(self) -> bool:
        """Whether nothing more can be sent."""
        return self.is_closed()

    def abort(self) -> None:
        """End the connection now, whatever was sent and not taken yet."""
        raise NotImplementedError

    def check_output(self) -> None:
        """Disconnect a client that has left too much unread, or for too long."""
        if not self.is_closed():
            self.session.within_output_limits()

    def follow_limits(self) -> None:
        """Follow a change of the limits."""
        self.session.follow_limits()

    def close_after_replies(self) -> None:
        """End the connection once what was replied has left."""
        self.session.close()
