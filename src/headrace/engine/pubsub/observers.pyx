# cython: nonecheck=True
"""The clients that observe others: those that monitor commands, and those that are told of changed keys.

While there are none, a command costs one comparison (`present`).
"""

cimport cython

from headrace.engine.command cimport READ, SKIP_MONITOR
from headrace.engine.engine cimport Engine

from headrace.engine.pubsub.monitoring import Monitors
from headrace.engine.pubsub.tracking import Tracker


@cython.final
cdef class Observers:
    """See the module."""

    def __cinit__(self, Engine engine not None):
        self.engine = engine
        self.monitors = Monitors(engine)
        self.tracker = Tracker(engine)

    def remove(self, client: Client) -> None:
        """Show a client no more commands, and tell it of no more keys."""
        self.monitors.remove(client)
        self.tracker.disable(client)
        self.present = bool(self.monitors.clients or self.tracker.clients)

    cdef int begin_command(self, Client client, Command command, list argv) except -1:
        """Show a script before the commands that it runs."""
        cdef Engine engine = self.engine
        if engine.depth == 0:
            self.tracker.current = client
        if command.flags & SKIP_MONITOR and self.monitors.clients and not client.retrying:
            self.monitors.show(client, command, argv)
        return 0

    cdef int end_command(self, Client client, Command command, list argv) except -1:
        """Show a command to clients that monitor, and remember what a tracked client has read."""
        cdef Engine engine = self.engine
        if self.monitors.clients and not command.flags & SKIP_MONITOR and not client.retrying:
            engine.depth += 1                   # the lines come behind the reply
            try:
                self.monitors.show(client, command, argv)
            finally:
                engine.depth -= 1
        if command.flags & READ and self.tracker.clients:
            self.tracker.remember(client, command, argv)
        if engine.depth == 0:
            self.tracker.current = None
        return 0
