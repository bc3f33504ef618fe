# cython: nonecheck=True
"""A message of a stream: an ID and its fields.

    message.id          StreamID('1526919030474-55')
    message["temp"]     '26'
    message.fields      {'dev': '3', 'temp': '26'}

A message is a Mapping of its fields. One that a consumer has read can be acknowledged, given back, or given up.

It keeps the bytes that the stream gave, and makes text of them when asked: most readers look at few fields of many.
What is not UTF-8 becomes lone surrogates, which turn into the same bytes again when they are added somewhere.
"""

cimport cython

from headrace.core.stream_id cimport StreamID

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

cdef object EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@cython.final
@cython.freelist(64)
cdef class Message:
    """See the module. `texts` are the names and values of the fields in turn, as bytes."""

    cdef readonly StreamID id
    cdef list texts
    cdef bint decode
    cdef public bint settled            # it was acknowledged, given back or given up; a loop leaves it alone then
    cdef object consumer                # who has read it, or None
    cdef public object known_deliveries  # how often it was given to a consumer, where that was asked for, else None

    def __init__(self, id: StreamID, texts: list, decode: bool = True):
        self.id = id
        self.texts = texts
        self.decode = decode

    # --- fields ------------------------------------------------------------------------------------------------

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
        return len(self.fields)

    def __iter__(self):
        return iter(self.fields)

    def keys(self):
        """The names of the fields."""
        return self.fields.keys()

    def values(self):
        """The values of the fields."""
        return self.fields.values()

    def items(self):
        """The names of the fields with their values; `pairs` has those that come twice, too."""
        return self.fields.items()

    # --- what a consumer does with it --------------------------------------------------------------------------

    cdef object reader(self):
        if self.consumer is None:
            raise ValueError(f"the message {self.id} was not read by a consumer: there is nobody to settle it for")
        return self.consumer

    @property
    def deliveries(self) -> int:
        """How often a consumer was given it, this time included; the database is asked once. 0 without a consumer."""
        if self.consumer is None:
            return 0
        if self.known_deliveries is None:
            self.known_deliveries = self.consumer.deliveries_of(self)
        return self.known_deliveries

    async def adeliveries(self) -> int:
        """Return the same to a coroutine."""
        if self.consumer is None:
            return 0
        if self.known_deliveries is None:
            self.known_deliveries = await self.consumer.adeliveries_of(self)
        return self.known_deliveries

    def ack(self) -> bool:
        """Acknowledge it; False where it is not pending any more."""
        return bool(self.reader().ack(self))

    async def aack(self) -> bool:
        """Acknowledge it from a coroutine."""
        return bool(await self.reader().aack(self))

    def touch(self) -> bool:
        """Say that it is still being handled, so that nobody claims it; False where somebody else has it now."""
        return bool(self.reader().touch(self))

    async def atouch(self) -> bool:
        """Say so from a coroutine."""
        return bool(await self.reader().atouch(self))

    def nack(self, delay=None) -> None:
        """Say that it could not be handled: it comes again, by the group's rule, or when `delay` is over."""
        self.reader().nack(self, delay)

    async def anack(self, delay=None) -> None:
        """Say so from a coroutine."""
        await self.reader().anack(self, delay)

    def fail(self, reason) -> None:
        """Give it up: it becomes a dead letter, with the reason, and comes no more."""
        self.reader().fail(self, reason)

    async def afail(self, reason) -> None:
        """Give it up from a coroutine."""
        await self.reader().afail(self, reason)

    # --- itself ------------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        """Messages are equal with the same ID and the same bytes; a mapping is equal that has the same fields."""
        if isinstance(other, Message):
            return self.id == (<Message>other).id and self.texts == (<Message>other).texts
        if isinstance(other, Mapping):
            return self.fields == dict(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"Message('{self.id}', {self.fields!r})"

    def __reduce__(self) -> tuple:
        return Message, (self.id, self.texts, self.decode)


Mapping.register(Message)


def read_messages(entries: list, decode: bool, consumer=None) -> list:
    """Make messages of entries as XRANGE replies them; those that were deleted have no fields, and are left out."""
    cdef list found = []
    cdef list entry
    cdef Message message
    for entry in entries:
        if entry[1] is not None:
            message = Message(StreamID.parse(entry[0]), entry[1], decode)
            message.consumer = consumer
            found.append(message)
    return found


def deleted_ids(entries: list) -> list:
    """List the IDs of entries that a group still has pending, but the stream has no more."""
    return [entry[0] for entry in entries if entry[1] is None]
