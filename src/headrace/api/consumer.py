"""One consumer of a group: its loop, which is a worker's whole life, and what it does by hand.

    for message in group.consumer("w1"):        acknowledged when the loop asks for the next
        handle(message)                         an exception leaves it pending: it is the first one next time

The loop waits while there is nothing to do, takes over what dead consumers left (`claim_after`), survives a server that
is away for a while, and ends after the message in hand when SIGTERM comes or `stop` is called.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
    suppress,
)
from datetime import timedelta
from typing import Any, Final

from headrace.api.errors import CannotConnect, ConnectionLost, NotSupported, Refused
from headrace.api.heartbeat import Heartbeat
from headrace.api.ids import Position, as_milliseconds, as_seconds, first_id
from headrace.api.message import Message, deleted_ids, read_messages
from headrace.api.pause import Pause
from headrace.api.pending import Pending, list_pending, name_text
from headrace.api.policies import Policy, read_policy
from headrace.api.runner import CommandRunner, Plan, Request, afollow, follow, text_of
from headrace.api.stopping import told_to_stop
from headrace.api.turns import Turns
from headrace.core.stream_id import StreamID
from headrace.engine.rules.dead_letters import Origin, default_stream

Missing = Callable[[StreamID], object]

_PIECE_S: Final = 1.0  # how long a loop waits at most before it looks whether it should stop
_LONGEST_PAUSE_S: Final = 5.0  # between two attempts to reach a server
_SHORTEST_RETRY_S: Final = 1.0  # after a failure, where no rule says it; twice that after the next
_LONGEST_RETRY_S: Final = 300.0

_log = logging.getLogger("headrace")


class Consumer:
    """See the module; made by `Group.consumer`."""

    def __init__(
        self,
        runner: CommandRunner,
        key: bytes,
        group: bytes,
        name: str,
        *,
        timeout: float | timedelta | None,
        prefetch: int,
        claim_after: float | timedelta | None,
        heartbeat: float | timedelta | None,
        on_missing: Missing | None,
        decode: bool,
    ) -> None:
        """Read under a name of its own."""
        if prefetch < 1:
            raise ValueError(f"prefetch is at least 1, not {prefetch}")
        self.name = name
        self._runner = runner
        self._key = key
        self._group = group
        self._consumer = text_of(name)
        self._decode = decode
        self._timeout = None if timeout is None else as_seconds(timeout)
        self._prefetch = prefetch
        self._claim_after = None if claim_after is None else as_seconds(claim_after)
        self._heartbeat = None if heartbeat is None else as_seconds(heartbeat)
        if self._heartbeat is not None:
            if self._heartbeat <= 0:
                raise ValueError(f"heartbeat is more than 0 seconds, not {heartbeat}")
            if self._claim_after is not None and self._heartbeat >= self._claim_after:
                raise ValueError(f"a heartbeat of {heartbeat} comes too late: others claim after {claim_after}")
        self._on_missing = on_missing or self._log_missing
        self._stopping = False
        self._team: list[Consumer] = []  # the consumers of the threads and tasks of `run`
        self._postponed: dict[StreamID, float] = {}  # messages that were given back with a delay, and when that is over

    def __repr__(self) -> str:
        return f"<Consumer {self.name!r} of {name_text(self._group)!r} of {name_text(self._key)!r}>"

    # --- one by one ------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Message]:
        """Give messages; asking for the next acknowledges the one before."""
        turns = self._turns()
        beat = self._make_heartbeat()
        call, call_all = self._runner.call, self._runner.call_all
        with told_to_stop(self.stop), beat.beating() if beat is not None else nullcontext():
            while True:
                try:
                    found = turns.receive(call_all(*turns.requests(stopping=self._stopping)))
                    if turns.missing:
                        for id in turns.take_missing():
                            self._on_missing(id)
                    if found is None:
                        self._stopping = False
                        return
                    while found:
                        message = found.popleft()
                        if beat is not None:
                            beat.hold(message, *found)
                        yield message
                        if not message.settled:
                            turns.done.append(bytes(message.id))
                        if beat is not None:
                            beat.hold(*found)
                        if found and self._stopping:
                            self._return_unseen(found)
                        elif found and turns.done:
                            call(*turns.acknowledge())
                            turns.done = []
                except (ConnectionLost, CannotConnect) as error:
                    time.sleep(self._pause_after(error, turns))

    async def __aiter__(self) -> AsyncIterator[Message]:
        """Give messages to `async for`; asking for the next acknowledges the one before."""
        turns = self._turns()
        beat = self._make_heartbeat()
        call, call_all = self._runner.acall, self._runner.acall_all
        async with AsyncExitStack() as ends:
            ends.enter_context(told_to_stop(self.stop))
            if beat is not None:
                await ends.enter_async_context(beat.abeating())
            while True:
                try:
                    found = turns.receive(await call_all(*turns.requests(stopping=self._stopping)))
                    if turns.missing:
                        for id in turns.take_missing():
                            answer = self._on_missing(id)
                            if inspect.isawaitable(answer):
                                await answer
                    if found is None:
                        self._stopping = False
                        return
                    while found:
                        message = found.popleft()
                        if beat is not None:
                            beat.hold(message, *found)
                        yield message
                        if not message.settled:
                            turns.done.append(bytes(message.id))
                        if beat is not None:
                            beat.hold(*found)
                        if found and self._stopping:
                            await self._areturn_unseen(found)
                        elif found and turns.done:
                            await call(*turns.acknowledge())
                            turns.done = []
                except (ConnectionLost, CannotConnect) as error:
                    await asyncio.sleep(self._pause_after(error, turns))

    def run(self, handle: Callable[[Message], object], *, concurrency: int = 1) -> None:
        """Let a function handle messages, so many at once in threads, until SIGTERM, `stop`, or the timeout.

        A message is acknowledged when the function returns. An exception is logged, and the message given back, as
        `message.nack` does. With a concurrency of 3, `w1` is three consumers, `w1-1` to `w1-3`.
        """
        ends: list[BaseException] = []
        self._team = self._consumers(concurrency)

        def work(consumer: Consumer) -> None:
            try:
                for message in consumer:
                    try:
                        answer = handle(message)
                    except Exception as error:  # noqa: BLE001  (whatever a program raises is its own)
                        self._log_failure(message, error)
                        if not message.settled:
                            message.nack()
                    else:
                        _refuse_coroutine(answer)
            except BaseException as error:  # noqa: BLE001  (raised by `run`)
                ends.append(error)
                self.stop()

        threads = [threading.Thread(target=work, args=(each,), name=each.name) for each in self._team]
        with told_to_stop(self.stop):
            for thread in threads:
                thread.start()
            try:
                for thread in threads:
                    while thread.is_alive():  # a signal that another thread got is handled when this one wakes
                        thread.join(_PIECE_S)
            finally:  # Ctrl-C in this thread ends the others after the message in hand, too
                self.stop()
                for thread in threads:
                    thread.join()
                self._stopping = False
        if ends:
            raise ends[0]

    async def arun(self, handle: Callable[[Message], Awaitable[object]], *, concurrency: int = 1) -> None:
        """Let a coroutine function handle messages, so many at once in tasks, as `run` does in threads."""
        self._team = self._consumers(concurrency)

        async def work(consumer: Consumer) -> None:
            async for message in consumer:
                try:
                    answer = handle(message)
                    if inspect.isawaitable(answer):
                        await answer
                except Exception as error:  # noqa: BLE001  (whatever a program raises is its own)
                    self._log_failure(message, error)
                    if not message.settled:
                        await message.anack()
                else:
                    if not inspect.isawaitable(answer):
                        raise TypeError(f"arun needs a coroutine function, and {handle!r} is none: run takes it")

        with told_to_stop(self.stop):
            try:
                async with asyncio.TaskGroup() as tasks:
                    for consumer in self._team:
                        tasks.create_task(work(consumer))
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None
            finally:
                self._stopping = False

    def _consumers(self, concurrency: int) -> list[Consumer]:
        if concurrency < 1:
            raise ValueError(f"concurrency is at least 1, not {concurrency}")
        names = [self.name] if concurrency == 1 else [f"{self.name}-{n}" for n in range(1, concurrency + 1)]
        return [
            Consumer(
                *(self._runner, self._key, self._group, name),
                timeout=self._timeout,
                prefetch=self._prefetch,
                claim_after=self._claim_after,
                heartbeat=self._heartbeat,
                on_missing=self._on_missing,
                decode=self._decode,
            )
            for name in names
        ]

    def _log_failure(self, message: Message, error: Exception) -> None:
        _log.error("%r could not handle the message %s", self, message.id, exc_info=error)

    def stop(self) -> None:
        """End the loop of this consumer after the message in hand, or the next one where none runs; from any thread."""
        self._stopping = True
        for consumer in self._team:
            consumer.stop()

    def _turns(self) -> Turns:
        return Turns(
            self,
            self._key,
            self._group,
            self._consumer,
            pause=Pause(self._timeout, min(_PIECE_S, self._runner.longest_wait or _PIECE_S)),
            prefetch=self._prefetch,
            claim_after=self._claim_after,
            postponed=self._postponed,
            decode=self._decode,
        )

    def _make_heartbeat(self) -> Heartbeat | None:
        return None if self._heartbeat is None else Heartbeat(self, self._heartbeat, self._postponed)

    def _pause_after(self, error: ConnectionLost | CannotConnect, turns: Turns) -> float:
        """Return how long to wait before the next attempt; raise where it is not worth one.

        A read whose reply was lost may have given messages to this consumer. It looks for them first.
        """
        if self._runner.closed or (isinstance(error, CannotConnect) and self._timeout is not None):
            raise error
        turns.begin_again()
        _log.warning("%r goes on when the server is back: %s", self, error)
        return _LONGEST_PAUSE_S if isinstance(error, CannotConnect) else 0.0

    def _log_missing(self, id: StreamID) -> None:
        _log.warning("%r: the message %s was deleted before it was acknowledged", self, id)

    # --- many at once ----------------------------------------------------------------------------------------------

    def read(self, count: int = 1, *, timeout: float | timedelta | None = None) -> list[Message]:
        """Take up to so many messages from the group, without acknowledging them: first what was left, then new ones.

        Waits for the first of them, at most `timeout` seconds; where there is none by then, the list is empty.
        """
        found, missing = follow(self._runner, self._take(count, timeout))
        for id in missing:
            self._on_missing(id)
        return found

    async def aread(self, count: int = 1, *, timeout: float | timedelta | None = None) -> list[Message]:
        """Take messages from a coroutine, as `read` does."""
        found, missing = await afollow(self._runner, self._take(count, timeout))
        for id in missing:
            answer = self._on_missing(id)
            if inspect.isawaitable(answer):
                await answer
        return found

    def _take(self, count: int, timeout: float | timedelta | None) -> Plan[tuple[list[Message], list[StreamID]]]:
        """Read what was left, then what is new; return it, and the IDs of what was deleted meanwhile."""
        pause = Pause(self._timeout if timeout is None else as_seconds(timeout), self._runner.longest_wait)
        read = [b"XREADGROUP", b"GROUP", self._group, self._consumer, b"COUNT", b"%d" % count]
        missing: list[StreamID] = []
        behind = b"0-0"
        while True:
            entries = (yield [*read, b"STREAMS", self._key, behind])[self._key]
            if deleted := deleted_ids(entries):
                missing += [StreamID.parse(id) for id in deleted]
                yield [b"XACK", self._key, self._group, *deleted]
            if found := read_messages(entries, self._decode, self):
                return found, missing
            if not entries:
                break
            behind = entries[-1][0]
        while True:
            reply = yield [*read, *pause.words(), b"STREAMS", self._key, b">"]
            if reply:
                return read_messages(reply[self._key], self._decode, self), missing
            if pause.over:
                return [], missing

    def batch(self, count: int, *, timeout: float | timedelta | None = None) -> AbstractContextManager[list[Message]]:
        """Give what `read` gives to a `with` block, which acknowledges all at its end, or none after an exception."""
        return self._batch(count, timeout)

    @contextmanager
    def _batch(self, count: int, timeout: float | timedelta | None) -> Iterator[list[Message]]:
        messages = self.read(count, timeout=timeout)
        yield messages
        self.ack(*(message for message in messages if not message.settled))

    def abatch(
        self, count: int, *, timeout: float | timedelta | None = None
    ) -> AbstractAsyncContextManager[list[Message]]:
        """Give the same to an `async with` block."""
        return self._abatch(count, timeout)

    @asynccontextmanager
    async def _abatch(self, count: int, timeout: float | timedelta | None) -> AsyncIterator[list[Message]]:
        messages = await self.aread(count, timeout=timeout)
        yield messages
        await self.aack(*(message for message in messages if not message.settled))

    # --- what is pending -------------------------------------------------------------------------------------------

    def ack(self, *messages: Message | Position) -> int:
        """Acknowledge messages, given themselves or by ID; return how many were pending."""
        return int(self._runner.call(*ack_request(self._key, self._group, messages))) if messages else 0

    async def aack(self, *messages: Message | Position) -> int:
        """Acknowledge messages from a coroutine."""
        return int(await self._runner.acall(*ack_request(self._key, self._group, messages))) if messages else 0

    def touch(self, *messages: Message | Position) -> list[StreamID]:
        """Say that messages are still being handled: for the group, they were given to this consumer just now.

        Returns the IDs of those that are this consumer's own. Others were acknowledged, or somebody else has them.
        """
        return follow(self._runner, self._touch(messages))

    async def atouch(self, *messages: Message | Position) -> list[StreamID]:
        """Say so from a coroutine, as `touch` does."""
        return await afollow(self._runner, self._touch(messages))

    def _touch(self, messages: Iterable[Message | Position]) -> Plan[list[StreamID]]:
        """Claim what this consumer has: JUSTID counts no delivery.

        XCLAIM takes from others, too. A consumer that got a message after XPENDING has held it for a shorter time than
        this one had by then, so that XCLAIM with this time as its minimum leaves the message there.
        """
        asked = {each.id if isinstance(each, Message) else first_id(each) for each in messages}
        by_idle: dict[timedelta, list[StreamID]] = {}
        for each in (yield from list_pending(self._key, self._group, self.name, 0)):
            if each.id in asked:
                by_idle.setdefault(each.idle, []).append(each.id)
        touched = set(by_idle.pop(timedelta(0), []))  # they were given to this consumer in this millisecond
        left: set[StreamID] = set()
        for idle, ids in by_idle.items():
            least = b"%d" % (idle // timedelta(milliseconds=1))
            claim = [b"XCLAIM", self._key, self._group, self._consumer, least, *map(bytes, ids), b"JUSTID"]
            claimed = {StreamID.parse(id) for id in (yield claim)}
            touched |= claimed
            left |= {*ids} - claimed
        if left:  # to somebody else, or another thread of this consumer touched them at the same moment
            pending = yield from list_pending(self._key, self._group, self.name, 0)
            touched |= {each.id for each in pending if each.id in left}
        return sorted(touched)

    def nack(self, message: Message, delay: float | timedelta | None = None) -> None:
        """Say that a message could not be handled, as `message.nack` does."""
        follow(self._runner, self._give_back(message, delay))

    async def anack(self, message: Message, delay: float | timedelta | None = None) -> None:
        """Say so from a coroutine."""
        await afollow(self._runner, self._give_back(message, delay))

    def _give_back(self, message: Message, delay: float | timedelta | None) -> Plan[None]:
        """Let the rule of the group decide; where it says nothing, or with a delay, this consumer's loop keeps it."""
        rule = (yield from self._rule()) or {}
        if message.known_deliveries is None:
            message.known_deliveries = yield from self._count_deliveries(message)
        had_its_last = 0 < int(rule.get("maxdeliveries", 0)) <= message.known_deliveries
        if had_its_last or (delay is None and (rule.get("visibility") or rule.get("retry_min"))):
            yield [b"XNACK", self._key, self._group, b"FAIL", b"IDS", b"1", bytes(message.id)]
        else:
            usual = min(_SHORTEST_RETRY_S * 2 ** (message.known_deliveries - 1), _LONGEST_RETRY_S)
            self._postponed[message.id] = time.monotonic() + (usual if delay is None else as_seconds(delay))
        message.settled = True

    def _rule(self) -> Plan[Policy | None]:
        """Return the rule of the group; None where there is none, or a server that keeps no rules."""
        try:
            reply = yield [b"HEADRACE", b"POLICY", b"GET", self._key, b"GROUP", self._group]
        except NotSupported:
            return None
        return read_policy(reply)

    def fail(self, message: Message, reason: str) -> None:
        """Give a message up, as `message.fail` does."""
        follow(self._runner, self._give_up(message, reason))

    async def afail(self, message: Message, reason: str) -> None:
        """Give it up from a coroutine."""
        await afollow(self._runner, self._give_up(message, reason))

    def _give_up(self, message: Message, reason: str) -> Plan[None]:
        """Move it to the dead letters in one transaction, in the form that rules of a group give them."""
        rule = yield from self._rule()
        dead = default_stream(self._key)
        if rule is not None and rule.get("deadletter"):
            dead = text_of(rule["deadletter"])
        records = yield [b"XPENDING", self._key, self._group, b"IDLE", b"0", *[bytes(message.id)] * 2, b"1"]
        deliveries, idle_ms = (records[0][3], records[0][2]) if records else (0, 0)
        origin = Origin(
            *(self._key, bytes(message.id), self._group, self._consumer, deliveries),
            first_delivery_ms=0,
            last_delivery_ms=int(time.time() * 1000) - idle_ms if records else 0,
            reason=text_of(reason),
        )
        own = [text_of(text) for pair in message.pairs for text in pair]
        results = yield (
            [b"MULTI"],
            [b"XADD", dead, b"*", *own, *origin.fields()],
            ack_request(self._key, self._group, [message]),
            [b"EXEC"],
        )
        for result in results:
            if isinstance(result, Refused):
                message.settled = False
                raise result

    def deliveries_of(self, message: Message) -> int:
        """Ask how often a message was delivered; 0 where it is not pending."""
        return follow(self._runner, self._count_deliveries(message))

    async def adeliveries_of(self, message: Message) -> int:
        """Ask so from a coroutine."""
        return await afollow(self._runner, self._count_deliveries(message))

    def _count_deliveries(self, message: Message) -> Plan[int]:
        records = yield [b"XPENDING", self._key, self._group, b"IDLE", b"0", *[bytes(message.id)] * 2, b"1"]
        return int(records[0][3]) if records else 0

    def _return_unseen(self, messages: deque[Message]) -> None:
        """Release messages that were read ahead and not handled to consumers that claim; else the next loop has them.

        Released messages go only to consumers that claim. A server that cannot take them back lets them wait.
        """
        follow(self._runner, self._release(messages))

    async def _areturn_unseen(self, messages: deque[Message]) -> None:
        await afollow(self._runner, self._release(messages))

    def _release(self, messages: deque[Message]) -> Plan[None]:
        ids = [bytes(message.id) for message in messages]
        messages.clear()
        if self._claim_after is None:
            return
        with suppress(NotSupported):
            yield [b"XNACK", self._key, self._group, b"SILENT", b"IDS", b"%d" % len(ids), *ids]

    def claim(self, *, idle: float | timedelta, count: int = 100) -> list[Message]:
        """Take over messages that other consumers were given so long ago that they must have failed."""
        return self._claimed(self._runner.call(*self._claim(idle, count)))

    async def aclaim(self, *, idle: float | timedelta, count: int = 100) -> list[Message]:
        """Take over messages from a coroutine, as `claim` does."""
        return self._claimed(await self._runner.acall(*self._claim(idle, count)))

    def _claim(self, idle: float | timedelta, count: int) -> Request:
        words = [b"XAUTOCLAIM", self._key, self._group, self._consumer, as_milliseconds(idle), b"0-0"]
        return [*words, b"COUNT", b"%d" % count]

    def _claimed(self, reply: Any) -> list[Message]:
        return read_messages(reply[1], self._decode, self)

    def pending(self) -> list[Pending]:
        """List what this consumer was given and has not acknowledged."""
        return follow(self._runner, list_pending(self._key, self._group, self.name, 0))

    async def apending(self) -> list[Pending]:
        """List it from a coroutine."""
        return await afollow(self._runner, list_pending(self._key, self._group, self.name, 0))

    def drop(self) -> int:
        """Remove the consumer with the messages that it has not acknowledged; return how many those were."""
        return int(self._runner.call(b"XGROUP", b"DELCONSUMER", self._key, self._group, self._consumer))

    async def adrop(self) -> int:
        """Remove the consumer from a coroutine."""
        return int(await self._runner.acall(b"XGROUP", b"DELCONSUMER", self._key, self._group, self._consumer))


def _refuse_coroutine(answer: object) -> None:
    """Refuse the coroutine that a function returned: nothing of it has run, and the message would be acknowledged."""
    if inspect.iscoroutine(answer):
        answer.close()
        raise TypeError("run needs a function that is no coroutine function: arun takes those")


def ack_request(key: bytes, group: bytes, messages: Iterable[Message | Position]) -> Request:
    """Write the XACK of messages, and note that they need no other one."""
    ids = []
    for each in messages:
        if isinstance(each, Message):
            each.settled = True
            ids.append(bytes(each.id))
        else:
            ids.append(bytes(first_id(each)))
    return [b"XACK", key, group, *ids]
