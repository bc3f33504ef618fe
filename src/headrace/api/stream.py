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

from headrace.api import columns
from headrace.api.errors import NotSupported, Refused
from headrace.api.group import Group
from headrace.api.ids import Position, as_seconds, behind, first_id, last_id
from headrace.api.message import Message, read_messages
from headrace.api.pause import Pause
from headrace.api.policies import Duration, Policy, Size, reference_words, set_policy, stream_words
from headrace.api.runner import CommandRunner, Plan, Request, afollow, follow, text_of, texts_of
from headrace.api.scheduled import Delay, Moment, ScheduledMessage, Ticket, read_scheduled, schedule_words
from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID

Value = str | bytes | int | float | StreamID
Fields = Mapping[Any, Value]  # names are str or bytes; type checkers take {'n': 1, 'text': 'x'} only for this
Producer = tuple[str | bytes, str | bytes | int]  # the producer of a message, and its name for the message

_AT_ONCE: Final = 1000  # messages that are read without letting another thread in between


class Stream:
    """One stream of a database. Any number of these objects may stand for the same stream, in any thread.

    Messages are read as text; `decode=False` leaves names and values as bytes. Methods that talk to the database have
    a twin for coroutines, with an `a` in front: `add` and `aadd`, `range` and `arange`, `len(stream)` and `alen`.
    """

    def __init__(self, runner: CommandRunner, name: str | bytes, *, decode: bool = True) -> None:
        """Made by `Database.stream`."""
        self._runner = runner
        self._key = text_of(name)
        self._decode = decode
        self._add = runner.add

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
        policy: str | None = None,
        idmp: Producer | None = None,
        **named: Value,
    ) -> StreamID: ...
    def add(self, fields: Fields | None = None, /, **named: Any) -> StreamID | Ticket:
        """Add a message, and return its ID when it is as safe as `appendfsync` says.

        Fields are keywords, or a mapping where their names are no identifiers or mean something here. Text is stored as
        UTF-8, numbers as their text. With `maxlen` or `minid` the stream is trimmed as `trim` does, and `policy` says
        what that may remove. With `idmp=("sensor-3", "reading-17")`, a message that its producer has sent before is not
        added again; what is returned is the ID that it got then.

        With `delay` ("5m", seconds, a timedelta) or `at` (a datetime, or Unix milliseconds) the message is added then,
        and with `every` again and again; the ticket that is returned cancels it (`unschedule`).
        """
        if _OPTIONS.isdisjoint(named):
            row: Any = named if fields is None else fields if not named else {**fields, **named}
            return self._add(self._key, row if type(row) is dict else dict(row))
        options = _Options(named)
        row = named if fields is None else {**fields, **named}
        if not options.later:
            return follow(self._runner, _add(self._key, options.words(), row))
        words = schedule_words(self._key, options.delay, options.at, options.every)
        return Ticket((self._runner.call(*words, *texts_of(row))).decode())

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
        policy: str | None = None,
        idmp: Producer | None = None,
        **named: Value,
    ) -> StreamID: ...
    async def aadd(self, fields: Fields | None = None, /, **named: Any) -> StreamID | Ticket:
        """Add a message from a coroutine, as `add` does."""
        if _OPTIONS.isdisjoint(named):
            row: Any = named if fields is None else fields if not named else {**fields, **named}
            return await self._runner.aadd(self._key, row if type(row) is dict else dict(row))
        options = _Options(named)
        row = named if fields is None else {**fields, **named}
        if not options.later:
            return await afollow(self._runner, _add(self._key, options.words(), row))
        words = schedule_words(self._key, options.delay, options.at, options.every)
        return Ticket((await self._runner.acall(*words, *texts_of(row))).decode())

    def add_many(self, rows: Iterable[Fields]) -> int:
        """Add a message for each row, and return how many when all are as safe as `appendfsync` says.

        They are added in runs of a thousand: others may add in between. In this process, of a run either all survive a
        crash or none. A row that is refused ends it; the runs before are in the stream.
        """
        return self._runner.add_many(self._key, rows)

    async def aadd_many(self, rows: Iterable[Fields]) -> int:
        """Add a message for each row from a coroutine, as `add_many` does."""
        return await self._runner.aadd_many(self._key, rows)

    def scheduled(self, count: int | None = None) -> list[ScheduledMessage]:
        """List the messages that are to be added later, or the first of them, in the order in which they are due."""
        return self._scheduled(self._runner.call(*self._list_scheduled(count)))

    async def ascheduled(self, count: int | None = None) -> list[ScheduledMessage]:
        """List them from a coroutine."""
        return self._scheduled(await self._runner.acall(*self._list_scheduled(count)))

    def _list_scheduled(self, count: int | None) -> Request:
        return [b"HEADRACE", b"SCHEDULED", self._key, *([] if count is None else [b"COUNT", b"%d" % count])]

    def _scheduled(self, rows: Any) -> list[ScheduledMessage]:
        return [read_scheduled(row, decode=self._decode) for row in rows]

    def unschedule(self, ticket: Ticket | str) -> bool:
        """Cancel a message that is to be added later; False where it is added already, or was cancelled."""
        return bool(self._runner.call(b"HEADRACE", b"UNSCHEDULE", self._key, text_of(ticket)))

    async def aunschedule(self, ticket: Ticket | str) -> bool:
        """Cancel it from a coroutine."""
        return bool(await self._runner.acall(b"HEADRACE", b"UNSCHEDULE", self._key, text_of(ticket)))

    # --- reading ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self._runner.call(b"XLEN", self._key))

    async def alen(self) -> int:
        """Return how many messages there are, to a coroutine."""
        return int(await self._runner.acall(b"XLEN", self._key))

    def __bool__(self) -> bool:
        """A stream is true, also where it is empty."""
        return True

    def __iter__(self) -> Iterator[Message]:
        return self.range()

    def __aiter__(self) -> AsyncIterator[Message]:
        return self.arange()

    def __reversed__(self) -> Iterator[Message]:
        return self.range(reverse=True)

    def range(
        self, start: Position = "-", end: Position = "+", *, count: int | None = None, reverse: bool = False
    ) -> Iterator[Message]:
        """Give the messages from start to end, both included: IDs, their texts, or moments.

        Messages that are added or deleted meanwhile are seen if they are still ahead.
        """
        walk = _Walk(first_id(start), last_id(end), count, reverse=reverse)
        while not walk.over:
            yield from walk.take(self._runner.call(*walk.request(self._key)), self._decode)

    async def arange(
        self, start: Position = "-", end: Position = "+", *, count: int | None = None, reverse: bool = False
    ) -> AsyncIterator[Message]:
        """Give messages to `async for`, as `range` does."""
        walk = _Walk(first_id(start), last_id(end), count, reverse=reverse)
        while not walk.over:
            for message in walk.take(await self._runner.acall(*walk.request(self._key)), self._decode):
                yield message

    @overload
    def __getitem__(self, place: Position) -> Message: ...
    @overload
    def __getitem__(self, place: slice) -> list[Message]: ...
    def __getitem__(self, place: Position | slice) -> Message | list[Message]:
        """Return the message with an ID, or the list of those in a slice `[start:end]`, whose end is left out."""
        if not isinstance(place, slice):
            message = self.get(place)
            if message is None:
                raise KeyError(place)
            return message
        if place.step is not None:
            raise ValueError("a slice of a stream has no step; reversed() and range(reverse=True) read it backwards")
        if place.stop is None:
            return list(self.range(MIN_ID if place.start is None else place.start))
        stop = first_id(place.stop)
        if stop == MIN_ID:
            return []
        return list(self.range(MIN_ID if place.start is None else place.start, stop.predecessor()))

    def __contains__(self, place: Position) -> bool:
        return self.get(place) is not None

    def get(self, place: Position) -> Message | None:
        """Return the message with an ID; None where there is none."""
        id = first_id(place)
        return next(self.range(id, id, count=1), None)

    async def aget(self, place: Position) -> Message | None:
        """Return the message with an ID to a coroutine."""
        id = first_id(place)
        return await anext(self.arange(id, id, count=1), None)

    @property
    def first(self) -> Message | None:
        """The oldest message; None where there is none."""
        return next(self.range(count=1), None)

    async def afirst(self) -> Message | None:
        """Return the oldest message to a coroutine."""
        return await anext(self.arange(count=1), None)

    @property
    def last(self) -> Message | None:
        """The newest message; None where there is none."""
        return next(self.range(count=1, reverse=True), None)

    async def alast(self) -> Message | None:
        """Return the newest message to a coroutine."""
        return await anext(self.arange(count=1, reverse=True), None)

    @property
    def last_id(self) -> StreamID:
        """The greatest ID that was ever given, whether or not the message is still there."""
        return follow(self._runner, _last_id(self._key))

    async def alast_id(self) -> StreamID:
        """Return the greatest ID that was ever given to a coroutine."""
        return await afollow(self._runner, _last_id(self._key))

    def tail(self, start: Position = "$", *, timeout: float | timedelta | None = None) -> Tail:
        """Give messages as they come, for ever, or until none has come for `timeout` seconds.

        `$` begins behind what is there when `tail` is called, an ID behind that ID, a moment with what was added then.
        Good for `for` and for `async for`.
        """
        begin = self.last_id if start == "$" else StreamID.parse(behind(start))
        return Tail(self._runner, self._key, begin, timeout, decode=self._decode)

    async def atail(self, start: Position = "$", *, timeout: float | timedelta | None = None) -> Tail:
        """Return what `tail` returns to a coroutine, which does not wait for the server then."""
        begin = await self.alast_id() if start == "$" else StreamID.parse(behind(start))
        return Tail(self._runner, self._key, begin, timeout, decode=self._decode)

    # --- removing --------------------------------------------------------------------------------------------------

    def delete(self, *messages: Message | Position) -> int:
        """Delete messages, given themselves or by ID; return how many were there."""
        return int(self._runner.call(b"XDEL", self._key, *_ids(messages))) if messages else 0

    async def adelete(self, *messages: Message | Position) -> int:
        """Delete messages from a coroutine."""
        return int(await self._runner.acall(b"XDEL", self._key, *_ids(messages))) if messages else 0

    def trim(
        self,
        *,
        maxlen: int | None = None,
        minid: Position | None = None,
        approximate: bool = False,
        policy: str | None = None,
    ) -> int:
        """Remove the oldest messages, down to a length or up to an ID or a moment; return how many went.

        `approximate` removes whole nodes only, which is much cheaper and leaves up to a hundred more. `policy` says
        what becomes of pending records: "keepref" leaves them, "delref" removes them with their messages, and with
        "acked" nothing goes that a group has not acknowledged.
        """
        return follow(self._runner, _trim(self._key, maxlen, minid, policy, approximate=approximate))

    async def atrim(
        self,
        *,
        maxlen: int | None = None,
        minid: Position | None = None,
        approximate: bool = False,
        policy: str | None = None,
    ) -> int:
        """Remove the oldest messages from a coroutine, as `trim` does."""
        return await afollow(self._runner, _trim(self._key, maxlen, minid, policy, approximate=approximate))

    def drop(self) -> bool:
        """Remove the stream with all its groups; False where there was none."""
        return bool(self._runner.call(b"DEL", self._key))

    async def adrop(self) -> bool:
        """Remove the stream from a coroutine."""
        return bool(await self._runner.acall(b"DEL", self._key))

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
        return follow(self._runner, set_policy([self._key], words))

    async def apolicy(
        self,
        *,
        maxlen: int | None = None,
        maxage: Duration | None = None,
        maxbytes: Size | None = None,
        refs: str | None = None,
        drop_acked: bool = False,
    ) -> Policy | None:
        """Set what the stream keeps from a coroutine, as `policy` does."""
        words = stream_words(maxlen, maxage, maxbytes, refs, drop_acked=drop_acked)
        return await afollow(self._runner, set_policy([self._key], words))

    def remove_policy(self) -> bool:
        """Take the rule of the stream back; False where it had none of its own."""
        return bool(self._runner.call(b"HEADRACE", b"POLICY", b"DEL", self._key))

    async def aremove_policy(self) -> bool:
        """Take the rule of the stream back from a coroutine."""
        return bool(await self._runner.acall(b"HEADRACE", b"POLICY", b"DEL", self._key))

    # --- groups ----------------------------------------------------------------------------------------------------

    def group(self, name: str, start: Position = "0") -> Group:
        """Return the consumer group of a name; where there is none, it is made, and so is the stream.

        A new group is given the messages behind `start`: all of them, or with `$` only those to come.
        """
        follow(self._runner, _make_group(self._key, name, start))
        return Group(self._runner, self._key, name, decode=self._decode)

    async def agroup(self, name: str, start: Position = "0") -> Group:
        """Return a consumer group to a coroutine, as `group` does."""
        await afollow(self._runner, _make_group(self._key, name, start))
        return Group(self._runner, self._key, name, decode=self._decode)

    def groups(self) -> list[str]:
        """List the names of the groups."""
        return follow(self._runner, _list_groups(self._key))

    async def agroups(self) -> list[str]:
        """List the names of the groups from a coroutine."""
        return await afollow(self._runner, _list_groups(self._key))

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
        self, runner: CommandRunner, key: bytes, begin: StreamID, timeout: float | timedelta | None, *, decode: bool
    ) -> None:
        """Read behind an ID."""
        self.position = begin
        self._runner = runner
        self._key = key
        self._decode = decode
        self._waiting: deque[Message] = deque()
        self._pause = Pause(None if timeout is None else as_seconds(timeout), runner.longest_wait)

    def _request(self) -> list[bytes]:
        behind = self._waiting[-1].id if self._waiting else self.position
        return [b"XREAD", b"COUNT", b"100", *self._pause.words(), b"STREAMS", self._key, bytes(behind)]

    def _take(self, reply: Any) -> bool:
        """Keep what has come; tell whether to ask again."""
        if reply:
            self._waiting.extend(read_messages(reply[self._key], self._decode))
            self._pause.begin()
        return not self._waiting and not self._pause.over

    def _next(self) -> Message | None:
        if not self._waiting:
            return None
        message = self._waiting.popleft()
        self.position = message.id
        return message

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        if not self._waiting:
            self._pause.begin()
            while self._take(self._runner.call(*self._request())):
                pass
        message = self._next()
        if message is None:
            raise StopIteration
        return message

    def __aiter__(self) -> AsyncIterator[Message]:
        return self

    async def __anext__(self) -> Message:
        if not self._waiting:
            self._pause.begin()
            while self._take(await self._runner.acall(*self._request())):
                pass
        message = self._next()
        if message is None:
            raise StopAsyncIteration
        return message


class _Walk:
    """How far an iteration over a stream has got."""

    def __init__(self, first: StreamID, last: StreamID, count: int | None, *, reverse: bool) -> None:
        self._first, self._last = first, last
        self._left = count
        self._reverse = reverse
        self._wanted = 0
        self.over = first > last or (count is not None and count <= 0)

    def request(self, key: bytes) -> Request:
        """Write what reads the next messages."""
        self._wanted = _AT_ONCE if self._left is None else min(self._left, _AT_ONCE)
        name, begin, end = b"XRANGE", self._first, self._last
        if self._reverse:
            name, begin, end = b"XREVRANGE", self._last, self._first
        return [name, key, bytes(begin), bytes(end), b"COUNT", b"%d" % self._wanted]

    def take(self, reply: Any, decode: bool) -> list[Message]:
        """Read what has come, and move behind it."""
        found = read_messages(reply or [], decode)
        if self._left is not None:
            self._left -= self._wanted
        if len(found) < self._wanted or self._left == 0 or found[-1].id in (MIN_ID, MAX_ID):
            self.over = True
        elif self._reverse:
            self._last = found[-1].id.predecessor()
        else:
            self._first = found[-1].id.successor()
        self.over = self.over or self._first > self._last
        return found


# --- commands of a stream, one by one --------------------------------------------------------------------------------


def _ids(messages: Iterable[Message | Position]) -> list[bytes]:
    return [bytes(each.id if isinstance(each, Message) else first_id(each)) for each in messages]


_OPTIONS: Final = frozenset(
    ("id", "maxlen", "minid", "approximate", "policy", "idmp", "delay", "at", "every"),
)


class _Options:
    """The options of `add`, taken out of its keyword arguments; the rest are fields.

    Python compares each name that it is given with each that a function names, so that nine options in its signature
    took a tenth of the time of an add in process.
    """

    def __init__(self, named: dict[str, Any]) -> None:
        self.id: Position | None = named.pop("id", None)
        self.maxlen: int | None = named.pop("maxlen", None)
        self.minid: Position | None = named.pop("minid", None)
        self.approximate: bool = named.pop("approximate", False)
        self.policy: str | None = named.pop("policy", None)
        self.idmp: Producer | None = named.pop("idmp", None)
        self.delay: Delay | None = named.pop("delay", None)
        self.at: Moment | None = named.pop("at", None)
        self.every: Delay | None = named.pop("every", None)
        others = (self.id, self.maxlen, self.minid, self.policy, self.idmp)
        if self.later and any(other is not None for other in others):
            raise ValueError(
                "a message that is added later gets its ID then, and trims nothing: leave out id, maxlen, minid, "
                "policy and idmp"
            )

    @property
    def later(self) -> bool:
        return self.delay is not None or self.at is not None or self.every is not None

    def words(self) -> Request:
        """Write what stands in front of the fields."""
        id = self.id
        wanted = b"*" if id is None else text_of(id) if isinstance(id, str | bytes) else bytes(first_id(id))
        if self.idmp is not None and wanted != b"*":
            raise ValueError("a message that its producer names by idmp gets its ID from the stream: leave out id")
        once = [] if self.idmp is None else [b"IDMP", text_of(self.idmp[0]), text_of(self.idmp[1])]
        limit = _limit(self.maxlen, self.minid, self.approximate)
        return [*reference_words(self.policy), *once, *limit, wanted]


def _add(key: bytes, options: Request, row: Mapping[Any, Value]) -> Plan[StreamID]:
    try:
        reply = yield [b"XADD", key, *options, *texts_of(row)]
    except Refused as refusal:
        raise _explained(refusal, options, "add()") from None
    return StreamID.parse(reply)


def _trim(
    key: bytes, maxlen: int | None, minid: Position | None, policy: str | None, *, approximate: bool
) -> Plan[int]:
    if maxlen is None and minid is None:
        raise ValueError("trim needs to know how far: give maxlen or minid")
    references = reference_words(policy)
    try:
        reply = yield [b"XTRIM", key, *_limit(maxlen, minid, approximate), *references]
    except Refused as refusal:
        raise _explained(refusal, references, "trim()") from None
    return int(reply)


_RECENT: Final = {b"IDMP", b"KEEPREF", b"DELREF", b"ACKED"}


def _explained(refusal: Refused, words: Request, method: str) -> Refused:
    """Say that a server lacks an option; it took its words for something else, and refused that."""
    if _RECENT.isdisjoint(words) or refusal.code != "ERR":
        return refusal
    if not any(sign in str(refusal) for sign in ("syntax error", "Invalid stream ID", "wrong number of arguments")):
        return refusal
    option, version = ("idmp", "8.6") if b"IDMP" in words else ("policy", "8.2")
    return NotSupported(
        f"ERR the server does not know {option} of {method}, which Headrace and Redis from {version} on do: {refusal}"
    )


def _limit(maxlen: int | None, minid: Position | None, approximate: bool) -> list[bytes]:
    """The words that say how far to trim."""
    if maxlen is not None and minid is not None:
        raise ValueError("a stream is trimmed to a length or to an ID, not to both: give maxlen or minid")
    how = b"~" if approximate else b"="
    if maxlen is not None:
        return [b"MAXLEN", how, b"%d" % maxlen]
    return [] if minid is None else [b"MINID", how, bytes(first_id(minid))]


def _last_id(key: bytes) -> Plan[StreamID]:
    try:
        found = yield [b"XINFO", b"STREAM", key]
    except Refused as refusal:
        if refusal.code != "ERR":
            raise
        return MIN_ID  # there is no such key
    return StreamID.parse(found[b"last-generated-id"])


def _make_group(key: bytes, name: str, start: Position) -> Plan[None]:
    try:
        yield [b"XGROUP", b"CREATE", key, text_of(name), behind(start), b"MKSTREAM"]
    except Refused as refusal:
        if refusal.code != "BUSYGROUP":
            raise


def _list_groups(key: bytes) -> Plan[list[str]]:
    try:
        found = yield [b"XINFO", b"GROUPS", key]
    except Refused as refusal:
        if refusal.code != "ERR":
            raise
        return []  # there is no such key
    return [group[b"name"].decode("utf-8", "surrogateescape") for group in found]
