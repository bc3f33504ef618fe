# cython: nonecheck=True
"""What has not left yet: clients with replies, and messages that follow the reply of the command that runs.

    a command replies ─► note ─────────────► flush: every channel sends what its client has, at the end of the turn
    a message comes   ─► send, or where a command runs: behind ─► send_behind, when it is over
"""

cimport cython


@cython.final
cdef class Outbox:
    """See the module."""

    def __cinit__(self, dict clients not None):
        self.clients = clients
        self.unflushed = []
        self.behind = []

    cdef int note(self, Client client) except -1:
        """Remember a client that has, or may have, replies to send at the end of the turn."""
        if not client.dirty:
            client.dirty = True
            self.unflushed.append(client)
        return 0

    def leave_out(self, client: Client) -> None:
        """Send nothing of a client for now: its reply is not complete."""
        self.unflushed = [other for other in self.unflushed if other is not client]

    cdef int send(self, Client client, bytes message) except -1:
        """Send a client what answers no request, if it is still there."""
        if client.id in self.clients:
            client.reply.raw(message)
            self.note(client)
        return 0

    cdef int send_behind(self) except -1:
        """Send the messages that waited for the end of a command."""
        behind = self.behind
        self.behind = []
        for client, message in behind:
            self.send(<Client>client, <bytes>message)
        return 0

    def fail_unsent(self, text: bytes) -> None:
        """Answer an error in place of replies that have not left yet: what they tell of may be lost."""
        cdef Client client
        for client in self.unflushed:
            if client.reply.written():
                client.channel.fail(text)

    cdef int flush(self) except -1:
        """Let every client that has replies send them."""
        cdef Client client
        self.flush_due = False
        if self.unflushed:
            clients = self.unflushed
            self.unflushed = []
            for client in clients:
                client.dirty = False
                client.channel.flush()
        return 0
