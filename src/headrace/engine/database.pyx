# cython: nonecheck=True
"""One database: its keys and values, when they expire, and which clients watch or wait for them.

    values    key ─► value
    expires   key ─► Unix ms                 only keys that expire
    accessed  key ─► s                       the second in which it was last looked at; of a stream, which is looked
                                             at most, the stream itself knows

What follows when a key expires or changes is the keyspace's business. This only keeps the books, and says through
`expiring` (a chore of the keyspace) when the first key is due, and through `side_keys` which keys have changed that the
server keeps beside streams.
"""

cimport cython
from libc.stdint cimport INT64_MAX

from heapq import heapify, heappop, heappush

from headrace.core.dict_pages import page_of_keys, random_key, without_empty_places
from headrace.core.member_set import MemberSet
from headrace.core.sorted_set import SortedSet

cdef int64_t LAST_MS = INT64_MAX        # a key may be told to live until then; nothing is later


@cython.final
cdef class Database:
    """See the module."""

    def __cinit__(self, int number):
        self.number = number
        self.values = {}
        self.expires = {}
        self.watchers = {}
        self.waiting = {}
        self.producing = {}
        self.deadlines = []
        self.message_deadlines = []
        self.accessed = {}
        self.accessed_now = 0

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
        self.forget_look_up()
        self.values[key] = value
        if type(value) is Stream and len((<Stream>value).producers):
            self.expect_forgetting(key, value)
        if is_side_key(key):
            self.note_side_key(key)
        return 0

    cpdef int note_access(self, bytes key, int64_t second) except -1:
        """A key that exists was looked at in a second."""
        return self.note_access_to(key, self.values[key], second)

    cdef int note_access_to(self, bytes key, object value, int64_t second) except -1:
        """The same, where the value of the key is known."""
        if type(value) is Stream:
            (<Stream>value).accessed_s = second
            self.accessed.pop(key, None)        # of what it held before
            return 0
        if second != self.second_now:           # one number for all keys of a second: 32 bytes less for each
            self.second_now = second
            self.accessed_now = second
        self.accessed[key] = self.accessed_now
        return 0

    def last_access(self, key: bytes) -> int:
        """Return the second in which a key that exists was last looked at."""
        value = self.values[key]
        return (<Stream>value).accessed_s if type(value) is Stream else self.accessed.get(key, 0)

    cpdef object take(self, bytes key):
        """Remove a key and return its value; None where there is none."""
        cdef object value = self.values.pop(key, None)
        self.forget_look_up()
        if value is not None:
            if self.expires:
                self.expires.pop(key, None)
            self.accessed.pop(key, None)
            if is_side_key(key):
                self.note_side_key(key)
        return value

    cdef int note_side_key(self, bytes key) except -1:
        """A key that the server keeps beside a stream has come, changed or gone."""
        if self.side_keys is not None:
            self.side_keys.changed(self, key)
        return 0

    cpdef list clear(self):
        """Forget all keys; clients that watch and wait stay. Returns what held the keys, to be freed."""
        cdef list held = [self.values, self.expires, self.deadlines, self.message_deadlines, self.accessed]
        self.forget_look_up()
        self.values = {}
        self.expires = {}
        self.producing = {}
        self.deadlines = []
        self.message_deadlines = []
        self.accessed = {}
        if self.side_keys is not None:
            self.side_keys.cleared(self)
        return held

    cpdef int set_expiry(self, bytes key, int64_t when_ms) except -1:
        """Let a key expire when a time has passed."""
        self.expires[key] = when_ms
        if not self.deadlines or when_ms < <int64_t>(<tuple>self.deadlines[0])[0]:
            self.expect(min(when_ms, LAST_MS - 1) + 1)
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

    cpdef int expect_forgetting(self, bytes key, Stream stream) except -1:
        """Note when a stream forgets the oldest of what its producers have sent."""
        cdef object when = stream.producers.next_expiry_ms
        if when is None:
            self.producing.pop(key, None)
        elif self.producing.get(key) != when:
            self.producing[key] = when
            heappush(self.message_deadlines, (when, key))
            self.expect(min(when, LAST_MS))
        return 0

    def forgetting(self, now_ms: int, most: int) -> list[bytes]:
        """Take up to `most` keys of streams that have something to forget."""
        keys = []
        while self.message_deadlines and self.message_deadlines[0][0] <= now_ms and len(keys) < most:
            when, key = heappop(self.message_deadlines)
            if self.producing.get(key) == when:
                del self.producing[key]
                keys.append(key)
        return keys

    cdef int expect(self, int64_t when_ms) except -1:
        if self.expiring is not None:
            self.expiring.expect(when_ms)
        return 0

    def next_due(self) -> int | None:
        """Return when the next key expires, or a stream forgets something, in Unix ms; None: never."""
        expiry = min(self.deadlines[0][0] + 1, LAST_MS) if self.deadlines else None
        messages = min(self.message_deadlines[0][0], LAST_MS) if self.message_deadlines else None
        return min((when for when in (expiry, messages) if when is not None), default=None)

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
        return random_key(self.values)

    def swap_with(self, other: Database) -> None:
        """Exchange the keys of two databases, but not the clients that watch and wait for them."""
        self.forget_look_up()
        other.forget_look_up()
        self.values, other.values = other.values, self.values
        self.expires, other.expires = other.expires, self.expires
        self.producing, other.producing = other.producing, self.producing
        self.deadlines, other.deadlines = other.deadlines, self.deadlines
        self.message_deadlines, other.message_deadlines = other.message_deadlines, self.message_deadlines
        self.accessed, other.accessed = other.accessed, self.accessed
        for db in (self, other):
            due = db.next_due()
            if due is not None:
                (<Database>db).expect(due)
        if self.side_keys is not None:
            self.side_keys.swapped(self, other)
