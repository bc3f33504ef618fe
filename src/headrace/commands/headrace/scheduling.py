"""HEADRACE SCHEDULE, SCHEDULED and UNSCHEDULE: messages that are appended to a stream at a time.

    SCHEDULE ─► ZADD headrace:{key}:scheduled, HSET headrace:{key}:messages
    due      ─► XADD key, ZREM, HDEL; with EVERY, ZADD of the next time in their place

Each line is one unit of effects: a message is in one place at any moment, also after a crash and on a replica. What is
due is decided by Unix time, when the time of the first message has come (engine.due_keys); late messages go out in
order, a slice at a time.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

from headrace.commands.arguments import LONG_MAX, read_limited
from headrace.commands.declaration.table import SECOND, command
from headrace.commands.headrace.scheduled_message import (
    MESSAGES,
    SCHEDULED,
    ScheduledMessage,
    decode,
    encode,
    next_due,
)
from headrace.commands.held import hash_at, note_change, settle_removal, sorted_set_at
from headrace.commands.streams.appending import TOO_LARGE, append_message
from headrace.core.sorted_set import SortedSet
from headrace.core.stream import Stream
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.due_keys import DueKeys, Place
from headrace.engine.engine import Engine
from headrace.engine.errors import SYNTAX, CommandError, wrong_arity
from headrace.engine.pubsub.notifications import Event
from headrace.engine.rules.quantities import duration_ms
from headrace.engine.side_keys import side_key
from headrace.protocol.doubles import double_text

LAST_MS: Final = 2**53 - 1  # scores are doubles, and exact up to here

_SLICE_BYTES: Final = 1 << 18  # of messages that are appended at once
_PARKED: Final = math.inf
_LARGEST: Final = 1 << 29  # bytes of a message


def keep_schedules(engine: Engine) -> None:
    """Have an engine append what is scheduled when it is due."""
    DueKeys(engine, SCHEDULED, due_of=_due_of, work=_append_due, in_unix_time=True)


def _append_due(call: Call, key: bytes) -> None:
    """Append messages of a stream that are due, in the order of time and ticket."""
    due_keys = call.engine.side_keys.due[SCHEDULED]
    times = sorted_set_at(call, side_key(key, SCHEDULED))
    messages = hash_at(call, side_key(key, MESSAGES))
    value = call.find(key)
    if times is None:
        return
    if value is not None and not isinstance(value, Stream):
        raise CommandError(b"the key holds something that is no stream")
    call.emit_nothing()
    moves = _Moves(call, key, times, messages)
    size = 0
    try:
        for ticket, due in times.slice(0, max(due_keys.left, 1)):
            if due > call.now_ms or size > _SLICE_BYTES:
                break
            size += moves.append(ticket, due)
    finally:
        moves.settle()
        due_keys.left -= moves.count
        for text in moves.warnings:
            call.engine.hooks.warning(text)


def _due_of(_place: Place, value: Any) -> int | None:
    """Return when the first message of a sorted set is due."""
    if not isinstance(value, SortedSet) or not len(value):
        return None
    [(_, due)] = value.slice(0, 1)
    return None if due == _PARKED else max(math.ceil(due), 0) if due > 0 else 0


class _Moves:
    """Messages that leave the schedule of a stream together, and what becomes of their tickets."""

    def __init__(self, call: Call, key: bytes, times: SortedSet, messages: dict[bytes, bytes] | None) -> None:
        self.warnings: list[str] = []
        self._call = call
        self._key = key
        self._times = times
        self._messages = messages
        self._gone: list[bytes] = []
        self._rescored: list[tuple[bytes, float]] = []

    @property
    def count(self) -> int:
        return len(self._gone) + len(self._rescored)

    def append(self, ticket: bytes, due: float) -> int:
        """Append the message of a ticket that is due; returns its size."""
        text = self._messages.get(ticket) if self._messages is not None else None
        if text is None:
            self._gone.append(ticket)
            self._warn(f"the ticket {_shown(ticket)} has no message any more, and was removed")
            return 0
        message = decode(text)
        if message is None:
            self._park(ticket, "is none that can be read")
            return 0
        try:
            append_message(self._call, self._key, message.fields)
        except CommandError as refusal:
            if refusal.text != TOO_LARGE:
                raise
            self._park(ticket, "is larger than an entry of a stream may be")
            return 0
        if message.every_ms:
            self._rescored.append((ticket, float(next_due(due, message.every_ms, self._call.now_ms))))
        else:
            self._gone.append(ticket)
        return len(text)

    def _park(self, ticket: bytes, fault: str) -> None:
        self._rescored.append((ticket, _PARKED))
        self._warn(f"the message of ticket {_shown(ticket)} {fault}; it is kept, and due at no time (+inf)")

    def _warn(self, fault: str) -> None:
        self.warnings.append(f"Of what is scheduled for {_shown(self._key)}, {fault}.")

    def settle(self) -> None:
        """Take the tickets out of the schedule, or give them their next time."""
        if self._rescored:
            _set_times(self._call, self._key, self._times, self._rescored)
        if self._gone:
            self._times.remove_slice(0, len(self._gone))  # the others have moved behind them
            _remove(self._call, self._key, self._times, self._messages, self._gone)


def _shown(text: bytes) -> str:
    return repr(text.decode("utf-8", "backslashreplace"))


def _set_times(call: Call, key: bytes, times: SortedSet, scored: Sequence[tuple[bytes, float]]) -> None:
    side = side_key(key, SCHEDULED)
    for ticket, due in scored:
        times.add(ticket, due)
    note_change(call, side, Event.SORTED_SET, b"zadd", len(scored))
    call.emit([b"ZADD", side, *(word for ticket, due in scored for word in (double_text(due), ticket))])


def _remove(
    call: Call, key: bytes, times: SortedSet | None, messages: dict[bytes, bytes] | None, tickets: list[bytes]
) -> None:
    """Finish what removed tickets from a sorted set, and remove their messages."""
    if times is not None:
        side = side_key(key, SCHEDULED)
        settle_removal(call, side, times, b"zrem", len(tickets))
        call.emit([b"ZREM", side, *tickets])
    found = [ticket for ticket in tickets if messages and messages.pop(ticket, None) is not None]
    if found and messages is not None:
        side = side_key(key, MESSAGES)
        settle_removal(call, side, messages, b"hdel", len(found))
        call.emit([b"HDEL", side, *found])


# --- commands --------------------------------------------------------------------------------------------------


def _read_time(call: Call) -> int:
    word = call.argv[3].lower()
    if word == b"at":
        return read_limited(call, 4, 0, LAST_MS)
    if word != b"delay":
        raise CommandError(SYNTAX)
    return call.now_ms + (0 if call.argv[4] == b"0" else duration_ms(call.argv[4]))


@command(
    "headrace|schedule key <AT unix-ms | DELAY duration> [EVERY duration] field value [field value ...]",
    arity=-7,
    flags=Flag.WRITE | Flag.DENY_OOM | Flag.FAST,
    keys=SECOND,
    since="0.3.0",
    group="headrace",
)
def headrace_schedule(call: Call) -> None:
    """Append a message to a stream at a time, or so much later than now, and reply a ticket.

    Durations are `30s`, `5m`, `1h30m`, `7d`, or milliseconds. With EVERY the message is appended again and again,
    counted from the time at which it was due; of the times that were missed while no server ran, one is made up for.
    EVERY 0 is for a message whose first field has the name `every`. Messages that are due together are appended in the
    order of their tickets. A time that has passed is due at once.
    """
    due = _read_time(call)
    key, at, every_ms = call.argv[2], 5, 0
    if call.argv[5].lower() == b"every":
        every_ms = 0 if call.argv[6] == b"0" else duration_ms(call.argv[6])
        at = 7
    fields = call.argv[at:]
    if not fields or len(fields) % 2:
        raise wrong_arity(b"headrace|schedule")
    if sum(map(len, fields)) > _LARGEST:
        raise CommandError(TOO_LARGE)
    call.stream(2)
    times_key, messages_key = side_key(key, SCHEDULED), side_key(key, MESSAGES)
    times, messages = sorted_set_at(call, times_key), hash_at(call, messages_key)
    ticket = call.engine.tickets.take(call.now_ms)
    while messages is not None and ticket in messages:  # the clock shows a time of before the last start
        ticket = call.engine.tickets.take(call.now_ms)
    if times is None:
        times = SortedSet()
        call.create(times_key, times)
    if messages is None:
        messages = {}
        call.create(messages_key, messages)
    text = encode(ScheduledMessage(every_ms, fields))
    messages[ticket] = text
    note_change(call, messages_key, Event.HASH, b"hset")
    call.emit([b"HSET", messages_key, ticket, text])
    _set_times(call, key, times, [(ticket, float(due))])
    call.reply.bulk(ticket)


@command(
    "headrace|scheduled key [COUNT count]", arity=-3, flags=Flag.READ, keys=SECOND, since="0.3.0", group="headrace"
)
def headrace_scheduled(call: Call) -> None:
    """Reply the messages that are scheduled for a stream, or the first of them, in the order in which they are due.

    Each is a map: the `ticket`; when it is `due`, in Unix milliseconds; how often it is repeated (`every`, in
    milliseconds; 0: not); its `fields`; and why it is `held`, nil where it is not. A message is held where it is due
    and cannot be appended, such as when the key holds no stream: it goes out when that has changed. One whose text
    cannot be read, because somebody wrote it, has neither a time nor fields (nil).
    """
    count = LONG_MAX
    if call.argc > 3:
        if call.argc != 5 or call.argv[3].lower() != b"count":
            raise CommandError(SYNTAX)
        count = read_limited(call, 4, 0, LONG_MAX)
    key = call.argv[2]
    times = sorted_set_at(call, side_key(key, SCHEDULED)) or SortedSet()
    messages = hash_at(call, side_key(key, MESSAGES)) or {}
    held = call.engine.side_keys.due[SCHEDULED].held_for((call.db.number, key))
    found = times.slice(0, count)
    call.reply.array(len(found))
    for ticket, due in found:
        reason = b"its text cannot be read" if due == _PARKED else held if due <= call.now_ms else None
        _reply_message(call, ticket, due, decode(messages.get(ticket, b"")), reason)


def _reply_message(call: Call, ticket: bytes, due: float, message: ScheduledMessage | None, held: bytes | None) -> None:
    reply = call.reply
    reply.map(5)
    reply.bulk(b"ticket")
    reply.bulk(ticket)
    reply.bulk(b"due")
    if math.isinf(due):
        reply.null()
    else:
        reply.integer(math.ceil(due))
    reply.bulk(b"every")
    reply.integer(message.every_ms if message is not None else 0)
    reply.bulk(b"fields")
    if message is None:
        reply.null()
    else:
        reply.array(len(message.fields))
        for text in message.fields:
            reply.bulk(text)
    reply.bulk(b"held")
    if held is None:
        reply.null()
    else:
        reply.bulk(held)


@command(
    "headrace|unschedule key ticket",
    arity=4,
    flags=Flag.WRITE | Flag.FAST,
    keys=SECOND,
    since="0.3.0",
    group="headrace",
)
def headrace_unschedule(call: Call) -> None:
    """Remove a scheduled message by its ticket, and reply 1; 0 where there is none, because it was appended."""
    key, ticket = call.argv[2:]
    times = sorted_set_at(call, side_key(key, SCHEDULED))
    messages = hash_at(call, side_key(key, MESSAGES))
    timed = times is not None and times.remove(ticket)
    known = timed or (messages is not None and ticket in messages)
    if known:
        _remove(call, key, times if timed else None, messages, [ticket])
    call.reply.integer(int(known))
