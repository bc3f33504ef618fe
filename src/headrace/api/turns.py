"""The next request of a consumer's loop, and the meaning of each reply; this sends nothing itself.

                 ┌──────────────── claimed something ◄──────────────┐
                 ▼                                                  │
    LIST ─► OWN, one after the other ─► NEW ─► time to claim? ─► CLAIM ─► NEW …
    what is     given to us before,     `>`     XAUTOCLAIM of what others
    pending     not acknowledged                hold for too long

A message that was delivered three times and never acknowledged may kill its workers. Such messages wait until nothing
else is to be done, so that the others are handled in any case. Messages that were given back with a delay wait for its
end.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from time import monotonic
from typing import Any, Final

from headrace.api.ids import as_milliseconds
from headrace.api.message import Message, deleted_ids, read_messages
from headrace.api.pause import Pause
from headrace.api.runner import Request
from headrace.core.stream_id import StreamID

SUSPECT: Final = 3  # deliveries
_AT_ONCE: Final = 100  # pending records that are listed in one request
_SHORTEST_INTERVAL_S: Final = 0.05  # between two looks for what others hold too long


class _Step(Enum):
    LIST = auto()
    OWN = auto()
    NEW = auto()
    CLAIM = auto()
    END = auto()


class Turns:
    """See the module. `missing` has the IDs of messages that were deleted before they were acknowledged."""

    def __init__(
        self,
        consumer: object,
        key: bytes,
        group: bytes,
        name: bytes,
        *,
        pause: Pause,
        prefetch: int,
        claim_after: float | None,
        postponed: dict[StreamID, float],
        decode: bool,
    ) -> None:
        self.done: list[bytes] = []  # to be acknowledged with the next request
        self.missing: list[StreamID] = []
        self._consumer = consumer
        self._key = key
        self._decode = decode
        self._ack: Request = [b"XACK", key, group]
        self._list: Request = [b"XPENDING", key, group]
        self._name = name
        self._read: Request = [b"XREADGROUP", b"GROUP", group, name, b"COUNT", b"%d" % prefetch]
        self._read_one: Request = [b"XREADGROUP", b"GROUP", group, name, b"COUNT", b"1"]
        self._to_new: Request = [b"STREAMS", key, b">"]
        self._claim: Request = [b"XAUTOCLAIM", key, group, name]
        self._claim_count: Request = [b"COUNT", b"%d" % prefetch, b"JUSTID"]
        self._claim_after = claim_after
        self._prefetch = prefetch
        self._claim_at: float | None = None if claim_after is None else 0.0
        self._claimed_last = False
        self._cursor = b"0-0"
        self._pause = pause
        self._postponed = postponed
        self._step = _Step.LIST
        self._listed_to = b"-"
        self._own: deque[tuple[StreamID, int]] = deque()  # with how often each was delivered
        self._suspects: deque[tuple[StreamID, int]] = deque()

    def begin_again(self) -> None:
        """Look first for what this consumer was given, because a reply was lost."""
        self._step = _Step.LIST
        self._listed_to = b"-"
        self._own.clear()
        self._suspects.clear()

    def take_missing(self) -> list[StreamID]:
        """Return what is missing since the last time."""
        missing, self.missing = self.missing, []
        return missing

    # --- what is asked for -----------------------------------------------------------------------------------------

    def acknowledge(self) -> Request:
        """Write what acknowledges the messages that are done."""
        return [*self._ack, *self.done]

    def requests(self, *, stopping: bool) -> list[Request]:
        """Write what acknowledges the last message, and what reads the next: one sync for both."""
        if self._step is _Step.NEW and self._claim_at is None and not (stopping or self._waits_for_something()):
            read = [*self._read, *self._pause.words(), *self._to_new]  # the usual case
            return [[*self._ack, *self.done], read] if self.done else [read]
        if stopping:
            self._step = _Step.END
            return [self.acknowledge()] if self.done else [[b"PING"]]
        request = self._next_request()
        return [self.acknowledge(), request] if self.done else [request]

    def _waits_for_something(self) -> bool:
        return bool(self._own or self._suspects or self._postponed)

    def _next_request(self) -> Request:
        if self._step is _Step.LIST:
            place = (self._listed_to, b"+", b"%d" % _AT_ONCE, self._name)
            return [*self._list, b"IDLE", b"0", *place]
        now = monotonic()
        for id in [id for id, due in self._postponed.items() if due <= now]:
            del self._postponed[id]
            self._own.append((id, 0))
        if self._own:
            self._step = _Step.OWN
            return [*self._read_one, b"STREAMS", self._key, bytes(self._own[0][0].predecessor())]
        claim_due = self._claim_at is not None and self._claim_at <= now
        if claim_due and not self._claimed_last:
            self._step = _Step.CLAIM
            assert self._claim_after is not None  # noqa: S101  (there is a time for it)
            return [*self._claim, as_milliseconds(self._claim_after), self._cursor, *self._claim_count]
        self._step = _Step.NEW
        self._claimed_last = False
        if claim_due or self._suspects:
            return [*self._read, *self._to_new]
        dues = [due - now for due in self._postponed.values()]
        if self._claim_at is not None:
            dues.append(self._claim_at - now)
        return [*self._read, *self._pause.words(min(dues, default=None)), *self._to_new]

    # --- what has come ---------------------------------------------------------------------------------------------

    def receive(self, reply: Any) -> deque[Message] | None:
        """Take the reply of the last request: messages, none for now, or None where the loop is over."""
        self.done = []
        step = self._step
        if step is _Step.NEW:
            return self._receive_new(reply)
        if step is _Step.END:
            return None
        if step is _Step.LIST:
            self._receive_list(reply)
            return deque()
        if step is _Step.CLAIM:
            self._receive_claims(reply)
            return deque()
        return self._receive_own(reply)

    def _receive_new(self, reply: Any) -> deque[Message] | None:
        if reply:
            self._pause.begin()
            return deque(read_messages(reply[self._key], self._decode, self._consumer))
        if self._suspects:
            self._own.append(self._suspects.popleft())
        elif self._claim_at is not None and self._claim_at <= monotonic():
            pass  # nothing was waited for: claiming comes next
        elif self._pause.over:
            return None
        return deque()

    def _receive_own(self, reply: Any) -> deque[Message]:
        id, deliveries = self._own.popleft()
        self._step = _Step.NEW
        entries = reply[self._key] if reply else []
        if not entries or StreamID.parse(entries[0][0]) != id:
            return deque()  # somebody else has acknowledged it, or has it now
        if deleted_ids(entries):
            self.missing.append(id)
            self.done.append(bytes(id))
            return deque()
        self._pause.begin()
        [message] = read_messages(entries, self._decode, self._consumer)
        if deliveries:
            message.known_deliveries = deliveries + 1
        return deque([message])

    def _receive_list(self, reply: Any) -> None:
        for text, _owner, _idle, deliveries in reply:
            id = StreamID.parse(text)
            if id not in self._postponed:
                (self._suspects if deliveries >= SUSPECT else self._own).append((id, deliveries))
        if len(reply) == _AT_ONCE:
            self._listed_to = b"(" + reply[-1][0]
        else:
            self._listed_to = b"-"
            self._step = _Step.NEW

    def _receive_claims(self, reply: Any) -> None:
        self._cursor, texts, deleted = reply
        self.missing += [StreamID.parse(text) for text in deleted]
        self._claimed_last = True
        self._step = _Step.NEW
        claimed = [id for id in map(StreamID.parse, texts) if id not in self._postponed]
        if claimed:
            self.begin_again()
        if len(claimed) < self._prefetch and self._cursor == b"0-0":
            assert self._claim_after is not None  # noqa: S101  (it was claimed by it)
            self._claim_at = monotonic() + max(self._claim_after / 4, _SHORTEST_INTERVAL_S)
