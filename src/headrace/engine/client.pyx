# cython: nonecheck=True
"""A client as the engine sees it: who it is, what it has selected, queued, watched, and waits for.

The host owns the connection behind it and gives the client a `channel`, described in `headrace.engine.channel`.
"""

cimport cython

cdef enum:
    COMMAND_BYTES = 128         # what a queued command takes beside its arguments
    ARGUMENT_BYTES = 48         # what an argument takes beside its text


@cython.final
cdef class Wait:

    def __cinit__(self, Database db, list argv, list keys, bytes kind, bint without_key, int64_t deadline):
        self.db = db
        self.argv = argv
        self.keys = list(dict.fromkeys(keys))
        self.kind = kind
        self.without_key = without_key
        self.deadline = deadline


@cython.final
cdef class Client:
    """See the module."""

    def __cinit__(self, uint64_t id, Database db, object channel, int64_t steady_ms):
        self.id = id
        self.db = db
        self.channel = channel
        self.reply = ReplyWriter()
        self.name = self.address = self.local_address = self.library_name = self.library_version = b""
        self.last_command = b"NULL"
        self.created_ms = self.active_ms = steady_ms
        self.watched = {}

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine: the loopback, a unix socket, or in this process."""
        return self.address.startswith((b"127.", b"[::1]", b"::1", b"/")) or not self.address

    cpdef int update_guard(self) except -1:
        """Follow a change of what the client may do, so that a user who may do everything costs one check only."""
        self.guarded = not self.authenticated or self.subscribed or not self.user.unlimited
        return 0

    cdef int keep_for_exec(self, object command, list argv) except -1:
        """Queue a command of a transaction."""
        self.queue.append((command, argv))
        self.queued_bytes += COMMAND_BYTES
        for argument in argv:
            self.queued_bytes += ARGUMENT_BYTES + len(<bytes>argument)
        return 0

    def unwatch_all(self) -> None:
        """Forget the watched keys, and that any of them changed."""
        cdef Database db
        for db, keys in self.watched.items():
            for key in keys:
                watchers = db.watchers[key]
                watchers.discard(self)
                if not watchers:
                    del db.watchers[key]
            if not db.watchers:
                db.watchers = {}                # an emptied dict keeps its memory
        self.watched = {}
        self.watch_failed = False

    def watch(self, key: bytes) -> None:
        """Let the next EXEC fail if the key changes before it."""
        # Not a pair for each key: of pairs that are freed, Python keeps 2,000 for later ones, and with them the arenas
        # in which they lie. After WATCH of 200,000 keys and the end of the connection, that was 78 MB; now it is 3.
        self.watched.setdefault(self.db, set()).add(key)
        self.db.watchers.setdefault(key, set()).add(self)

    def discard_transaction(self) -> None:
        """Leave MULTI, and stop watching."""
        self.queue = None
        self.queued_bytes = 0
        self.queue_failed = False
        self.unwatch_all()
