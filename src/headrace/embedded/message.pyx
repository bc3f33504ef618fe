# cython: nonecheck=True
"""A message of a stream: an ID and its fields.

    message.id          StreamID('1526919030474-55')
    message["temp"]     '26'
    message.fields      {'dev': '3', 'temp': '26'}

It keeps the bytes that the stream gave, and makes text of them when asked: most readers look at few fields of many.
What is not UTF-8 becomes lone surrogates, which turn into the same bytes again when they are added somewhere.
"""

cimport cython

from headrace.core.stream_id cimport StreamID

from datetime import UTC, datetime, timedelta

cdef object EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@cython.final
@cython.freelist(64)
cdef class Message:
    """See the module. `texts` are the names and values of the fields in turn, as bytes."""

    cdef readonly StreamID id
    cdef list texts
    cdef bint decode

    def __init__(self, id: StreamID, texts: list, decode: bool = True):
        self.id = id
        self.texts = texts
        self.decode = decode

    cdef object show(self, object text):
        return (<bytes>text).decode("utf-8", "surrogateescape") if self.decode else text

    @property
    def fields(self) -> dict:
        """The fields by name, in their order; of several with the same name, the last."""
        cdef Py_ssize_t i
        return {self.show(self.texts[i]): self.show(self.texts[i + 1]) for i in range(0, len(self.texts), 2)}

    @property
    def pairs(self) -> list:
        """Every name with its value, in their order."""
        cdef Py_ssize_t i
        return [(self.show(self.texts[i]), self.show(self.texts[i + 1])) for i in range(0, len(self.texts), 2)]

    @property
    def time(self) -> datetime:
        """When it was added, by its ID."""
        return EPOCH + timedelta(milliseconds=self.id.ms)

    cdef object find(self, object name):
        """The value of a field as bytes, or None."""
        cdef Py_ssize_t i
        cdef bytes sought
        if isinstance(name, str):
            sought = name.encode("utf-8", "surrogateescape")
        elif isinstance(name, bytes):
            sought = name
        else:
            return None
        for i in range(len(self.texts) - 2, -1, -2):
            if self.texts[i] == sought:
                return self.texts[i + 1]
        return None

    def get(self, name, default=None):
        """Return the value of a field, or the default where there is no such field."""
        value = self.find(name)
        return default if value is None else self.show(value)

    def __getitem__(self, name):
        value = self.find(name)
        if value is None:
            raise KeyError(name)
        return self.show(value)

    def __contains__(self, name) -> bool:
        return self.find(name) is not None

    def __len__(self) -> int:
        return len(self.texts) // 2

    def __iter__(self):
        return iter(self.fields)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self.id == (<Message>other).id and self.texts == (<Message>other).texts

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"Message('{self.id}', {self.fields!r})"

    def __reduce__(self) -> tuple:
        return Message, (self.id, self.texts, self.decode)


def read_messages(entries: list, decode: bool) -> list:
    """Make messages of entries as XRANGE replies them; those that were deleted have no fields, and are left out."""
    cdef list found = []
    cdef list entry
    for entry in entries:
        if entry[1] is not None:
            found.append(Message(StreamID.parse(entry[0]), entry[1], decode))
    return found


def deleted_ids(entries: list) -> list:
    """List the IDs of entries that a group still has pending, but the stream has no more."""
    return [entry[0] for entry in entries if entry[1] is None]
