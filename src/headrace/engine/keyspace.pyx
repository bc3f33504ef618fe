# cython: nonecheck=True
"""One database: its keys and values, when they expire, and who watches or waits for them.

    values    key ─► value
    expires   key ─► Unix ms                 only keys that expire
    slots     [ key, key, None, key, … ]     a key keeps its place while it lives
    accessed  [ s, s, s, s, … ]              the second in which the key at that place was last looked at; of a
                                             stream, which is looked at most, the stream itself knows

Expiry, watching and waiting are the engine's business; this only keeps the books.
"""

cimport cython

from headrace.core.stream cimport Stream

from heapq import heapify, heappop, heappush
from random import randrange

from headrace.core.dict_pages import page_of_keys, without_empty_places
from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet


@cython.final
cdef class Database:
    """See the module."""

    def __cinit__(self, int number):
        self.number = number
        self.values = {}
        self.expires = {}
        self.watchers = {}
        self.waiting = {}
        self.producing = set()
        self.deadlines = []
        self.slots = []
        self.accessed = []
        self.slot_of = {}
        self.free_slots = []

    def __len__(self) -> int:
        return len(self.values)

    cdef object look_up(self, bytes key):
        """The value of a key, expired or not; None where there is none."""
        if key != self.recent_key:
            self.recent_value = self.values.get(key)
            self.recent_key = key
        return self.recent_value

    cdef void forget_look_up(self) noexcept:
        """For whatever changes `values`."""
        self.recent_key = None
        self.recent_value = None

    cpdef int put(self, bytes key, object value) except -1:
        """Set the value of a key; when it expires stays as it was."""
        cdef Py_ssize_t slot
        self.forget_look_up()
        if key not in self.values:
            if self.free_slots:
                slot = self.free_slots.pop()
                self.slots[slot] = key
            else:
                slot = len(self.slots)
                self.slots.append(key)
                self.accessed.append(0)
            self.slot_of[key] = slot
        self.values[key] = value
        if type(value) is Stream and len((<Stream>value).producers):
            self.producing.add(key)
        return 0

    cpdef int note_access(self, bytes key, int64_t second) except -1:
        """A key that exists was looked at in a second."""
        cdef object value = self.values[key]
        if type(value) is Stream:
            (<Stream>value).accessed_s = second
        else:
            self.accessed[<Py_ssize_t>self.slot_of[key]] = second
        return 0

    def last_access(self, key: bytes) -> int:
        """Return the second in which a key that exists was last looked at."""
        value = self.values[key]
        return (<Stream>value).accessed_s if type(value) is Stream else self.accessed[self.slot_of[key]]

    cpdef object take(self, bytes key):
        """Remove a key and return its value; None where there is none."""
        cdef Py_ssize_t slot
        cdef object value = self.values.pop(key, None)
        self.forget_look_up()
        if value is not None:
            self.expires.pop(key, None)
            slot = self.slot_of.pop(key)
            if self.values:
                self.slots[slot] = None
                self.free_slots.append(slot)
            else:
                self.slots = []
                self.accessed = []
                self.free_slots = []
        return value

    cpdef int clear(self) except -1:
        """Forget all keys; those who watch and wait stay."""
        self.forget_look_up()
        self.values = {}
        self.expires = {}
        self.producing = set()
        self.deadlines = []
        self.slots = []
        self.accessed = []
        self.slot_of = {}
        self.free_slots = []
        return 0

    cpdef int set_expiry(self, bytes key, int64_t when_ms) except -1:
        """Let a key expire when a time has passed."""
        self.expires[key] = when_ms
        heappush(self.deadlines, (when_ms, key))
        if len(self.deadlines) > 64 + 4 * len(self.expires):
            self.deadlines = [(when, kept) for kept, when in self.expires.items()]
            heapify(self.deadlines)
        return 0

    def expired(self, now_ms: int, most: int) -> list[bytes]:
        """Take up to `most` keys whose time has passed."""
        keys = []
        while self.deadlines and self.deadlines[0][0] < now_ms and len(keys) < most:
            when, key = heappop(self.deadlines)
            if self.expires.get(key) == when:
                keys.append(key)
        return keys

    def scan(self, cursor: int, most: int) -> tuple[int, list[bytes]]:
        """Return the next cursor (0: that was all), and up to `most` keys below a cursor (0: the end)."""
        return page_of_keys(self.values, cursor, most)

    def close_places(self) -> None:
        """Close the places that removed keys and elements have left, so that walks of before a restart go on."""
        cdef dict values = without_empty_places(self.values)
        self.forget_look_up()
        self.values = values
        for key, value in values.items():
            kind = type(value)
            if kind is dict:
                values[key] = without_empty_places(value)
            elif kind is MemberSet or kind is SortedSet:
                value.close_places()

    def random_key(self) -> bytes | None:
        """Return any key, each as likely as another."""
        if not self.values:
            return None
        if len(self.slots) > 4 * len(self.values):
            return list(self.values)[randrange(len(self.values))]
        while True:
            key = self.slots[randrange(len(self.slots))]
            if key is not None:
                return key

    def swap_with(self, other: Database) -> None:
        """Exchange the keys of two databases, but not who watches and waits for them."""
        self.forget_look_up()
        other.forget_look_up()
        self.values, other.values = other.values, self.values
        self.expires, other.expires = other.expires, self.expires
        self.producing, other.producing = other.producing, self.producing
        self.deadlines, other.deadlines = other.deadlines, self.deadlines
        self.slots, other.slots = other.slots, self.slots
        self.accessed, other.accessed = other.accessed, self.accessed
        self.slot_of, other.slot_of = other.slot_of, self.slot_of
        self.free_slots, other.free_slots = other.free_slots, self.free_slots
