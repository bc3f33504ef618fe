"""A load generator: many connections in one thread, prepared requests out, replies counted as they come.

    each line:  send a buffer of requests ─► count replies ─► all there: note the time, send the next buffer

What a line sends is bytes that were made before the clock started; what comes back is walked for the ends of replies
and nothing is built of it. So a reply costs nanoseconds: XADD at pipeline 16 took 0.45 µs of processor a request here,
most of it the kernel's, where redis-benchmark took 1.0 (`python -m bench generator`, on a busy machine).

A consumer is the one that has to look: it gathers the IDs of what it was given, and acknowledges them together with its
next read.

    XREADGROUP ─► IDs of the entries ─► XACK of them, XREADGROUP ─► … ─► nothing left: the line is done

The loop runs without the GIL and looks for signals ten times a second. Not thread-safe.
"""

import os
import time

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memchr, memcpy, memset

from headrace.core.clock cimport monotonic_ns

from headrace.measuring.errors import LoadFailed

cdef extern from "<sys/epoll.h>" nogil:
    enum: EPOLLIN, EPOLLOUT, EPOLL_CTL_ADD, EPOLL_CTL_MOD
    ctypedef union epoll_data_t:
        uint32_t u32
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epoll, int operation, int fd, epoll_event *event)
    int epoll_wait(int epoll, epoll_event *events, int most, int timeout)

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_DONTWAIT, MSG_NOSIGNAL
    ssize_t send(int fd, const void *data, size_t size, int flags)
    ssize_t recv(int fd, void *data, size_t size, int flags)

cdef enum:
    RECEIVE = 1 << 18   # bytes taken from a socket at a time
    TAIL = 1 << 10      # of a line that has not ended yet; an ID and an error are shorter
    DEEPEST = 16
    ID_DEPTH = 4        # in the reply of XREADGROUP: streams, a stream, its entries, an entry
    EVENTS = 512
    LONGEST_WAKE = 60   # seconds
    BUCKETS = 64        # to each power of two: a latency is known to 1.6 %
    POWERS = 48

cdef enum Failure:
    NOTHING_WRONG, CLOSED, NO_REPLY_FORM, NO_MEMORY, SYSTEM


cdef struct Line:
    int fd
    bint waits_to_send
    bint finished
    const char *out         # what is being sent
    size_t out_size
    size_t out_sent
    uint64_t sent_at
    int64_t missing         # replies until the next buffer
    int64_t sent_buffers
    int64_t skip            # bytes of a string that nobody looks at, with their line end
    int depth
    int64_t left[DEEPEST]   # elements missing at each depth
    bint first[DEEPEST]     # the next element there is the first
    size_t tail_size
    char tail[TAIL]
    char *ids               # a consumer's: XACK's last words, with the room of `ids_room`
    size_t ids_size
    size_t ids_room
    int64_t ids_count
    char *reply             # a consumer's buffer to send
    size_t reply_room


cdef inline int bucket_of(uint64_t ns) noexcept nogil:
    """Small numbers have a bucket each; from 64 on, a power of two has 64."""
    cdef int power = 0
    while (ns >> power) >= 2 * BUCKETS:
        power += 1
    return power * BUCKETS + <int>(ns >> power)


cdef inline uint64_t bucket_middle(int bucket) noexcept nogil:
    cdef int power = 0
    if bucket >= 2 * BUCKETS:
        power = bucket // BUCKETS - 1
    return (<uint64_t>(bucket - power * BUCKETS) << power) + ((<uint64_t>1 << power) >> 1)


cdef class Load:
    """Lines to one server, and what became of what they sent.

    `fds` are connected sockets that the caller keeps open; they are used without waiting, whatever their own mode is.
    After a run, `requests` is how many were answered, `entries` how many were acknowledged, `seconds` how long it took,
    `processor` how much of that this thread worked.
    """

    cdef readonly int64_t requests
    cdef readonly int64_t entries
    cdef readonly double seconds
    cdef readonly double processor
    cdef readonly int64_t errors
    cdef readonly str first_error
    cdef Line *lines
    cdef int count
    cdef int epoll
    cdef char *space
    cdef uint64_t *buckets
    cdef uint64_t noted
    cdef char error[TAIL]
    cdef size_t error_size
    # What the lines send: prepared buffers in turn, or what a consumer makes.
    cdef const char **buffers
    cdef size_t *sizes
    cdef int64_t buffer_count
    cdef int64_t next_buffer
    cdef bint each_line         # each line sends all buffers
    cdef int64_t replies_each
    cdef bint consuming
    cdef const char *ack_words
    cdef size_t ack_words_size
    cdef int ack_words_count
    cdef int unfinished

    def __cinit__(self, list fds not None):
        cdef epoll_event event
        cdef int i
        self.epoll = -1
        self.count = <int>len(fds)
        self.lines = <Line *>calloc(self.count, sizeof(Line))
        self.space = <char *>calloc(1, TAIL + RECEIVE)
        self.buckets = <uint64_t *>calloc(BUCKETS * POWERS, sizeof(uint64_t))
        if self.lines == NULL or self.space == NULL or self.buckets == NULL:
            raise MemoryError
        self.epoll = epoll_create1(0)
        if self.epoll < 0:
            raise OSError(errno, os.strerror(errno))
        for i in range(self.count):
            self.lines[i].fd = fds[i]
            event.events = EPOLLIN
            event.data.u32 = i
            if epoll_ctl(self.epoll, EPOLL_CTL_ADD, self.lines[i].fd, &event) < 0:
                raise OSError(errno, os.strerror(errno))

    def __dealloc__(self):
        cdef int i
        if self.lines != NULL:
            for i in range(self.count):
                free(self.lines[i].ids)
                free(self.lines[i].reply)
        free(self.lines)
        free(self.space)
        free(self.buckets)
        free(self.buffers)
        free(self.sizes)
        if self.epoll >= 0:
            os.close(self.epoll)

    # --- what is asked of it ---------------------------------------------------------------------------------------

    def run(self, list buffers not None, int64_t replies, double seconds, int64_t limit, bint each_line=False):
        """Send the buffers in turn, from the first again when all were sent, until the time is over.

        The lines take turns with them. With `each_line`, each sends all of them, the next when it has the replies.
        Every buffer has `replies` requests. At most `limit` buffers are sent. What was sent is waited for and counts,
        with the time that it took: slow requests of many clients would not be seen otherwise.
        """
        self._prepare(buffers, replies, False)
        self.each_line = each_line
        self._drive(seconds, limit)

    def consume(self, list reads not None, tuple acknowledge not None, double seconds):
        """Let line i be a consumer that sends reads[i] and acknowledges what it got, until nothing is left.

        When the time is over it acknowledges what it has and reads no more.
        `acknowledge` is the words of XACK before the IDs.
        """
        words = b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in acknowledge])
        self._prepare(reads, 1, True)
        self.ack_words = PyBytes_AS_STRING(words)
        self.ack_words_size = PyBytes_GET_SIZE(words)
        self.ack_words_count = <int>len(acknowledge)
        self._drive(seconds, -1)

    def ask(self, bytes request not None):
        """Send a request on every line that will be answered later: see `wake`."""
        cdef int i
        for i in range(self.count):
            self._start(&self.lines[i], PyBytes_AS_STRING(request), PyBytes_GET_SIZE(request), 1)
            while self.lines[i].waits_to_send:
                self._flush(&self.lines[i])

    def wake(self, int fd, bytes request not None):
        """Send a request on a socket of its own, and time until each line has the reply to what it asked before.

        `percentile` then speaks of all wakes since the last run.
        """
        cdef uint64_t began
        cdef double processor = time.thread_time()
        cdef int i
        cdef int failure
        self.requests = self.errors = 0
        began = monotonic_ns()
        if send(fd, PyBytes_AS_STRING(request), PyBytes_GET_SIZE(request), MSG_NOSIGNAL) != PyBytes_GET_SIZE(request):
            raise LoadFailed("the server did not take a request at once")
        for i in range(self.count):
            self.lines[i].sent_at = began
        self.unfinished = self.count
        self.buffer_count = 0
        with nogil:
            failure = self._loop(began, <uint64_t>LONGEST_WAKE * 1000000000, 0)
        self._conclude(failure, began, processor)
        if self.requests < self.count:
            raise LoadFailed(f"after a minute only {self.requests} of {self.count} blocked readers were served")

    def percentile(self, double share):
        """The latency, in microseconds, that this share of all buffers (or wakes) did not pass."""
        cdef uint64_t below = 0
        cdef uint64_t wanted = <uint64_t>(share * <double>self.noted)
        cdef int i
        for i in range(BUCKETS * POWERS):
            below += self.buckets[i]
            if below > wanted or (below == self.noted and below > 0):
                return <double>bucket_middle(i) / 1000
        return 0.0

    # --- how it does it --------------------------------------------------------------------------------------------

    cdef _forget(self):
        self.requests = self.entries = self.errors = 0
        self.error_size = 0
        self.first_error = None
        self.noted = 0
        memset(self.buckets, 0, BUCKETS * POWERS * sizeof(uint64_t))

    cdef _prepare(self, list buffers, int64_t replies, bint consuming):
        cdef int64_t i
        self._forget()
        self.buffer_count = len(buffers)
        self.buffers = <const char **>realloc(self.buffers, self.buffer_count * sizeof(char *))
        self.sizes = <size_t *>realloc(self.sizes, self.buffer_count * sizeof(size_t))
        if self.buffers == NULL or self.sizes == NULL:
            raise MemoryError
        for i in range(self.buffer_count):
            self.buffers[i] = PyBytes_AS_STRING(<bytes?>buffers[i])
            self.sizes[i] = PyBytes_GET_SIZE(<bytes>buffers[i])
        self.replies_each = replies
        self.consuming = consuming
        self.each_line = False
        self.next_buffer = 0

    cdef _drive(self, double seconds, int64_t limit):
        """Start every line, then answer what comes."""
        cdef double processor = time.thread_time()
        cdef uint64_t began = monotonic_ns()
        cdef int i
        cdef int failure
        self.unfinished = 0
        for i in range(self.count):
            self.lines[i].finished = False
            self.lines[i].ids_size = self.lines[i].ids_count = 0
            self.lines[i].sent_buffers = 0
            if limit < 0 or self.next_buffer < limit:
                self.unfinished += 1
                self._start_next(&self.lines[i], i)
        with nogil:
            failure = self._loop(began, <uint64_t>(seconds * 1e9), limit)
        self._conclude(failure, began, processor)

    cdef _conclude(self, int failure, uint64_t began, double processor):
        self.processor = time.thread_time() - processor
        self.seconds = <double>(monotonic_ns() - began) / 1e9
        if self.errors:
            self.first_error = PyBytes_FromStringAndSize(self.error, self.error_size).decode("utf-8", "replace")
        if failure == CLOSED:
            raise LoadFailed("the server closed a connection")
        if failure == NO_REPLY_FORM:
            raise LoadFailed("the server sent something that is no reply")
        if failure == NO_MEMORY:
            raise MemoryError
        if failure == SYSTEM:
            raise OSError(errno, os.strerror(errno))

    cdef int _loop(self, uint64_t began, uint64_t most, int64_t limit) except -1 nogil:
        """Take what comes until every line has what it waits for; after `most` nanoseconds nothing new is sent."""
        cdef epoll_event events[EVENTS]
        cdef uint64_t now = began
        cdef uint64_t looked = began
        cdef bint over = False
        cdef int found
        cdef int i
        cdef int failure
        cdef Line *line
        while self.unfinished > 0:
            found = epoll_wait(self.epoll, events, EVENTS, 100)
            if found < 0 and errno != EINTR:
                return SYSTEM
            now = monotonic_ns()
            if now - looked > 100000000:
                looked = now
                with gil:
                    PyErr_CheckSignals()
            if not over and now - began >= most:
                if self.buffer_count == 0:
                    return NOTHING_WRONG
                over = True
            for i in range(found):
                line = &self.lines[events[i].data.u32]
                if events[i].events & EPOLLOUT:
                    failure = self._flush(line)
                    if failure:
                        return failure
                if not events[i].events & ~<uint32_t>EPOLLOUT:
                    continue
                failure = self._receive(line)
                if failure:
                    return failure
                if line.missing > 0 or line.finished:
                    continue
                self._note(monotonic_ns() - line.sent_at)
                if self.consuming and line.ids_count:
                    failure = self._start_acknowledging(line, <int>events[i].data.u32, not over)
                elif not (self.consuming or over or self.buffer_count == 0 or 0 <= limit <= self.next_buffer):
                    failure = self._start_next(line, 0)
                else:
                    line.finished = True
                    self.unfinished -= 1
                if failure:
                    return failure
        return NOTHING_WRONG

    cdef void _note(self, uint64_t ns) noexcept nogil:
        self.buckets[bucket_of(ns)] += 1
        self.noted += 1

    cdef int _start_next(self, Line *line, int number) noexcept nogil:
        cdef int64_t chosen = number
        if not self.consuming:
            chosen = (line.sent_buffers if self.each_line else self.next_buffer) % self.buffer_count
        line.sent_buffers += 1
        self.next_buffer += 1
        return self._start(line, self.buffers[chosen], self.sizes[chosen], self.replies_each)

    cdef int _start(self, Line *line, const char *data, size_t size, int64_t replies) noexcept nogil:
        line.out = data
        line.out_size = size
        line.out_sent = 0
        line.missing = replies
        line.finished = False
        line.sent_at = monotonic_ns()
        return self._flush(line)

    cdef int _flush(self, Line *line) noexcept nogil:
        """Send what the socket takes; where it takes not all, epoll tells when there is room."""
        cdef epoll_event event
        cdef ssize_t sent
        cdef bint waits
        while line.out_sent < line.out_size:
            sent = send(line.fd, line.out + line.out_sent, line.out_size - line.out_sent, MSG_DONTWAIT | MSG_NOSIGNAL)
            if sent < 0:
                if errno == EAGAIN or errno == EINTR:
                    break
                return CLOSED
            line.out_sent += sent
        waits = line.out_sent < line.out_size
        if waits != line.waits_to_send:
            line.waits_to_send = waits
            event.events = EPOLLIN | EPOLLOUT if waits else EPOLLIN
            event.data.u32 = <uint32_t>(line - self.lines)
            if epoll_ctl(self.epoll, EPOLL_CTL_MOD, line.fd, &event) < 0:
                return SYSTEM
        return NOTHING_WRONG

    cdef int _receive(self, Line *line) noexcept nogil:
        """Read once, and count the replies that end in it."""
        cdef size_t kept = line.tail_size
        cdef ssize_t got
        memcpy(self.space, line.tail, kept)
        got = recv(line.fd, self.space + kept, RECEIVE, MSG_DONTWAIT)
        if got < 0 and (errno == EAGAIN or errno == EINTR):
            return NOTHING_WRONG
        if got <= 0:
            return CLOSED
        line.tail_size = 0
        return self._scan(line, self.space, kept + got)

    cdef int _scan(self, Line *line, const char *data, size_t size) noexcept nogil:
        """Walk over what came: strings are skipped, arrays counted down; what ends at depth 0 is a reply."""
        cdef size_t at = 0
        cdef size_t end
        cdef size_t i
        cdef const char *found
        cdef int64_t number
        cdef bint negative
        cdef char kind
        while at < size:
            if line.skip:
                if <size_t>line.skip > size - at:
                    line.skip -= <int64_t>(size - at)
                    return NOTHING_WRONG
                at += line.skip
                line.skip = 0
                self._value_ended(line)
                continue
            found = <const char *>memchr(data + at, c"\n", size - at)
            if found == NULL:
                return self._keep(line, data + at, size - at)
            end = found - data + 1
            kind = data[at]
            number = 0
            if kind == c"$" or kind == c"*" or kind == c"%" or kind == c"~" or kind == c">" or kind == c"=":
                negative = data[at + 1] == c"-"
                for i in range(at + 1 + negative, end - 2):
                    number = number * 10 + (data[i] - c"0")
                if negative:
                    number = -number
            if kind == c"$" or kind == c"=":
                if number < 0:
                    self._value_ended(line)
                elif self.consuming and line.depth == ID_DEPTH and line.first[ID_DEPTH - 1]:
                    if size - end < <size_t>number + 2:
                        return self._keep(line, data + at, size - at)
                    if self._gather(line, data + at, end - at + number + 2):
                        return NO_MEMORY
                    end += number + 2
                    self._value_ended(line)
                else:
                    line.skip = number + 2
            elif kind == c"*" or kind == c"%" or kind == c"~" or kind == c">":
                if kind == c"%":
                    number *= 2
                if number <= 0:
                    self._value_ended(line)
                elif line.depth == DEEPEST:
                    return NO_REPLY_FORM
                else:
                    line.left[line.depth] = number
                    line.first[line.depth] = True
                    line.depth += 1
            elif kind == c"-" or kind == c"!":
                self._note_error(data + at + 1, end - at - 3)
                self._value_ended(line)
            elif kind == c":" or kind == c"+" or kind == c"_" or kind == c"," or kind == c"#" or kind == c"(":
                self._value_ended(line)
            else:
                return NO_REPLY_FORM
            at = end
        return NOTHING_WRONG

    cdef int _keep(self, Line *line, const char *data, size_t size) noexcept nogil:
        """Keep the beginning of what has not come whole."""
        if size > TAIL:
            return NO_REPLY_FORM
        memcpy(line.tail, data, size)
        line.tail_size = size
        return NOTHING_WRONG

    cdef void _value_ended(self, Line *line) noexcept nogil:
        while line.depth:
            line.left[line.depth - 1] -= 1
            line.first[line.depth - 1] = False
            if line.left[line.depth - 1]:
                return
            line.depth -= 1
        line.missing -= 1
        self.requests += 1

    cdef void _note_error(self, const char *text, size_t size) noexcept nogil:
        self.errors += 1
        if self.errors == 1:
            self.error_size = size if size < TAIL else TAIL
            memcpy(self.error, text, self.error_size)

    # --- a consumer ------------------------------------------------------------------------------------------------

    cdef int _gather(self, Line *line, const char *word, size_t size) noexcept nogil:
        """Keep an ID, as the word of a request that it is already."""
        cdef char *larger
        if line.ids_size + size > line.ids_room:
            larger = <char *>realloc(line.ids, 2 * (line.ids_size + size))
            if larger == NULL:
                return NO_MEMORY
            line.ids = larger
            line.ids_room = 2 * (line.ids_size + size)
        memcpy(line.ids + line.ids_size, word, size)
        line.ids_size += size
        line.ids_count += 1
        return NOTHING_WRONG

    cdef int _start_acknowledging(self, Line *line, int number, bint again) noexcept nogil:
        """Send XACK of what was gathered, and the next read behind it where there is one."""
        cdef size_t room = 32 + self.ack_words_size + line.ids_size + self.sizes[number]
        cdef char *larger
        cdef char *place
        if room > line.reply_room:
            larger = <char *>realloc(line.reply, 2 * room)
            if larger == NULL:
                return NO_MEMORY
            line.reply = larger
            line.reply_room = 2 * room
        place = line.reply
        place[0] = c"*"
        place = write_number(place + 1, self.ack_words_count + line.ids_count)
        memcpy(place, self.ack_words, self.ack_words_size)
        place += self.ack_words_size
        memcpy(place, line.ids, line.ids_size)
        place += line.ids_size
        if again:
            memcpy(place, self.buffers[number], self.sizes[number])
            place += self.sizes[number]
        self.entries += line.ids_count
        line.ids_size = 0
        line.ids_count = 0
        return self._start(line, line.reply, place - line.reply, 2 if again else 1)


cdef inline char *write_number(char *place, int64_t number) noexcept nogil:
    """Write digits and a line end; return the place behind them."""
    cdef char digits[24]
    cdef int count = 0
    while True:
        digits[count] = <char>(c"0" + number % 10)
        count += 1
        number = number // 10
        if number == 0:
            break
    while count:
        count -= 1
        place[0] = digits[count]
        place += 1
    place[0] = c"\r"
    place[1] = c"\n"
    return place + 2
