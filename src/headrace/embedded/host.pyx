# cython: nonecheck=True
"""An engine in this process, and which thread may use it when.

    any thread ─► enter ─► run commands ─► settle: replies, what waits, one commit ─► exit
    the maintenance thread ─► turn:  what the disk has taken, alarms, the chores of ten times a second

There is one lock, and the thread that holds it owns the engine. To hand each command to a thread that always owns it
would cost 24 µs for the way there and back (two cores, Python 3.11), where the lock costs less than 0.1.

Effects are committed when the lock is given back. Under `always` the journal's own thread writes and syncs them, and
what other threads do meanwhile is covered by the next sync: group commit, as on the server. A thread waits for the sync
after it has given back the lock (see `headrace.embedded.local_connection`).

A process that was forked has a copy of the engine that must not write; its state says so before any lock is tried.

Ctrl-C waits until its thread is outside (see `headrace.embedded.interrupts`). Another exception that arrives in the
middle of a command, from a signal handler of the program's own, leaves memory with half of what the command does. Then
the database is broken: no thread enters again. A program that opens the directory anew finds all that was acknowledged.
"""

cimport cython
from cpython.exc cimport PyErr_SetInterrupt
from cpython.pythread cimport (
    NOWAIT_LOCK, WAIT_LOCK, PyThread_acquire_lock, PyThread_allocate_lock, PyThread_free_lock,
    PyThread_get_thread_ident, PyThread_release_lock,
)

from headrace.engine.blocking.waking cimport run_due

from headrace.api.errors import DatabaseBusy, DatabaseClosed


@cython.final
cdef class Host:
    """See the module. `store` is None for an engine that keeps nothing."""

    def __cinit__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError

    def __init__(self, engine: Engine, journal: Journal, store):
        self.engine = engine
        self.journal = journal
        self.store = store
        self.later = []
        self.limits = Limits()
        self.connections = set()
        self.idle = []
        engine.chores.set_alarm = self.set_alarm

    def __dealloc__(self):
        PyThread_free_lock(self.lock)

    def take_effects(self) -> None:
        """Commit from now on what the engine does, each time that somebody has been inside."""
        self.journal.schedule = self.commit_later

    # --- coming and going --------------------------------------------------------------------------------------

    cdef int enter(self) except -1:
        """Get the engine for this thread alone."""
        if self.state != OPEN:
            raise self.refusal()
        self.lock_in()
        if self.state != OPEN:
            self.exit()
            raise self.refusal()
        return 0

    cdef int lock_in(self) except -1:
        cdef unsigned long thread = PyThread_get_thread_ident()
        if not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            if self.owner == thread:
                raise DatabaseBusy("a signal handler or finalizer cannot use the database that its thread is using: "
                                   "let another thread do it")
            with nogil:
                PyThread_acquire_lock(self.lock, WAIT_LOCK)
        self.owner = thread
        return 0

    cdef bint is_inside(self) noexcept:
        """Whether this thread has the engine."""
        return self.owner == PyThread_get_thread_ident()

    cdef void exit(self) noexcept:
        cdef bint interrupt = self.interrupt_due
        self.interrupt_due = False
        self.owner = 0
        PyThread_release_lock(self.lock)
        if interrupt:
            PyErr_SetInterrupt()        # as if Ctrl-C came now

    cdef int settle(self) except -1:
        """Let everything happen that follows from what was done: replies, waiting requests, one commit."""
        try:
            return self.settle_all()
        except BaseException:
            self.interrupted()
            raise

    cdef int settle_all(self) except -1:
        while True:
            self.engine.flush_clients()
            if self.later:
                later = self.later
                self.later = []
                for callback in later:
                    callback()
            elif self.commit_due:
                self.commit_due = False
                self.journal.commit()   # which may end connections, where the disk refuses
            else:
                return 0

    cdef int interrupted(self) except -1:
        """An exception that is not the engine's went through it: a command may be half done.

        The effects of finished commands go to disk, and their replies to their connections; then the host ends.
        """
        if self.state != OPEN:
            return 0
        self.state = BROKEN
        self.engine.effects.discard()
        try:
            self.journal.drain()
        finally:
            for connection in list(self.connections):
                connection.end_without_engine()
        return 0

    def postpone_interrupt(self) -> bool:
        """Where this thread is inside, have Ctrl-C come again when it is not, and say so."""
        if not self.is_inside():
            return False
        self.interrupt_due = True
        return True

    def refusal(self) -> DatabaseClosed:
        """Say why no thread can enter."""
        if self.state == FORKED:
            return DatabaseClosed("this process was forked from the one that has the database open, and cannot use it: "
                                  "open another here, or let the parent do the work")
        if self.state == BROKEN:
            rest = "what was in memory is lost" if self.store is None else \
                "close the database and open it again, which finds all that was acknowledged"
            return DatabaseClosed(f"an exception of a signal handler interrupted a command, maybe half way: {rest}")
        return DatabaseClosed("the database is closed")

    # --- what the engine and the journal ask for ---------------------------------------------------------------

    def commit_later(self, commit, _in_a_turn: bool) -> None:
        """Commit when the lock is given back."""
        self.commit_due = True

    def set_alarm(self, when_ms: int) -> None:
        """Have the maintenance thread run what is due at a time."""
        cdef bint sooner = self.alarm_ms == 0 or when_ms < self.alarm_ms
        self.alarm_ms = when_ms
        if sooner and self.wake is not None:
            self.wake()

    def soon(self, callback) -> None:
        """Call a function before the lock is given back; only the thread that holds it asks for that."""
        self.later.append(callback)

    # --- what others do inside ---------------------------------------------------------------------------------

    def turn(self, *, disk: bool, tick: bool) -> None:
        """Do what is due: the work of the maintenance thread."""
        self.enter()
        try:
            if disk:
                self.journal.completed()
            if self.alarm_ms and self.engine.clocks.steady_ms() > self.alarm_ms:
                self.alarm_ms = 0
                run_due(self.engine)
            if tick:
                self.engine.tick()
                if self.store is not None:
                    self.store.tick()
            self.settle()
        finally:
            self.exit()

    def close(self, finish) -> None:
        """Let no thread in any more; `finish` is called while none is, and told whether memory is sound."""
        cdef bint sound
        if self.state != OPEN and self.state != BROKEN:
            return
        self.lock_in()
        try:
            sound = self.state == OPEN
            if sound:
                self.settle()
                self.journal.drain()
                self.state = CLOSED
                for connection in list(self.connections):
                    connection.end()
            self.state = CLOSED
            finish(sound)
            self.engine.free_data()
        finally:
            self.exit()

    def be_forked(self) -> None:
        """This process is a child: whatever the parent was doing, this copy must not go on with it."""
        if self.state == OPEN:
            self.state = FORKED
