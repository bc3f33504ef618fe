"""Consumer groups: each message goes to one consumer, and is pending until that one has acknowledged it.

    group = stream.group("billing")
    for message in group.consumer("c1"):        acknowledged when the loop asks for the next
        handle(message)                         an exception leaves it pending: it is the first one next time

    with consumer.batch(100) as messages:       all acknowledged at the end, or none
        handle_all(messages)

A consumer is given what it left unacknowledged first, then what is new.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any, Final, NamedTuple

from headrace.core.stream_id import StreamID
from headrace.embedded.ids import Position, as_milliseconds, as_seconds, behind, first_id
from headrace.embedded.local_client import LocalClient, Request, text_of
from headrace.embedded.message import Message, deleted_ids, read_messages
from headrace.embedded.policies import Duration, Policy, group_words, read_policy

_NEW: Final = b">"
_AT_ONCE: Final = 1000  # pending records that are listed without letting another thread in between


class Pending(NamedTuple):
    """A message that a consumer was given and has not acknowledged."""

    id: StreamID
    consumer: str
    idle: timedelta  # since it was given
    deliveries: int  # how often


class Group:
    """One consumer group of a stream; made by `Stream.group`."""

    def __init__(self, client: LocalClient, key: bytes, name: str, *, decode: bool) -> None:
        """Stand for a group that exists."""
        self.name = name
        self._client = client
        self._key = key
        self._group = text_of(name)
        self._decode = decode

    def __repr__(self) -> str:
        return f"<Group {self.name!r} of {_text(self._key)!r}>"

    def consumer(self, name: str, *, timeout: float | timedelta | None = None, prefetch: int = 1) -> Consumer:
        """Return a consumer; at any time, one thread or task should use a name.

        Reading ends when nothing has come for `timeout` seconds; without one, it waits for ever. With `prefetch`, so
        many messages are taken from the group at a time, which is faster and keeps them from other consumers.
        """
        return Consumer(
            self._client, self._key, self._group, name, timeout=timeout, prefetch=prefetch, decode=self._decode
        )

    def consumers(self) -> list[str]:
        """List the names of the consumers that have ever read."""
        found = self._client.call(b"XINFO", b"CONSUMERS", self._key, self._group)
        return [_text(consumer[b"name"]) for consumer in found]

    def pending(self, consumer: str | None = None, *, idle: float | timedelta = 0) -> list[Pending]:
        """List what was given and not acknowledged: of all consumers or of one, all of it or what is idle for long."""
        records: list[Pending] = []
        start = b"-"
        extra = [] if consumer is None else [text_of(consumer)]
        while True:
            found = self._client.call(
                *(b"XPENDING", self._key, self._group, b"IDLE", as_milliseconds(idle)),
                *(start, b"+", b"%d" % _AT_ONCE, *extra),
            )
            records += [
                Pending(StreamID.parse(id), _text(owner), timedelta(milliseconds=idle_ms), deliveries)
                for id, owner, idle_ms, deliveries in found
            ]
            if len(found) < _AT_ONCE:
                return records
            start = b"(" + found[-1][0]

    @property
    def lag(self) -> int | None:
        """How many messages were never given to any consumer; None where deletions hide it."""
        lag = self._info()[b"lag"]
        return None if lag is None else int(lag)

    @property
    def position(self) -> StreamID:
        """The ID of the last message that was given to any consumer."""
        return StreamID.parse(self._info()[b"last-delivered-id"])

    @position.setter
    def position(self, place: Position) -> None:
        self._client.call(b"XGROUP", b"SETID", self._key, self._group, behind(place))

    def policy(
        self,
        *,
        visibility: Duration | None = None,
        retry: tuple[Duration, Duration] | None = None,
        max_deliveries: int | None = None,
        dead_letter: str | bytes | None = None,
        consumer_ttl: Duration | None = None,
        create_from: str | None = None,
    ) -> Policy | None:
        """Set how the group delivers, in the place of its rule; return what is in force, and what it has done.

        What a consumer holds longer than `visibility` goes to the next that reads; `retry` is how long a message waits
        after it failed, at first and at most. What was delivered `max_deliveries` times and failed moves to the stream
        `dead_letter`, which has the name of this one with `:dead` behind it where it is not given. Consumers that were
        not seen for `consumer_ttl` are removed. `create_from` lets readers make the group where it is missing. Without
        any of these, nothing is set; None where there is no rule.
        """
        words = group_words(
            visibility=visibility,
            retry=retry,
            max_deliveries=max_deliveries,
            dead_letter=dead_letter,
            consumer_ttl=consumer_ttl,
            create_from=create_from,
        )
        target = (self._key, b"GROUP", self._group)
        if words:
            self._client.call(b"HEADRACE", b"POLICY", b"SET", *target, *words)
        return read_policy(self._client.call(b"HEADRACE", b"POLICY", b"GET", *target))

    def remove_policy(self) -> bool:
        """Take the rule of the group back; False where it had none of its own."""
        return bool(self._client.call(b"HEADRACE", b"POLICY", b"DEL", self._key, b"GROUP", self._group))

    def _info(self) -> Any:
        for group in self._client.call(b"XINFO", b"GROUPS", self._key):
            if group[b"name"] == self._group:
                return group
        raise KeyError(self.name)

    def ack(self, *messages: Message | Position) -> int:
        """Acknowledge messages, given themselves or by ID; return how many were pending."""
        return int(self._client.call(*_ack(self._key, self._group, messages))) if messages else 0

    async def aack(self, *messages: Message | Position) -> int:
        """Acknowledge messages from a coroutine."""
        return int(await self._client.acall(*_ack(self._key, self._group, messages))) if messages else 0

    def drop(self) -> bool:
        """Remove the group; False where there is none any more."""
        return bool(self._client.call(b"XGROUP", b"DESTROY", self._key, self._group))


class Consumer:
    """One consumer of a group; made by `Group.consumer`."""

    def __init__(
        self,
        client: LocalClient,
        key: bytes,
        group: bytes,
        name: str,
        *,
        timeout: float | timedelta | None,
        prefetch: int,
        decode: bool,
    ) -> None:
        """Read as somebody in particular."""
        if prefetch < 1:
            raise ValueError(f"prefetch is at least 1, not {prefetch}")
        self.name = name
        self._client = client
        self._key = key
        self._group = group
        self._consumer = text_of(name)
        self._decode = decode
        self._timeout = None if timeout is None else as_seconds(timeout)
        self._prefetch = prefetch

    def __repr__(self) -> str:
        return f"<Consumer {self.name!r} of {_text(self._group)!r} of {_text(self._key)!r}>"

    # --- one by one ------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Message]:
        """Give messages; asking for the next acknowledges the one before."""
        turn = _Turn()
        while True:
            reply = self._client.call_all(*self._requests(turn, self._prefetch, self._timeout))
            messages = self._received(reply, turn)
            if messages is None:
                return
            while messages:
                yield messages[0]
                turn.done.append(messages.popleft())
                if messages:
                    self._client.call(*_ack(self._key, self._group, turn.take_done()))

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Give messages to `async for`; asking for the next acknowledges the one before."""
        turn = _Turn()
        while True:
            reply = await self._client.acall_all(*self._requests(turn, self._prefetch, self._timeout))
            messages = self._received(reply, turn)
            if messages is None:
                return
            while messages:
                yield messages[0]
                turn.done.append(messages.popleft())
                if messages:
                    await self._client.acall(*_ack(self._key, self._group, turn.take_done()))

    def _requests(self, turn: _Turn, count: int, timeout: float | None) -> list[Request]:
        """What acknowledges the last message, and what reads the next: one sync for both."""
        requests = [_ack(self._key, self._group, turn.take_done())] if turn.done else []
        read = [b"XREADGROUP", b"GROUP", self._group, self._consumer, b"COUNT", b"%d" % count]
        if turn.behind is None and timeout != 0:
            read += [b"BLOCK", b"0" if timeout is None else as_milliseconds(timeout)]
        place = _NEW if turn.behind is None else turn.behind
        return [*requests, [*read, b"STREAMS", self._key, place]]

    def _received(self, reply: Any, turn: _Turn) -> deque[Message] | None:
        """What was read; None where nothing has come in time, nothing where what was left has come to its end."""
        entries = reply[self._key] if reply else []
        if turn.behind is None and not entries:
            return None
        if turn.behind is not None:
            turn.done += deleted_ids(entries)
            turn.behind = entries[-1][0] if entries else None
        return deque(read_messages(entries, self._decode))

    # --- many at once ----------------------------------------------------------------------------------------------

    def read(self, count: int = 1, *, timeout: float | timedelta | None = None) -> list[Message]:
        """Take up to so many messages from the group, without acknowledging them: first what was left, then new ones.

        Waits for the first of them, at most `timeout` seconds; where there is none by then, the list is empty.
        """
        turn = _Turn()
        seconds = self._timeout if timeout is None else as_seconds(timeout)
        while True:
            messages = self._received(self._client.call_all(*self._requests(turn, count, seconds)), turn)
            if messages is None or messages:
                return list(messages or ())

    async def aread(self, count: int = 1, *, timeout: float | timedelta | None = None) -> list[Message]:
        """Take messages from a coroutine, as `read` does."""
        turn = _Turn()
        seconds = self._timeout if timeout is None else as_seconds(timeout)
        while True:
            reply = await self._client.acall_all(*self._requests(turn, count, seconds))
            messages = self._received(reply, turn)
            if messages is None or messages:
                return list(messages or ())

    def batch(self, count: int, *, timeout: float | timedelta | None = None) -> AbstractContextManager[list[Message]]:
        """Give what `read` gives to a `with` block, which acknowledges all at its end, or none after an exception."""
        return self._batch(count, timeout)

    @contextmanager
    def _batch(self, count: int, timeout: float | timedelta | None) -> Iterator[list[Message]]:
        messages = self.read(count, timeout=timeout)
        yield messages
        self.ack(*messages)

    def abatch(
        self, count: int, *, timeout: float | timedelta | None = None
    ) -> AbstractAsyncContextManager[list[Message]]:
        """Give the same to an `async with` block."""
        return self._abatch(count, timeout)

    @asynccontextmanager
    async def _abatch(self, count: int, timeout: float | timedelta | None) -> AsyncIterator[list[Message]]:
        messages = await self.aread(count, timeout=timeout)
        yield messages
        await self.aack(*messages)

    # --- what is pending -------------------------------------------------------------------------------------------

    def ack(self, *messages: Message | Position) -> int:
        """Acknowledge messages, given themselves or by ID; return how many were pending."""
        return int(self._client.call(*_ack(self._key, self._group, messages))) if messages else 0

    async def aack(self, *messages: Message | Position) -> int:
        """Acknowledge messages from a coroutine."""
        return int(await self._client.acall(*_ack(self._key, self._group, messages))) if messages else 0

    def claim(self, *, idle: float | timedelta, count: int = 100) -> list[Message]:
        """Take over messages that other consumers were given so long ago that they must have failed."""
        return self._claimed(self._client.call(*self._claim(idle, count)))

    async def aclaim(self, *, idle: float | timedelta, count: int = 100) -> list[Message]:
        """Take over messages from a coroutine, as `claim` does."""
        return self._claimed(await self._client.acall(*self._claim(idle, count)))

    def _claim(self, idle: float | timedelta, count: int) -> Request:
        words = [b"XAUTOCLAIM", self._key, self._group, self._consumer, as_milliseconds(idle), b"0-0"]
        return [*words, b"COUNT", b"%d" % count]

    def _claimed(self, reply: Any) -> list[Message]:
        return read_messages(reply[1], self._decode)

    def pending(self) -> list[Pending]:
        """List what this consumer was given and has not acknowledged."""
        return Group(self._client, self._key, _text(self._group), decode=self._decode).pending(self.name)

    def drop(self) -> int:
        """Remove the consumer; what it has not acknowledged is forgotten with it, and its number returned."""
        return int(self._client.call(b"XGROUP", b"DELCONSUMER", self._key, self._group, self._consumer))


class _Turn:
    """How far a consumer's reading has got."""

    def __init__(self) -> None:
        self.behind: bytes | None = b"0-0"  # the last ID of what was left from before; None: that is through
        self.done: list[Message | bytes] = []  # to be acknowledged with the next request

    def take_done(self) -> list[Message | bytes]:
        done, self.done = self.done, []
        return done


def _ack(key: bytes, group: bytes, messages: Iterable[Message | Position]) -> Request:
    ids = [bytes(each.id if isinstance(each, Message) else first_id(each)) for each in messages]
    return [b"XACK", key, group, *ids]


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
