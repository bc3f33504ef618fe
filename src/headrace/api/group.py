"""Consumer groups: each message goes to one consumer, and is pending until that one has acknowledged it.

    group = stream.group("billing")
    for message in group.consumer("c1"):        acknowledged when the loop asks for the next
        handle(message)                         an exception leaves it pending: it is the first one next time

    with consumer.batch(100) as messages:       all acknowledged at the end, or none
        handle_all(messages)

A consumer is given what it left unacknowledged first, then what is new.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from headrace.api.consumer import Consumer, Missing, ack_request
from headrace.api.ids import Position, behind
from headrace.api.message import Message
from headrace.api.pending import Pending, list_pending, name_text
from headrace.api.policies import Duration, Policy, group_words, set_policy
from headrace.api.runner import CommandRunner, Plan, Request, afollow, follow, text_of
from headrace.core.stream_id import StreamID


class Group:
    """One consumer group of a stream; made by `Stream.group`."""

    def __init__(self, runner: CommandRunner, key: bytes, name: str, *, decode: bool) -> None:
        """Stand for a group that exists."""
        self.name = name
        self._runner = runner
        self._key = key
        self._group = text_of(name)
        self._decode = decode

    def __repr__(self) -> str:
        return f"<Group {self.name!r} of {name_text(self._key)!r}>"

    def consumer(
        self,
        name: str,
        *,
        timeout: float | timedelta | None = None,
        prefetch: int = 1,
        claim_after: float | timedelta | None = None,
        heartbeat: float | timedelta | None = None,
        on_missing: Missing | None = None,
    ) -> Consumer:
        """Return a consumer; at any time, one thread or task should use a name.

        Reading ends when nothing has come for `timeout` seconds; without one, it waits for ever. With `prefetch`, so
        many messages are taken from the group at a time, which is faster and keeps them from other consumers. With
        `claim_after`, its loop takes over what other consumers were given so many seconds ago and never acknowledged.
        With a `heartbeat`, the group hears every so many seconds that the messages in hand are still being handled, so
        that nobody claims them, and no VISIBILITY of a rule ends; a third of either is a good choice.
        `on_missing` is called with the ID of each message that was deleted while it was pending; else the log says so.
        """
        return Consumer(
            self._runner,
            self._key,
            self._group,
            name,
            timeout=timeout,
            prefetch=prefetch,
            claim_after=claim_after,
            heartbeat=heartbeat,
            on_missing=on_missing,
            decode=self._decode,
        )

    def consumers(self) -> list[str]:
        """List the names of the consumers that have ever read."""
        return self._names(self._runner.call(b"XINFO", b"CONSUMERS", self._key, self._group))

    async def aconsumers(self) -> list[str]:
        """List them from a coroutine."""
        return self._names(await self._runner.acall(b"XINFO", b"CONSUMERS", self._key, self._group))

    def _names(self, reply: Any) -> list[str]:
        return [name_text(consumer[b"name"]) for consumer in reply]

    def pending(self, consumer: str | None = None, *, idle: float | timedelta = 0) -> list[Pending]:
        """List what was given and not acknowledged: of all consumers or of one, all of it or what is idle for long."""
        return follow(self._runner, list_pending(self._key, self._group, consumer, idle))

    async def apending(self, consumer: str | None = None, *, idle: float | timedelta = 0) -> list[Pending]:
        """List it from a coroutine, as `pending` does."""
        return await afollow(self._runner, list_pending(self._key, self._group, consumer, idle))

    @property
    def lag(self) -> int | None:
        """How many messages were never given to any consumer; None where deletions hide it."""
        return _lag(follow(self._runner, self._info()))

    async def alag(self) -> int | None:
        """Return the lag to a coroutine."""
        return _lag(await afollow(self._runner, self._info()))

    @property
    def position(self) -> StreamID:
        """The ID of the last message that was given to any consumer."""
        return StreamID.parse(follow(self._runner, self._info())[b"last-delivered-id"])

    @position.setter
    def position(self, place: Position) -> None:
        self._runner.call(*self._move(place))

    async def aposition(self) -> StreamID:
        """Return the position to a coroutine."""
        return StreamID.parse((await afollow(self._runner, self._info()))[b"last-delivered-id"])

    async def aset_position(self, place: Position) -> None:
        """Set the position from a coroutine."""
        await self._runner.acall(*self._move(place))

    def _move(self, place: Position) -> Request:
        return [b"XGROUP", b"SETID", self._key, self._group, behind(place)]

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

        A message that a consumer holds longer than `visibility` goes to the next reader; `retry` is how long a message
        waits after it failed, at first and at most. After `max_deliveries` failed deliveries it moves to the stream
        `dead_letter`, by default the name of this one with `:dead` behind it. Consumers that were
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
        return follow(self._runner, set_policy([self._key, b"GROUP", self._group], words))

    async def apolicy(
        self,
        *,
        visibility: Duration | None = None,
        retry: tuple[Duration, Duration] | None = None,
        max_deliveries: int | None = None,
        dead_letter: str | bytes | None = None,
        consumer_ttl: Duration | None = None,
        create_from: str | None = None,
    ) -> Policy | None:
        """Set how the group delivers from a coroutine, as `policy` does."""
        words = group_words(
            visibility=visibility,
            retry=retry,
            max_deliveries=max_deliveries,
            dead_letter=dead_letter,
            consumer_ttl=consumer_ttl,
            create_from=create_from,
        )
        return await afollow(self._runner, set_policy([self._key, b"GROUP", self._group], words))

    def remove_policy(self) -> bool:
        """Take the rule of the group back; False where it had none of its own."""
        return bool(self._runner.call(b"HEADRACE", b"POLICY", b"DEL", self._key, b"GROUP", self._group))

    async def aremove_policy(self) -> bool:
        """Take the rule of the group back from a coroutine."""
        return bool(await self._runner.acall(b"HEADRACE", b"POLICY", b"DEL", self._key, b"GROUP", self._group))

    def _info(self) -> Plan[Any]:
        for group in (yield [b"XINFO", b"GROUPS", self._key]):
            if group[b"name"] == self._group:
                return group
        raise KeyError(self.name)

    def ack(self, *messages: Message | Position) -> int:
        """Acknowledge messages, given themselves or by ID; return how many were pending."""
        return int(self._runner.call(*ack_request(self._key, self._group, messages))) if messages else 0

    async def aack(self, *messages: Message | Position) -> int:
        """Acknowledge messages from a coroutine."""
        return int(await self._runner.acall(*ack_request(self._key, self._group, messages))) if messages else 0

    def drop(self) -> bool:
        """Remove the group; False where there is none any more."""
        return bool(self._runner.call(b"XGROUP", b"DESTROY", self._key, self._group))

    async def adrop(self) -> bool:
        """Remove the group from a coroutine."""
        return bool(await self._runner.acall(b"XGROUP", b"DESTROY", self._key, self._group))


def _lag(info: Any) -> int | None:
    return None if info[b"lag"] is None else int(info[b"lag"])
