"""A stream as a Python object.

    stream.add(dev=3, temp=26)          a message at its end; returns the ID
    stream[monday:tuesday]              what lies between, the end left out as in every slice
    for message in stream               all of it
    for message in stream.tail()        what comes from now on

A stream need not exist: it is made by the first message, and one that is not there is empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final, overload

from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID
from headrace.embedded import columns
from headrace.embedded.errors import Refused
from headrace.embedded.group import Group
from headrace.embedded.ids import Position, as_milliseconds, behind, first_id, last_id
from headrace.embedded.local_client import LocalClient, Request, text_of
from headrace.embedded.message import Message, read_messages
from headrace.embedded.policies import Duration, Policy, Size, read_policy, stream_words
from headrace.embedded.scheduled import Delay, Moment, ScheduledMessage, Ticket, read_scheduled, schedule_words

Value = str | bytes | int | float
Fields = Mapping[str, Value] | Mapping[bytes, Value]

_AT_ONCE: Final = 1000  # messages that are read without letting another thread in between


class Stream:
    """One stream of a database. Any number of these objects may stand for the same stream, in any thread.

    Messages are read as text; `decode=False` leaves names and values the bytes they are.
    """

    def __init__(self, client: LocalClient, name: str | bytes, *, decode: bool = True) -> None:
        """Made by `Database.stream`."""
        self._client = client
        self._key = text_of(name)
        self._decode = decode
        self._add = client.add

    @property
    def name(self) -> str:
        """The key of the stream."""
        return self._key.decode("utf-8", "surrogateescape")

    def __repr__(self) -> str:
        return f"<Stream {self.name!r}>"

    # --- adding ----------------------------------------------------------------------------------------------------

    @overload
    def add(  # type: ignore[overload-overlap]
        self, fields: Fields | None = None, /, *, delay: Delay, every: Delay | None = None, **named: Value
    ) -> Ticket: ...
    @overload
    def add(  # type: ignore[overload-overlap]
        self, fields: Fields | None = None, /, *, at: Moment, every: Delay | None = None, **named: Value
    ) -> Ticket: ...
    @overload
    def add(
        self,
        fields: Fields | None = None,
        /,
        *,
        id: Position | None = None,
        maxlen: int | None = None,
        minid: Position | None = None,
        approximate: bool = False,
        **named: Value,
    ) -> StreamID: ...
    def add(  # type: ignore[misc]  # the names of options are no fields
        self,
        fields: Fields | None = None,
        /,
        *,
        id: Position | None = None,
        maxlen: int | None = None,
        minid: Position | None = None,
        approximate: bool = False,
        delay: Delay | None = None,
        at: Moment | None = None,
        every: Delay | None = None,
        **named: Value,
    ) -> StreamID | Ticket:
        """Add a message, and return its ID when it is as safe as `appendfsync` says.

        Fields are keywords, or a mapping where their names are no identifiers or mean something here. Text is stored as
        UTF-8, numbers as their text. With `maxlen` or `minid` the stream is trimmed as `trim` does.

        With `delay` ("5m", seconds, a timedelta) or `at` (a datetime, or Unix milliseconds) the message is added then,
        and with `every` again and again; the ticket that is returned cancels it (`unschedule`).
        """
        row: Any = named if fields is None else fields if not named else {**fields, **named}
        if id is None and maxlen is None and minid is None and delay is None and at is None and every is None:
            return self._add(self._key, row if type(row) is dict else dict(row))
        if delay is None and at is None and every is None:
            return StreamID.parse(self._client.call(*self._request(row, id, maxlen, minid, approximate)))
        _refuse_beside_schedule(id, maxlen, minid)
        return Ticket(self._client.call(*schedule_words(self._key, delay, at, every), *_texts(row)).decode())

    @overload
    async def aadd(  # type: ignore[overload-overlap]
        self, fields: Fields | None = None, /, *, delay: Delay, every: Delay | None = None, **named: Value
    ) -> Ticket: ...
    @overload
    async def aadd(  # type: ignore[overload-overlap]
        self, fields: Fields | None = None, /, *, at: Moment, every: Delay | None = None, **named: Value
    ) -> Ticket: ...
    @overload
    async def aadd(
        self,
        fields: Fields | None = None,
        /,
        *,
        id: Position | None = None,
        maxlen: int | None = None,
        minid: Position | None = None,
        approximate: bool = False,
        **named: Value,
    ) -> StreamID: ...
    async def aadd(  # type: ignore[misc]  # the names of options are no fields
        self,
        fields: Fields | None = None,
        /,
        *,
        id: Position | None = None,
        maxlen: int | None = None,
        minid: Position | None = None,
        approximate: bool = False,
        delay: Delay | None = None,
        at: Moment | None = None,
        every: Delay | None = None,
        **named: Value,
    ) -> StreamID | Ticket:
        """Add a message from a coroutine, as `add` does."""
        row: Any = named if fields is None else fields if not named else {**fields, **named}
        if id is None and maxlen is None and minid is None and delay is None and at is None and every is None:
            return await self._client.aadd(self._key, row if type(row) is dict else dict(row))
        if delay is None and at is None and every is None:
            return StreamID.parse(await self._client.acall(*self._request(row, id, maxlen, minid, approximate)))
        _refuse_beside_schedule(id, maxlen, minid)
        words = schedule_words(self._key, delay, at, every)
        return Ticket((await self._client.acall(*words, *_texts(row))).decode())

    def scheduled(self, count: int | None = None) -> list[ScheduledMessage]:
        """List the messages that are to be added later, or the first of them, in the order in which they are due."""
        limit = [] if count is None else [b"COUNT", b"%d" % count]
        rows = self._client.call(b"HEADRACE", b"SCHEDULED", self._key, *limit)
        return [read_scheduled(row, decode=self._decode) for row in rows]

    def unschedule(self, ticket: Ticket | str) -> bool:
        """Cancel a message that is to be added later; False where it is added already, or was cancelled."""
        return bool(self._client.call(b"HEADRACE", b"UNSCHEDULE", self._key, text_of(ticket)))

    def _request(
        self,
        row: Mapping[Any, Value],
        id: Position | None,
        maxlen: int | None,
        minid: Position | None,
        approximate: bool,
    ) -> Request:
        texts = _texts(row)
        wanted = b"*" if id is None else text_of(id) if isinstance(id, str | bytes) else bytes(first_id(id))
        return [b"XADD", self._key, *_limit(maxlen, minid, approximate), wanted, *texts]

    def add_many(self, rows: Iterable[Fields]) -> int:
        """Add a message for each row, and return how many when all are as safe as `appendfsync` says.

        They are added in runs of a thousand: other threads may add in between, and of a run either all survive a crash
        or none. A row that is refused ends it; the runs before are in the stream.
        """
        return self._client.add_many(self._key, rows)

    async def aadd_many(self, rows: Iterable[Fields]) -> int:
        """Add a message for each row from a coroutine, as `add_many` does."""
        return await self._client.aadd_many(self._key, rows)

    # --- reading ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._client.call(b"XLEN", self._key))

    def __bool__(self) -> bool:
        """A stream is something even where it is empty."""
        return True

    def __iter__(self) -> Iterator[Message]:
        return self.range()

    def __reversed__(self) -> Iterator[Message]:
        return self.range(reverse=True)

    def range(
        self, start: Position = "-", end: Position = "+", *, count: int | None = None, reverse: bool = False
    ) -> Iterator[Message]:
        """Give the messages from start to end, both included: IDs, their texts, or moments.

        Messages that are added or deleted meanwhile are seen if they are still ahead.
        """
        first, last = first_id(start), last_id(end)
        left = count
        while (left is None or left > 0) and first <= last:
            wanted = _AT_ONCE if left is None else min(left, _AT_ONCE)
            bounds = (last, first) if reverse else (first, last)
            found = self._read(b"XREVRANGE" if reverse else b"XRANGE", *bounds, wanted)
            yield from found
            if len(found) < wanted:
                return
            left = None if left is None else left - wanted
            edge = found[-1].id
            if edge in (MIN_ID, MAX_ID):
                return
            if reverse:
                last = edge.predecessor()
            else:
                first = edge.successor()

    def _read(self, command: bytes, begin: StreamID, end: StreamID, count: int) -> list[Message]:
        found = self._client.call(command, self._key, bytes(begin), bytes(end), b"COUNT", b"%d" % count)
        return read_messages(found or [], self._decode)

    def __getitem__(self, place: Position | slice) -> Any:
        """Return the message with an ID, or the list of those in a slice `[start:end]`, whose end is left out."""
        if not isinstance(place, slice):
            id = first_id(place)
            found = self._read(b"XRANGE", id, id, 1)
            if not found:
                raise KeyError(place)
            return found[0]
        if place.step is not None:
            raise ValueError("a slice of a stream has no step; reversed() and range(reverse=True) read it backwards")
        if place.stop is None:
            return list(self.range(MIN_ID if place.start is None else place.start))
        stop = first_id(place.stop)
        if stop == MIN_ID:
            return []
        return list(self.range(MIN_ID if place.start is None else place.start, stop.predecessor()))

    def __contains__(self, place: Position) -> bool:
        id = first_id(place)
        return bool(self._read(b"XRANGE", id, id, 1))

    @property
    def first(self) -> Message | None:
        """The oldest message; None where there is none."""
        return next(self.range(count=1), None)

    @property
    def last(self) -> Message | None:
        """The newest message; None where there is none."""
        return next(self.range(count=1, reverse=True), None)

    @property
    def last_id(self) -> StreamID:
        """The greatest ID that was ever given, whether or not the message is still there."""
        try:
            return StreamID.parse(self._client.call(b"XINFO", b"STREAM", self._key)[b"last-generated-id"])
        except Refused as refusal:
            if refusal.code != "ERR":
                raise
            return MIN_ID  # there is no such key

    def tail(self, start: Position = "$", *, timeout: float | timedelta | None = None) -> Tail:
        """Give messages as they come, for ever, or until none has come for `timeout` seconds.

        `$` begins behind what is there when `tail` is called, an ID behind that ID, a moment with what was added then.
        Good for `for` and for `async for`.
        """
        begin = self.last_id if start == "$" else StreamID.parse(behind(start))
        return Tail(self._client, self._key, begin, timeout, decode=self._decode)

    # --- removing --------------------------------------------------------------------------------------------------

    def delete(self, *messages: Message | Position) -> int:
        """Delete messages, given themselves or by ID; return how many were there."""
        if not messages:
            return 0
        ids = [bytes(each.id if isinstance(each, Message) else first_id(each)) for each in messages]
        return int(self._client.call(b"XDEL", self._key, *ids))

    def trim(self, *, maxlen: int | None = None, minid: Position | None = None, approximate: bool = False) -> int:
        """Remove the oldest messages, down to a length or up to an ID or a moment; return how many went.

        `approximate` removes whole nodes only, which is much cheaper and leaves up to a hundred more.
        """
        if maxlen is None and minid is None:
            raise ValueError("trim needs to know how far: give maxlen or minid")
        return int(self._client.call(b"XTRIM", self._key, *_limit(maxlen, minid, approximate)))

    def drop(self) -> bool:
        """Remove the stream with all its groups; False where there was none."""
        return bool(self._client.call(b"DEL", self._key))

    def policy(
        self,
        *,
        maxlen: int | None = None,
        maxage: Duration | None = None,
        maxbytes: Size | None = None,
        refs: str | None = None,
        drop_acked: bool = False,
    ) -> Policy | None:
        """Set what the stream keeps, in the place of its rule; return what is in force, and what it has done.

        `refs` says what a limit may remove: `keepref`, `delref`, or `acked`, only what every group has finished.
        `drop_acked` deletes a message when every group has acknowledged it. Without any of these, nothing is set; None
        where there is no rule, of the stream or of a pattern that it matches.
        """
        words = stream_words(maxlen, maxage, maxbytes, refs, drop_acked=drop_acked)
        if words:
            self._client.call(b"HEADRACE", b"POLICY", b"SET", self._key, *words)
        return read_policy(self._client.call(b"HEADRACE", b"POLICY", b"GET", self._key))

    def remove_policy(self) -> bool:
        """Take the rule of the stream back; False where it had none of its own."""
        return bool(self._client.call(b"HEADRACE", b"POLICY", b"DEL", self._key))

    # --- groups ----------------------------------------------------------------------------------------------------

    def group(self, name: str, start: Position = "0") -> Group:
        """Return the consumer group of a name; where there is none, it is made, and so is the stream.

        A new group is given the messages behind `start`: all of them, or with `$` only those to come.
        """
        try:
            self._client.call(b"XGROUP", b"CREATE", self._key, text_of(name), behind(start), b"MKSTREAM")
        except Refused as refusal:
            if refusal.code != "BUSYGROUP":
                raise
        return Group(self._client, self._key, name, decode=self._decode)

    def groups(self) -> list[str]:
        """List the names of the groups."""
        try:
            found = self._client.call(b"XINFO", b"GROUPS", self._key)
        except Refused as refusal:
            if refusal.code != "ERR":
                raise
            return []  # there is no such key
        return [group[b"name"].decode("utf-8", "surrogateescape") for group in found]

    # --- columns ---------------------------------------------------------------------------------------------------

    def to_arrow(self, start: Position = "-", end: Position = "+", *, types: Mapping[str, Any] | None = None) -> Any:
        """Return the messages as an Arrow table: their IDs, their times, and a column of text for each field.

        `types` says which columns are not text, such as `{"temp": "int64"}`; what a message lacks is null.
        """
        return columns.to_arrow(self.range(start, end), types or {})

    def to_pandas(self, start: Position = "-", end: Position = "+", *, types: Mapping[str, Any] | None = None) -> Any:
        """Return the messages as a DataFrame, with their IDs as index; for the rest see `to_arrow`."""
        return columns.to_pandas(self.range(start, end), types or {})


class Tail:
    """Messages as they come; made by `Stream.tail`. `position` is the ID of the last one given."""

    def __init__(
        self, client: LocalClient, key: bytes, begin: StreamID, timeout: float | timedelta | None, *, decode: bool
    ) -> None:
        """Read behind an ID."""
        self.position = begin
        self._client = client
        self._key = key
        self._decode = decode
        self._waiting: deque[Message] = deque()
        self._block = _block(timeout)

    def _request(self) -> list[bytes]:
        behind = self._waiting[-1].id if self._waiting else self.position
        return [b"XREAD", b"COUNT", b"100", *self._block, b"STREAMS", self._key, bytes(behind)]

    def _next(self) -> Message | None:
        if not self._waiting:
            return None
        message = self._waiting.popleft()
        self.position = message.id
        return message

    def _take(self, reply: Any) -> None:
        if reply:
            self._waiting.extend(read_messages(reply[self._key], self._decode))

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        if not self._waiting:
            self._take(self._client.call(*self._request()))
        message = self._next()
        if message is None:
            raise StopIteration
        return message

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        if not self._waiting:
            self._take(await self._client.acall(*self._request()))
        message = self._next()
        if message is None:
            raise StopAsyncIteration
        return message


def _block(timeout: float | timedelta | None) -> list[bytes]:
    """The words that let a read wait; a timeout of 0 lets it not wait at all."""
    if timeout is None:
        return [b"BLOCK", b"0"]
    wait = as_milliseconds(timeout)
    return [b"BLOCK", wait] if wait != b"0" else []


def _texts(row: Mapping[Any, Value]) -> list[bytes]:
    """The names and values of a message, in turn."""
    if not row:
        raise ValueError("a message needs at least one field")
    return [text_of(text) for pair in row.items() for text in pair]


def _refuse_beside_schedule(id: Position | None, maxlen: int | None, minid: Position | None) -> None:
    if id is not None or maxlen is not None or minid is not None:
        raise ValueError(
            "a message that is added later gets its ID then, and trims nothing: leave out id, maxlen, minid"
        )


def _limit(maxlen: int | None, minid: Position | None, approximate: bool) -> list[bytes]:
    """The words that say how far to trim."""
    if maxlen is not None and minid is not None:
        raise ValueError("a stream is trimmed to a length or to an ID, not to both: give maxlen or minid")
    how = b"~" if approximate else b"="
    if maxlen is not None:
        return [b"MAXLEN", how, b"%d" % maxlen]
    return [] if minid is None else [b"MINID", how, bytes(first_id(minid))]
