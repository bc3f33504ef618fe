# cython: nonecheck=True
"""Pauses: commands that are held back until a time, and run then in the order they came.

Each has a purpose: CLIENT PAUSE, FAILOVER, … Of two pauses by CLIENT PAUSE, the longer and the stricter counts.
Replicas and the master are never held back. While there is no pause, a command costs one comparison (`first_end_ms`).
"""

cimport cython

from headrace.engine.command cimport MAY_REPLICATE, WRITE
from headrace.engine.engine cimport Engine

import re
from enum import IntEnum

NO_END_MS = 2**62

cdef int64_t NO_END = NO_END_MS

NO_WRITES = re.compile(rb"#![^\n]*flags=[^ \n]*no-writes")


class Purpose(IntEnum):
    """What commands are held back for."""

    CLIENT = 0      # CLIENT PAUSE
    FAILOVER = 1
    SHUTDOWN = 2    # replicas get what was written last
    MEMORY = 3      # entries are moved to disk


CLIENT = Purpose.CLIENT


@cython.final
cdef class Pauses:
    """See the module."""

    def __cinit__(self, Engine engine not None):
        self.engine = engine
        self.clocks = engine.clocks
        self.by_purpose = {}
        self.held = {}

    def begin(self, int64_t until_ms, *, bint writes_only, purpose=CLIENT) -> None:
        """Hold commands back up to a time."""
        former = self.by_purpose.get(purpose)
        if former is not None and former[0] > self.clocks.steady_now_ms:
            until_ms = max(until_ms, <int64_t>former[0])
            writes_only = writes_only and former[1]
        self.by_purpose[purpose] = (until_ms, writes_only)
        self.find_first_end()

    def end(self, purpose=CLIENT) -> None:
        """End a pause; what it held back runs as soon as the command that ends it is over."""
        if self.by_purpose.pop(purpose, None) is not None:
            self.first_end_ms = self.clocks.steady_now_ms if self.by_purpose else 0
            if self.held:
                self.engine.waiting.wake_at(self.clocks.steady_now_ms)

    def find_first_end(self) -> None:
        """Forget the pauses that are over, and find out when the next is."""
        for purpose, (until_ms, _) in list(self.by_purpose.items()):
            if until_ms <= self.clocks.steady_now_ms:
                del self.by_purpose[purpose]
        self.first_end_ms = min([until_ms for until_ms, _ in self.by_purpose.values()], default=0)
        if 0 < self.first_end_ms < NO_END:
            self.engine.waiting.wake_at(self.first_end_ms)

    cpdef bint are_on(self) noexcept:
        """Whether the data is to stay as it is; a pause whose time is up may still have to be ended."""
        return self.first_end_ms != 0 and self.clocks.steady_now_ms < self.first_end_ms

    cdef bint holds(self, Client client, Command command, list argv) except -1:
        """Whether a pause holds a command back; only asked where there is one."""
        cdef int64_t now_ms = self.clocks.steady_now_ms
        pauses = [writes_only for until_ms, writes_only in self.by_purpose.values() if now_ms < until_ms]
        if not pauses or client.is_follower or client.is_master:
            return False
        if not all(pauses) or may_change(self.engine, command, argv):
            return True
        if command.name == b"exec":
            for queued, words in client.queue or ():
                if may_change(self.engine, queued, words):
                    return True
        return False

    cdef int hold(self, Client client, list argv) except -1:
        """Keep a request until the pause is over."""
        client.postponed = argv
        self.held[client] = None
        return 0

    cdef int run_held(self) except -1:
        """Run what a pause held back, first come first; another pause may hold it back again."""
        cdef Client client
        self.find_first_end()
        clients = list(self.held)
        self.held.clear()
        for client in clients:
            argv = client.postponed
            if argv is None:
                continue            # one of the others has killed it
            client.postponed = None
            self.engine.execute(client, argv)
            client.channel.resume()
        return 0


cdef bint may_change(Engine engine, Command command, list argv) except -1:
    """Whether a command may change data or send messages; a script may, unless its first line says no-writes."""
    if command.name == b"eval":
        return NO_WRITES.match(argv[1]) is None
    if command.name == b"evalsha":
        script = engine.scripts.find(argv[1])
        return script is None or script.flags is None or b"no-writes" not in script.flags
    if command.name == b"fcall":
        return b"no-writes" not in engine.functions.flags_of(argv[1])
    return command.flags & (WRITE | MAY_REPLICATE) != 0
