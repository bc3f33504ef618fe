# cython: nonecheck=True
"""The effect log: what was done to the data, in order, encoded once and handed to all that keep or repeat it.

    command ─► add, add … ─► settle: one unit of bytes ─► every subscriber (the journal, replicas)

The effects of one command or transaction are a unit: several are wrapped in MULTI … EXEC, and SELECT stands before an
effect in another database. Units are the text of an append-only file, without the seals that a journal puts between
them.

The offset counts the bytes of all units since the data began to be. Snapshots keep it, and a start counts on from there
with what it repeats, so that it means the same before a restart and after it.

A history is a sequence of units that nobody else writes: its name and an offset say which data there is. Whoever may
come to write something else behind an offset than others have seen branches off, under a new name: a replica that is
promoted, and a master that starts again, because it may have sent more than it had on disk. The histories that led here
are the ancestors, each with the offset where it was left.

    ancestor A ──────── 5000 ┐
    ancestor B               └──── 7200 ┐
    history                             └────────► offset

Where nobody takes effects, nothing is counted. Then a name says nothing of the data any more, and whoever subscribes
finds a new history without ancestors.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.string cimport memcpy

from headrace.core.growth cimport grow
from headrace.core.memory cimport release
from headrace.formats.aof cimport hide, is_hidden_command
from headrace.protocol.reply cimport BULK_OVERHEAD, HEADER_MAX, put_bulk, put_header

from secrets import token_hex

cdef size_t KEPT = 1 << 20              # a buffer that grew beyond this is given back

cdef enum:
    ANCESTORS_MOST = 64

cdef list MULTI = [b"MULTI"]
cdef list EXEC = [b"EXEC"]


cdef bytes new_name():
    """A name that no other history has."""
    return token_hex(20).encode()


cdef class Subscriber:
    """What takes effects as they happen."""

    def __cinit__(self):
        self.starts_anew = True

    cdef int begin(self, EffectLog log) except -1:
        """Get ready for what is taken next, the first after a subscription, or at another place of a history."""
        log.select_anew()
        return 0

    cdef int take(self, const byte_t *data, size_t size) except -1:
        """Take one unit, or several."""
        raise NotImplementedError

    cdef int skip(self, const byte_t *data, size_t size) except -1:
        """Do without what a master has sent and what is of no use here; what is taken next does not follow."""
        self.starts_anew = True
        return 0

    cdef int miss(self) except -1:
        """There was no memory for a unit: it cannot be taken."""
        raise NotImplementedError


@cython.final
cdef class CallbackSubscriber(Subscriber):
    """Calls a function with the bytes of each unit."""

    def __init__(self, callback):
        self.callback = callback

    cdef int take(self, const byte_t *data, size_t size) except -1:
        self.callback(PyBytes_FromStringAndSize(<const char *>data, size))
        return 0

    cdef int miss(self) except -1:
        raise MemoryError


@cython.final
cdef class EffectLog:
    """See the module."""

    def __cinit__(self):
        self.more_pending = []
        self.subscribers = []
        self.selected = -1
        self.history = new_name()
        self.ancestors = []
        self.continuous = True
        self.vocabulary = "auto"

    def __dealloc__(self):
        release(self.data)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Hand all effects from now on to one more."""
        if not self.subscribers and not self.continuous:
            self.history = new_name()
            self.ancestors = []
            self.offset += 1
        self.continuous = True
        if subscriber not in self.subscribers:
            subscriber.starts_anew = True
            self.subscribers.append(subscriber)
        self.decide_wanted()

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Hand it no more effects; nothing where it took none."""
        if subscriber in self.subscribers:
            self.subscribers.remove(subscriber)
            self.lose_track()
        self.decide_wanted()

    # --- histories ---------------------------------------------------------------------------------------------

    def begin_at(self, offset: int, history: bytes | None = None, ancestors=(), database: int = -1) -> None:
        """Continue a history: that of the data that was loaded."""
        self.offset = offset
        self.history = history or new_name()
        self.ancestors = list(ancestors)
        self.selected = database
        self.continuous = True
        self.relocate()

    def branch(self) -> None:
        """Begin a history of our own at this offset, so that nobody takes what comes for what others have written."""
        self.select_anew()
        self.continue_as(new_name())

    def continue_as(self, history: bytes) -> None:
        """Go on under another name: a master has branched off at this offset."""
        if history != self.history:
            self.ancestors = [(self.history, self.offset), *self.ancestors][:ANCESTORS_MOST]
            self.history = history
            self.relocate()
            self.tell_place()           # a start should find the name that others know

    def tell_place(self) -> None:
        """Let subscribers know now at which place of which history they are, not with the next effect."""
        self.begin_subscribers()

    def lose_track(self) -> None:
        """Note that data may change and nobody takes the effects, unless somebody does, or a master counts them."""
        self.continuous = self.continuous and (bool(self.subscribers) or self.following)

    def speak_to(self, vocabulary: str) -> None:
        """Use words that the servers know that are to repeat the effects: a value of rdb-compatibility-version."""
        self.vocabulary = vocabulary

    def select_anew(self) -> None:
        """Let the next effect name its database, because somebody will begin to read there.

        What is selected stays known: a master that we may yet follow, from this very offset, does not name it again.
        """
        self.names_next = True

    cdef int decide_wanted(self) except -1:
        """Find out whether commands must say what they did."""
        self.wanted = PyList_GET_SIZE(self.subscribers) != 0 and not self.paused and not self.following
        return 0

    cdef int relocate(self) except -1:
        """What comes next does not follow what subscribers took last."""
        cdef Subscriber subscriber
        for subscriber in self.subscribers:
            subscriber.starts_anew = True
        return 0

    cdef int begin_subscribers(self) except -1:
        cdef Subscriber subscriber
        cdef Py_ssize_t i
        for i in range(PyList_GET_SIZE(self.subscribers)):
            subscriber = <Subscriber>PyList_GET_ITEM(self.subscribers, i)
            if subscriber.starts_anew:
                subscriber.starts_anew = False
                subscriber.begin(self)
        return 0

    # --- effects of others -------------------------------------------------------------------------------------

    def forward(self, units: bytes, database: int) -> None:
        """Hand over what a master has sent, as it came; behind it, a database is selected."""
        cdef Subscriber subscriber
        self.begin_subscribers()
        self.offset += <uint64_t>PyBytes_GET_SIZE(units)
        self.selected = database
        for subscriber in self.subscribers:
            subscriber.take(<const byte_t *>PyBytes_AS_STRING(units), PyBytes_GET_SIZE(units))

    def skip(self, units: bytes) -> None:
        """Count what a master has sent and what cannot be repeated here: only followers get it."""
        cdef Subscriber subscriber
        self.begin_subscribers()
        self.offset += <uint64_t>PyBytes_GET_SIZE(units)
        for subscriber in self.subscribers:
            subscriber.skip(<const byte_t *>PyBytes_AS_STRING(units), PyBytes_GET_SIZE(units))

    def begin_following(self) -> None:
        """Hand over what was done so far, and from now on only what a master sends."""
        if self.pending is not None:
            self.settle()
        self.following = True
        self.decide_wanted()

    def end_following(self) -> None:
        """Hand over again what is done here."""
        self.following = False
        self.lose_track()
        self.decide_wanted()

    # --- own effects -------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Note nothing: what is done now was noted when it was done first."""
        self.paused = True
        self.decide_wanted()

    def resume(self) -> None:
        """Note effects again."""
        self.paused = False
        self.decide_wanted()

    def discard(self) -> None:
        """Forget what the command that runs has done so far: a snapshot that was just written has it."""
        self.pending = None
        self.more_pending = []

    def write(self, unit: list) -> None:
        """Hand over effects that no engine has run: (database number, argv) each."""
        self.discard()
        for number, argv in unit:
            self.add(number, argv)
        self.settle()

    cdef int settle(self) except -1:
        """Hand over the effects of a command that is over, as one unit."""
        cdef Subscriber subscriber
        cdef Py_ssize_t i
        if not self.wanted:             # CONFIG SET appendonly no, inside the transaction
            self.discard()
            return 0
        self.begin_subscribers()
        if not self.encode():
            self.selected = -1          # no subscriber has seen what a part of the unit selected
            for subscriber in self.subscribers:
                subscriber.miss()
            return 0
        self.offset += self.size
        for i in range(PyList_GET_SIZE(self.subscribers)):
            subscriber = <Subscriber>PyList_GET_ITEM(self.subscribers, i)
            subscriber.take(self.data, self.size)
        if self.capacity > KEPT:
            release(self.data)
            self.data = NULL
            self.capacity = 0
        return 0

    cdef bint encode(self) except -1:
        """Write the effects that are pending as one unit; False: there is no memory for it."""
        cdef bint several = PyList_GET_SIZE(self.more_pending) != 0
        cdef bint fits = True
        self.size = 0
        if several:
            fits = self.put(MULTI)
        fits = fits and self.put_effect(self.pending_database, self.pending)
        self.pending = None
        if several:
            for database, argv in self.more_pending:
                fits = fits and self.put_effect(database, argv)
            fits = fits and self.put(EXEC)
            self.more_pending = []
        return fits

    cdef bint put_effect(self, int database, list argv) except -1:
        """Append an effect, behind a SELECT where that is needed; False: there is no memory for it."""
        if database != self.selected or self.names_next:
            self.names_next = False
            self.selected = database
            if not self.put_select(database):
                return False
        return self.put_hidden(argv) if is_hidden_command(argv) else self.put(argv)

    cdef bint put(self, list argv) noexcept:
        """Append one command; False: there is no memory for it."""
        cdef Py_ssize_t count = PyList_GET_SIZE(argv)
        cdef size_t needed = self.size + HEADER_MAX
        cdef byte_t *p
        cdef PyObject *text
        cdef Py_ssize_t i
        for i in range(count):
            needed += PyBytes_GET_SIZE(<bytes>PyList_GET_ITEM(argv, i)) + BULK_OVERHEAD
        if not grow(&self.data, &self.capacity, needed):
            return False
        p = put_header(self.data + self.size, c"*", count)
        for i in range(count):
            text = PyList_GET_ITEM(argv, i)
            p = put_bulk(p, <const byte_t *>PyBytes_AS_STRING(<bytes>text), PyBytes_GET_SIZE(<bytes>text))
        self.size = p - self.data
        return True

    cdef bint put_select(self, int number) except -1:
        try:
            return self.put([b"SELECT", b"%d" % number])
        except MemoryError:
            return False

    cdef bint put_hidden(self, list argv) except -1:
        """Append a command for which Redis has no word; False: there is no memory for it."""
        cdef bytes text
        try:
            text = hide(argv)
        except MemoryError:
            return False
        if not grow(&self.data, &self.capacity, self.size + <size_t>PyBytes_GET_SIZE(text)):
            return False
        memcpy(self.data + self.size, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))
        self.size += <size_t>PyBytes_GET_SIZE(text)
        return True
