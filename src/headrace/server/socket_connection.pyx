# cython: nonecheck=True
"""Connections over TCP and unix sockets, which are read and written without the event loop's transports.

    event loop ─► one descriptor: the poll (epoll) of all sockets ─► run_turn
    run_turn:     socket ─► the parser's own buffer ─► session: every complete request     … for each that has sent
                  then flush: replies ─► socket                                            … of all

A transport of the event loop takes and gives back Python's lock, asks for a buffer, makes a view of it and calls two
methods by name for each read. Here that is done once a turn, and a read is a call of `recv`: 3,050 instructions an XLEN
at pipeline 1 with 50 clients, where transports made it 5,400 (callgrind).

What a peer does not take is kept here, and sent when the poll tells that it can be: `watched` is what the poll is asked
to tell of a socket. Where that is nothing, the socket is not in the poll, because epoll would report a reset
connection for ever.

A connection ends in a callback of its own (`finish`), so that whoever notices can go on with what it does, and no
descriptor is used again in the middle of a turn.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Size
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint32_t, uint64_t
from posix.unistd cimport close as close_descriptor

from headrace.core.memory cimport byte_t
from headrace.engine.engine cimport Engine
from headrace.protocol.reply cimport ReplyWriter
from headrace.server.connection cimport Connection
from headrace.session.session cimport Session
from headrace.session.wire cimport Reason
from headrace.storage.journal cimport Journal

import os
from collections import deque

cdef extern from "<sys/epoll.h>" nogil:
    enum: EPOLLIN, EPOLLOUT, EPOLLERR, EPOLLHUP, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL, EPOLL_CLOEXEC
    ctypedef union epoll_data_t:
        int fd
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epoll, int operation, int fd, epoll_event *event)
    int epoll_wait(int epoll, epoll_event *events, int most, int timeout)

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_DONTWAIT, MSG_NOSIGNAL
    Py_ssize_t recv(int socket, void *data, size_t size, int flags)
    Py_ssize_t send(int socket, const void *data, size_t size, int flags)

cdef enum:
    TURNS_ALONE = 16        # in which only one client was served, and from which on it is taken to be alone
    EVENTS_MOST = 256       # sockets that are served in one turn; others are the first of the next
    READS_MOST = 16         # of one socket in one turn, as long as each fills the room for it


cdef class SocketPoll:
    """The sockets that the event loop watches as one; `run_turn` is to be called when `fileno` can be read."""

    cdef Engine engine
    cdef Journal journal
    cdef object failure                 # takes an exception that ended a connection
    cdef int epoll
    cdef list connections               # by descriptor
    cdef bint in_turn
    cdef uint64_t served                # sockets that this poll has
    cdef int alone                      # the client of the last turns: its descriptor, and how many turns it was
    cdef int turns_alone
    cdef epoll_event[EVENTS_MOST] events

    def __cinit__(self):
        self.epoll = -1

    def __init__(self, engine: Engine, journal: Journal, failure):
        self.engine = engine
        self.journal = journal
        self.failure = failure
        self.connections = []
        self.epoll = epoll_create1(EPOLL_CLOEXEC)
        if self.epoll < 0:
            raise OSError(errno, os.strerror(errno))

    @property
    def fileno(self) -> int:
        """What can be read when there is something to do."""
        return self.epoll

    def run_turn(self) -> None:
        """Serve every socket that has something, and then send all replies."""
        cdef int count = epoll_wait(self.epoll, self.events, EVENTS_MOST, 0)
        cdef int at = 0
        self.journal.unscheduled = self.is_alone(count)
        self.in_turn = True
        try:
            while at < count:
                at += 1
                self.serve(self.events[at - 1].data.fd, self.events[at - 1].events)
            self.in_turn = False
            if self.engine.outbox.flush_due:
                self.engine.flush_clients()
        finally:                        # what is left after an exception, the next turn finds again
            self.in_turn = False
            if self.journal.unscheduled:
                self.journal.commit_here()

    cdef bint is_alone(self, int count) noexcept:
        """Whether the one client that has sent something is the only one that has, for some time."""
        if count != 1 or self.events[0].data.fd != self.alone:
            self.alone = self.events[0].data.fd if count == 1 else -1
            self.turns_alone = 0
            return False
        self.turns_alone += self.turns_alone < TURNS_ALONE
        return self.turns_alone == TURNS_ALONE and PyDict_Size(self.engine.clients) == self.served

    cdef int serve(self, int fd, uint32_t events) except -1:
        """Write and read what one socket can; a connection that has failed learns why from the system's answer."""
        cdef SocketConnection connection = <SocketConnection>PyList_GET_ITEM(self.connections, fd)
        try:
            if connection.watched & EPOLLOUT and events & (EPOLLOUT | EPOLLERR | EPOLLHUP):
                connection.send_unsent()
            if connection.watched & EPOLLIN and events & (EPOLLIN | EPOLLERR | EPOLLHUP):
                connection.read()
        except Exception as bug:        # ours: this client is disconnected, and everybody else goes on
            connection.lose()
            self.failure(bug)
        return 0

    cdef int add(self, int fd, SocketConnection connection) except -1:
        """Know a connection; what is to be told of it, `watch` says."""
        while PyList_GET_SIZE(self.connections) <= fd:
            self.connections.append(None)
        self.connections[fd] = connection
        self.served += 1
        return 0

    cdef int watch(self, int fd, uint32_t before, uint32_t wanted) except -1:
        """Tell of other events of a socket than before."""
        cdef epoll_event event
        cdef int operation = EPOLL_CTL_MOD if before and wanted else EPOLL_CTL_ADD if wanted else EPOLL_CTL_DEL
        event.events = wanted
        event.data.fd = fd
        if epoll_ctl(self.epoll, operation, fd, &event) < 0:
            raise OSError(errno, os.strerror(errno))
        return 0

    def __dealloc__(self):
        if self.epoll >= 0:
            close_descriptor(self.epoll)


@cython.final
cdef class SocketConnection(Connection):
    """See the module."""

    cdef SocketPoll poll
    cdef object opened                  # the socket
    cdef int fd                         # its descriptor; -1: it is closed
    cdef uint32_t watched               # EPOLLIN, EPOLLOUT
    cdef bint paused                    # reading is
    cdef bint at_end                    # the peer has sent its last byte
    cdef bint closing                   # it ends when everything is sent
    cdef bint ending                    # `finish` will be called
    cdef object waiting                 # bytes that the peer has not taken yet: a deque, …
    cdef size_t sent                    # … of the first of which so much was sent
    cdef uint64_t unsent_size
    cdef uint64_t high_water            # from more than that on, the peer is slow …
    cdef bint slow                      # … until it is a quarter

    def __init__(self, engine, journal, host, limits, poll: SocketPoll):
        Connection.__init__(self, engine, journal, host, limits)
        self.poll = poll
        self.fd = -1
        self.waiting = deque()

    def serve(self, opened, peer, own) -> None:
        """Begin to serve a socket that was accepted, between two names."""
        self.opened = opened
        self.fd = opened.fileno()
        self.begin()
        self.poll.add(self.fd, self)
        self.host.welcome(self, opened, peer, own)
        self.session.set_high_water()
        self.follow_events()

    cdef int follow_events(self) except -1:
        """Have the poll tell of what is wanted now."""
        cdef uint32_t wanted = 0
        if not self.ending:
            if not self.paused and not self.at_end and not self.closing:
                wanted |= EPOLLIN
            if self.unsent_size:
                wanted |= EPOLLOUT
        if wanted != self.watched:
            self.poll.watch(self.fd, self.watched, wanted)
            self.watched = wanted
        return 0

    # --- reading -----------------------------------------------------------------------------------------------

    cdef int read(self) except -1:
        """Take what has arrived, and run it."""
        cdef Session session = self.session
        cdef size_t room
        cdef byte_t *place
        cdef Py_ssize_t size
        for _ in range(READS_MOST):
            place = session.parser.lend(&room)
            size = recv(self.fd, place, room, MSG_DONTWAIT)
            if size <= 0:
                return self.end_reading(size == 0)
            session.parser.received(size)
            session.received(size)
            if <size_t>size < room or not self.watched & EPOLLIN:
                return 0
        return 0

    cdef int end_reading(self, bint at_end) except -1:
        """Nothing more comes, for now or at all. At the end, what came before still runs, and what is held goes out."""
        if not at_end:
            return 0 if errno == EAGAIN or errno == EINTR else self.lose()
        self.at_end = True
        self.follow_events()
        return 0 if self.session.end_requests() else self.close()

    cdef int pause_reading(self) except -1:
        self.paused = True
        return self.follow_events()

    cdef int resume_reading(self) except -1:
        self.paused = False
        return self.follow_events()

    # --- writing -----------------------------------------------------------------------------------------------

    cdef int send_reply(self, ReplyWriter reply) except -1:
        """Send a short reply from where it was written."""
        if reply.chunked or reply.open_headers or self.unsent_size:
            return self.send(reply.take())
        self.put(reply.data, reply.size, None)
        reply.clear()
        return 0

    cdef int send(self, list chunks) except -1:
        for chunk in chunks:
            self.put(<const byte_t *>PyBytes_AS_STRING(chunk), PyBytes_GET_SIZE(chunk), <bytes>chunk)
        return 0

    cdef int put(self, const byte_t *data, size_t size, bytes owner) except -1:
        """Send bytes behind those before; what the peer does not take now is kept, as part of `owner` or copied."""
        cdef Py_ssize_t sent = 0
        if self.ending:
            return 0
        if not self.unsent_size:
            sent = send(self.fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL)
            if <size_t>sent == size:
                return 0
            if sent < 0:
                if errno != EAGAIN and errno != EINTR:
                    return self.lose()
                sent = 0
            self.sent = sent if owner is not None else 0
        self.waiting.append(owner if owner is not None else (<const char *>data)[sent:size])
        self.unsent_size += size - sent
        self.follow_events()
        return self.follow_pace()

    cdef int send_unsent(self) except -1:
        """Send more of what waits, because the peer has taken some."""
        cdef bytes first
        cdef size_t size
        cdef Py_ssize_t sent
        while self.unsent_size:
            first = <bytes>self.waiting[0]
            size = PyBytes_GET_SIZE(first) - self.sent
            sent = send(self.fd, PyBytes_AS_STRING(first) + self.sent, size, MSG_DONTWAIT | MSG_NOSIGNAL)
            if sent < 0:
                if errno != EAGAIN and errno != EINTR:
                    return self.lose()
                break
            self.unsent_size -= sent
            self.sent += sent
            if <size_t>sent < size:
                break
            self.waiting.popleft()
            self.sent = 0
        self.follow_events()
        if self.closing and not self.unsent_size:
            return self.end_soon()
        return self.follow_pace()

    cdef int follow_pace(self) except -1:
        """Tell session and server when replies pile up, and when they no longer do."""
        if not self.slow and self.unsent_size > self.high_water:
            self.slow = True
            self.session.set_congested(True)
            self.host.congested(self)
        elif self.slow and self.unsent_size <= self.high_water // 4:
            self.slow = False
            self.host.relieved(self)
            self.session.set_congested(False)
        return 0

    cdef uint64_t unsent(self) except? 0xffffffffffffffff:
        return self.unsent_size

    cdef int notify_above(self, uint64_t size) except -1:
        self.high_water = size
        return self.follow_pace()

    cdef int flush_soon(self) except -1:
        """Replies leave at the end of the turn."""
        if not self.poll.in_turn:
            self.host.flush_soon()
        return 0

    # --- the end -----------------------------------------------------------------------------------------------

    cdef bint is_closed(self) except -1:
        return self.closing

    cdef int descriptor(self) except -2:
        return self.fd

    cdef int close(self) except -1:
        if not self.closing:
            self.closing = True
            self.follow_events()
            if not self.unsent_size:
                self.end_soon()
        return 0

    cdef int disconnect(self, Reason reason) except -1:
        if not self.ending:
            self.lose()
            self.report(reason)
        return 0

    cdef int lose(self) except -1:
        """End now: what the peer has not taken, it will not."""
        self.closing = True
        self.unsent_size = 0
        self.waiting.clear()
        return self.end_soon()

    cdef int end_soon(self) except -1:
        if not self.ending:
            self.ending = True
            self.follow_events()
            self.host.soon(self.finish)
        return 0

    def finish(self) -> None:
        """Close the socket, and forget the client."""
        self.poll.connections[self.fd] = None
        self.poll.served -= 1
        self.fd = -1
        self.opened.close()
        self.session.end()
        self.host.farewell(self)

    # --- what the server calls ---------------------------------------------------------------------------------

    def abort(self) -> None:
        """End the connection now, whatever was sent and not taken yet."""
        self.lose()
