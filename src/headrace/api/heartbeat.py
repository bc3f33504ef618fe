"""The heartbeat of a consumer's loop: as long as a message is in hand, nobody else gets it.

    for message in group.consumer("w1", claim_after=60, heartbeat=20):
        transcode(message)                      may take hours: every 20 s the group hears that w1 is at it

A beat touches messages: the time since when they are pending begins anew. It holds for the message that the loop has
given out, for what it has read ahead, and for what it keeps because of a delay. A message that somebody else has
meanwhile is left to them, and the log says so, once.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from headrace.api.errors import CannotConnect, ConnectionLost, DatabaseClosed, Refused
from headrace.api.message import Message
from headrace.core.stream_id import StreamID

if TYPE_CHECKING:
    from headrace.api.consumer import Consumer

_TROUBLE: Final = (ConnectionLost, CannotConnect, Refused)  # the loop meets it, too, and says so

_log = logging.getLogger("headrace")


class Heartbeat:
    """See the module. The loop says what is in hand; a thread or a task beats."""

    def __init__(self, consumer: Consumer, every_s: float, postponed: dict[StreamID, float]) -> None:
        self._consumer = consumer
        self._every_s = every_s
        self._postponed = postponed
        self._in_hand: tuple[Message, ...] = ()  # replaced as a whole, because another thread reads it
        self._told: set[StreamID] = set()

    def hold(self, *messages: Message) -> None:
        """Note what is in hand from now on."""
        self._in_hand = messages

    @contextmanager
    def beating(self) -> Iterator[None]:
        """Beat in a thread while the block runs."""
        ended = threading.Event()
        name = f"{self._consumer.name} heartbeat"
        threading.Thread(target=self._beat, args=(ended,), name=name, daemon=True).start()
        try:
            yield
        finally:
            ended.set()

    def _beat(self, ended: threading.Event) -> None:
        with suppress(DatabaseClosed):
            while not ended.wait(self._every_s):
                if ids := self._held_ids():
                    with suppress(*_TROUBLE):
                        self._report_lost(ids, self._consumer.touch(*ids))

    @asynccontextmanager
    async def abeating(self) -> AsyncIterator[None]:
        """Beat in a task while the block runs."""
        task = asyncio.create_task(self._abeat(), name=f"{self._consumer.name} heartbeat")
        try:
            yield
        finally:
            task.cancel()

    async def _abeat(self) -> None:
        with suppress(DatabaseClosed):
            while True:
                await asyncio.sleep(self._every_s)
                if ids := self._held_ids():
                    with suppress(*_TROUBLE):
                        self._report_lost(ids, await self._consumer.atouch(*ids))

    def _held_ids(self) -> list[StreamID]:
        return [*(message.id for message in self._in_hand if not message.settled), *tuple(self._postponed)]

    def _report_lost(self, asked: list[StreamID], kept: list[StreamID]) -> None:
        still_held = self._held_ids()  # what was acknowledged meanwhile is not lost
        for id in asked:
            if id not in kept and id in still_held and id not in self._told:
                self._told.add(id)
                _log.warning("%r has the message %s in hand, but it belongs to somebody else now", self._consumer, id)
