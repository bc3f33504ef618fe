"""A radix tree for Python: a mapping of bytes to objects, in key order.

    tree:    "tap" ─► 2 ─┐     "tape" ─► NULL, which is None     "toad" ─► 1 ─┐
    values:  [ object of "toad", object of "tap", … ]                         │
                    ▲                   └──────── slot 2, counted from 1      │
                    └─────────────────────────────────────────────────────────┘

The tree's pointers are numbers of slots in a list, so the garbage collector sees every value and cycles through
the map are found. A free slot holds the number of the next free one.

A call that raises has changed nothing. A value that leaves the map is let go when the map is whole again, so its
`__del__` may use the map.
"""

cimport cython

from headrace.core.memory cimport byte_t
from headrace.core.rax cimport Rax
from headrace.core.rax_iterator cimport RaxIterator

from headrace.core.rax_drawing import draw, shape

cdef object ABSENT = object()


@cython.final
cdef class RaxMap:
    """An ordered mapping of bytes to objects that may change while it is iterated over."""

    def __cinit__(self):
        self.tree = Rax()
        self.values = []

    # ---- slots ----

    cdef void *hold(self, object value) except? NULL:
        """What to store in the tree for a value."""
        cdef Py_ssize_t slot = self.free_slot
        if value is None:
            return NULL
        if slot:
            self.free_slot = self.values[slot - 1]
            self.values[slot - 1] = value
        else:
            self.values.append(value)
            slot = len(self.values)
        return <void *> slot

    cdef object held(self, void *stored):
        return None if stored == NULL else self.values[<Py_ssize_t> stored - 1]

    cdef object let_go(self, void *stored):
        """Free the slot; the caller's reference is the last one that the map leaves behind."""
        cdef object value = None
        if stored != NULL:
            value = self.values[<Py_ssize_t> stored - 1]
            self.values[<Py_ssize_t> stored - 1] = self.free_slot
            self.free_slot = <Py_ssize_t> stored
        return value

    # ---- changing ----

    def insert(self, bytes key not None, object value) -> bool:
        """Set the value of a key. True: the key is new."""
        cdef void *stored = self.hold(value)
        cdef void *old = NULL
        cdef bint created
        try:
            created = self.tree.insert(<const byte_t *> <char *> key, len(key), stored, &old)
        except MemoryError:
            self.let_go(stored)
            raise
        former = None if created else self.let_go(old)
        del former
        return created

    def try_insert(self, bytes key not None, object value) -> bool:
        """Set the value of a key unless it has one. True: the key is new."""
        cdef void *stored = self.hold(value)
        cdef bint created = False
        try:
            created = self.tree.try_insert(<const byte_t *> <char *> key, len(key), stored, NULL)
        finally:
            if not created:
                self.let_go(stored)
        return created

    def remove(self, bytes key not None) -> object:
        """Take a key out, and return its value."""
        cdef void *stored = NULL
        if not self.tree.remove(<const byte_t *> <char *> key, len(key), &stored):
            raise KeyError(key)
        return self.let_go(stored)

    def clear(self) -> None:
        """Take every key out."""
        cdef list values = self.values
        self.tree.clear(NULL)
        self.values = []
        self.free_slot = 0
        del values

    # ---- finding ----

    cpdef object find(self, bytes key, object default=None):
        """The value of a key."""
        cdef void *stored = NULL
        return self.held(stored) if self.tree.find(<const byte_t *> <char *> key, len(key), &stored) else default

    def find_floor(self, bytes key not None, object default=None) -> object:
        """The value of the greatest key that is not greater than this one."""
        cdef void *stored = NULL
        return self.held(stored) if self.tree.find_floor(<const byte_t *> <char *> key, len(key), &stored) else default

    def find_first(self, object default=None) -> object:
        """The value of the smallest key."""
        cdef void *stored = NULL
        return self.held(stored) if self.tree.find_first(&stored) else default

    def find_last(self, object default=None) -> object:
        """The value of the greatest key."""
        cdef void *stored = NULL
        return self.held(stored) if self.tree.find_last(&stored) else default

    # ---- as a mapping ----

    def __len__(self) -> int:
        return self.tree.numele

    def __contains__(self, bytes key not None) -> bool:
        return self.tree.find(<const byte_t *> <char *> key, len(key), NULL)

    def __getitem__(self, bytes key not None) -> object:
        cdef object value = self.find(key, ABSENT)
        if value is ABSENT:
            raise KeyError(key)
        return value

    def __setitem__(self, bytes key not None, object value) -> None:
        self.insert(key, value)

    def __delitem__(self, bytes key not None) -> None:
        self.remove(key)

    def __iter__(self):
        for key, _ in self.items():
            yield key

    def items(self):
        """Pairs of key and value, in key order."""
        cdef RaxMapIterator walk = RaxMapIterator(self)
        walk.seek("^")
        while (pair := walk.next()) is not None:
            yield pair

    def range(self, bytes start not None=b"", bytes end=None):
        """Iterate over keys and values from `start` on, up to before `end`; the map may change meanwhile."""
        cdef RaxMapIterator walk = self.iterator()
        cdef tuple pair
        walk.seek(">=", start)
        while (pair := walk.next()) is not None and (end is None or <bytes> pair[0] < end):
            yield pair

    def prefix(self, bytes start not None):
        """Iterate over the keys that begin so, and their values; the map may change meanwhile."""
        cdef RaxMapIterator walk = self.iterator()
        cdef tuple pair
        walk.seek(">=", start)
        while (pair := walk.next()) is not None and (<bytes> pair[0]).startswith(start):
            yield pair

    def iterator(self) -> RaxMapIterator:
        """A walker that can be placed anywhere and step both ways."""
        return RaxMapIterator(self)

    # ---- as a structure ----

    @property
    def numele(self) -> int:
        """Keys."""
        return self.tree.numele

    @property
    def numnodes(self) -> int:
        """Nodes, the head included."""
        return self.tree.numnodes

    @property
    def allocated(self) -> int:
        """Heap bytes of all nodes."""
        return self.tree.allocated

    def shape(self) -> dict:
        """The tree as nested plain data: see `rax_drawing.shape`."""
        return shape(self.tree)

    def draw(self) -> str:
        """The tree as a text picture: see `rax_drawing.draw`."""
        return draw(self.tree)


@cython.final
cdef class RaxMapIterator:
    """Steps through a RaxMap in key order, both ways, while the map may change.

    After a seek the first step, either way, gives the element sought. Past either end, steps give None until the
    next seek.
    """

    def __cinit__(self, RaxMap map not None):
        self.map = map
        self.walk = RaxIterator(map.tree)

    def seek(self, str op not None, bytes key not None=b"") -> bool:
        """Go to the first (^) or last ($) element, or to the one at or nearest to a key (= > >= < <=)."""
        # For C, a NUL would end the name of a seek.
        cdef bytes name = op.encode("ascii", "replace").replace(b"\0", b"?")
        return self.walk.seek(name, <const byte_t *> <char *> key, len(key))

    def next(self) -> tuple | None:
        """The next key and its value."""
        return self.pair() if self.walk.next() else None

    def prev(self) -> tuple | None:
        """The previous key and its value."""
        return self.pair() if self.walk.prev() else None

    @property
    def key(self) -> bytes:
        """The key where it stands; at the end, where it stood last."""
        return self.walk.key[:self.walk.key_size]

    cdef tuple pair(self):
        return (self.key, self.map.held(self.walk.value))
