"""HEADRACE REDRIVE and REDRIVING: dead letters go back to where they came from, without what was added to them.

    REDRIVE             XADD for each letter, and XDEL of all of them: one unit
    REDRIVE … RATE n    the server does it, so many a second: a hash beside the dead-letter stream says how far it is

    headrace:{dead-stream}:redrive   hash   rate  until  next  moved  started  [to]  [left]  [field  value]

`until` is the last ID of the stream when the redrive began. What dies again meanwhile comes behind it and stays, so
that a message that nobody can process does not go round and round. `next` is the ID from which it goes on. Each slice
is one unit of effects with the hash, so that a redrive goes on behind a crash or a failover where it was; DEL of the
hash ends it, too.
"""

from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from headrace.commands.arguments import LONG_MAX, integer_of, read_limited
from headrace.commands.declaration.table import SECOND, command
from headrace.commands.held import hash_at, note_change
from headrace.commands.streams.appending import append_message
from headrace.commands.streams.arguments import INVALID_ID
from headrace.core.errors import InvalidStreamID
from headrace.core.stream import Stream
from headrace.core.stream_id import MAX_ID, MIN_ID, StreamID
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.due_keys import TURN, DueKeys, Place
from headrace.engine.engine import Engine
from headrace.engine.errors import SYNTAX, WRONG_TYPE, CommandError, quoted
from headrace.engine.pubsub.notifications import Event
from headrace.engine.rules.dead_letters import split_letter
from headrace.engine.side_keys import side_key

REDRIVE: Final = b"redrive"

_MOST_A_SECOND: Final = 100_000
_TURNS_A_SECOND: Final = 50  # of a redrive that is fast enough to have so many
_LOOKED_AT: Final = 1000  # entries that one slice looks at, whether they match or not
_STATE: Final[tuple[bytes, ...]] = (
    b"rate",
    b"until",
    b"next",
    b"moved",
    b"started",
    b"to",
    b"left",
    b"field",
    b"value",
)


@dataclass
class _Choice:
    """Which letters go where."""

    to: bytes | None = None  # None: each to the stream that it came from
    count: int = LONG_MAX
    where: tuple[bytes, bytes] | None = None
    ids: tuple[StreamID, ...] = ()  # none: any

    def fits(self, fields: list[bytes]) -> bool:
        """Tell whether an entry has the field and value that were asked for."""
        return self.where is None or self.where in zip(fields[::2], fields[1::2], strict=True)


@dataclass
class _Letter:
    """An entry of a dead-letter stream that is to go: where, and what."""

    id: StreamID
    target: bytes
    fields: list[bytes]


def _choose(
    key: bytes, stream: Stream, choice: _Choice, span: tuple[StreamID, StreamID], most: int
) -> tuple[list[_Letter], StreamID | None]:
    """Find letters in a span, looking at so many entries; and the ID to go on from, None: that was all."""
    letters: list[_Letter] = []
    looked, last = 0, span[0]
    for id, fields in stream.range(*span, most):
        looked, last = looked + 1, id
        letter = _letter_of(key, id, fields, choice.to) if choice.fits(fields) else None
        if letter is not None:
            letters.append(letter)
            if len(letters) == choice.count:
                return letters, None
    return letters, None if looked < most or last == MAX_ID else last.successor()


def _choose_named(key: bytes, stream: Stream, choice: _Choice) -> list[_Letter]:
    """Find the letters whose IDs were given, those that are there."""
    found = ((id, stream.get(id)) for id in sorted(set(choice.ids)))
    letters = (_letter_of(key, id, fields, choice.to) for id, fields in found if fields is not None)
    return [letter for letter in letters if letter is not None]


def _letter_of(key: bytes, id: StreamID, fields: list[bytes], to: bytes | None) -> _Letter | None:
    """Return what is to go, and where; None: an entry that came from nowhere else stays."""
    split = split_letter(fields)
    own = fields if split is None else split[0]
    target = to or (None if split is None else split[1].stream)
    return _Letter(id, target, own) if target is not None and target != key and own else None


def _check_targets(call: Call, letters: list[_Letter]) -> None:
    for target in {letter.target for letter in letters}:
        value = call.find(target)
        if value is not None and not isinstance(value, Stream):
            raise CommandError(
                b"WRONGTYPE the key '%s', where dead letters came from, holds no stream" % quoted(target)[:128]
            )


def _move(call: Call, key: bytes, stream: Stream, letters: list[_Letter]) -> None:
    """Append letters to their streams, and delete them here."""
    moved: list[StreamID] = []
    try:
        for letter in letters:
            append_message(call, letter.target, letter.fields)
            moved.append(letter.id)
    finally:
        if moved:
            stream.delete(moved)
            note_change(call, key, Event.STREAM, b"xdel", len(moved))
            call.emit([b"XDEL", key, *map(bytes, moved)])


# --- a redrive that the server keeps ---------------------------------------------------------------------------


def keep_redrives(engine: Engine) -> None:
    """Have an engine go on with redrives that have a rate."""
    redrives = _Redrives()
    DueKeys(engine, REDRIVE, due_of=redrives.due_of, work=redrives.run_slice, in_unix_time=False)


class _Redrives:
    """When the redrives of an engine go on, in ms of the steady clock; one that is new goes on at once."""

    def __init__(self) -> None:
        self._due: dict[Place, int] = {}

    def due_of(self, place: Place, value: Any) -> int | None:
        return self._due.get(place, 0) if isinstance(value, dict) and b"rate" in value else None

    def run_slice(self, call: Call, key: bytes) -> None:
        """Move as many letters as the rate allows at once."""
        state = hash_at(call, side_key(key, REDRIVE))
        if state is None:
            return
        redrive = _Running(state)
        place = (call.db.number, key)
        size = max(1, min(TURN, redrive.rate // _TURNS_A_SECOND))
        self._due[place] = call.engine.clocks.steady_now_ms + ceil(1000 * size / redrive.rate)
        stream = call.find(key)
        if stream is not None and not isinstance(stream, Stream):
            raise CommandError(WRONG_TYPE)
        call.emit_nothing()
        letters: list[_Letter] = []
        following = None
        if stream is not None:
            redrive.choice.count = min(redrive.left, size)
            most = _LOOKED_AT if redrive.choice.where else size
            letters, following = _choose(key, stream, redrive.choice, (redrive.next, redrive.until), most)
            _check_targets(call, letters)
            if len(letters) == redrive.choice.count < redrive.left and letters[-1].id < redrive.until:
                following = letters[-1].id.successor()
            _move(call, key, stream, letters)
        call.engine.side_keys.due[REDRIVE].left -= len(letters)
        if following is None or following > redrive.until:
            del self._due[place]
            _end(call, key)
        else:
            _note_progress(call, key, redrive, len(letters), following)


class _Running:
    """What the hash of a redrive says; refuses where somebody wrote something else into it."""

    def __init__(self, state: dict[bytes, bytes]) -> None:
        self.state = state
        rate, moved = integer_of(state.get(b"rate", b"")), integer_of(state.get(b"moved", b"0"))
        left = integer_of(state.get(b"left", b"%d" % LONG_MAX))
        if rate is None or moved is None or left is None or rate < 1 or left < 1:
            raise _not_a_redrive()
        self.rate, self.moved, self.left = min(rate, _MOST_A_SECOND), moved, left
        try:
            self.next = StreamID.parse(state.get(b"next", b"0"))
            self.until = StreamID.parse(state.get(b"until", bytes(MAX_ID)))
        except InvalidStreamID:
            raise _not_a_redrive() from None
        where = (state[b"field"], state.get(b"value", b"")) if b"field" in state else None
        self.choice = _Choice(state.get(b"to"), self.left, where)


def _not_a_redrive() -> CommandError:
    return CommandError(b"ERR the hash of the redrive is none that the server wrote: remove it, and begin again")


def _note_progress(call: Call, key: bytes, redrive: _Running, moved: int, following: StreamID) -> None:
    changed = {b"next": bytes(following), b"moved": b"%d" % (redrive.moved + moved)}
    if b"left" in redrive.state:
        changed[b"left"] = b"%d" % (redrive.left - moved)
    _set_state(call, key, redrive.state, changed)


def _set_state(call: Call, key: bytes, state: dict[bytes, bytes], changed: dict[bytes, bytes]) -> None:
    side = side_key(key, REDRIVE)
    state |= changed
    note_change(call, side, Event.HASH, b"hset", len(changed))
    call.emit([b"HSET", side, *(word for pair in changed.items() for word in pair)])


def _end(call: Call, key: bytes) -> bool:
    side = side_key(key, REDRIVE)
    if not call.delete(side):
        return False
    call.changed()
    call.notify(Event.GENERIC, b"del", side)
    call.emit([b"DEL", side])
    return True


# --- commands --------------------------------------------------------------------------------------------------


def _find_keys(argv: list[bytes]) -> list[bytes]:
    """List the dead-letter stream, and the stream that TO names."""
    at = 3
    while at + 1 < len(argv):
        if argv[at].lower() == b"to":
            return [argv[2], argv[at + 1]]
        word = argv[at].lower()
        at += 3 if word == b"where" else 2 + max(integer_of(argv[at + 1]) or 0, 0) if word == b"ids" else 2
    return argv[2:3]


def _read_choice(call: Call) -> tuple[_Choice, int | None]:
    choice, rate, at = _Choice(), None, 3
    while at + 1 < call.argc:
        word = call.argv[at].lower()
        if word == b"to":
            choice.to = call.argv[at + 1]
        elif word == b"count":
            choice.count = read_limited(call, at + 1, 1, LONG_MAX)
        elif word == b"rate":
            rate = read_limited(call, at + 1, 1, _MOST_A_SECOND)
        elif word == b"where" and at + 2 < call.argc:
            choice.where = (call.argv[at + 1], call.argv[at + 2])
            at += 1
        elif word == b"ids" and not choice.ids:
            count = read_limited(call, at + 1, 1, LONG_MAX)
            if at + 2 + count > call.argc:
                raise CommandError(SYNTAX)
            choice.ids = tuple(_read_id(word) for word in call.argv[at + 2 : at + 2 + count])
            at += count
        else:
            raise CommandError(SYNTAX)
        at += 2
    if at != call.argc or (choice.ids and (rate is not None or choice.where or choice.count != LONG_MAX)):
        raise CommandError(SYNTAX)
    return choice, rate


def _read_id(word: bytes) -> StreamID:
    try:
        return StreamID.parse(word)
    except InvalidStreamID:
        raise CommandError(INVALID_ID) from None


def _check_permission(call: Call, letters: list[_Letter]) -> None:
    """Refuse a user who may not write to the streams that letters came from."""
    client = call.client
    if client.user is None or client.user.unlimited:
        return
    for target in {letter.target for letter in letters}:
        refusal = call.engine.users.refuse(client, call.command, [*call.argv[:3], b"TO", target])
        if refusal is not None:
            raise CommandError(refusal)


@command(
    "headrace|redrive key [END] [TO destination] [COUNT count] [RATE count] [WHERE field value] "
    "[IDS numids id [id ...]]",
    arity=-3,
    flags=Flag.WRITE | Flag.DENY_OOM,
    keys=SECOND,
    find_keys=_find_keys,
    since="0.3.0",
    group="headrace",
)
def headrace_redrive(call: Call) -> None:
    """Put dead letters back where they came from, or with TO into another stream, without what was added to them.

    Replies how many: all that are there now, at most COUNT of them, with WHERE only those that have a field of that
    value (`headrace-reason`, `headrace-group` and the like, too). Each is appended as a new entry and deleted here, in
    one transaction. Entries that are no dead letters stay, unless TO says where they go. The user needs permission to
    write to the streams that get them. With IDS these letters alone go, those that are there; TO may stand beside it.

    With RATE the server moves so many a second from now on, also after a restart or a failover, and the reply is OK;
    HEADRACE REDRIVING shows how far it is. END alone ends it, and replies 1, or 0 where none runs. Letters that arrive
    meanwhile stay.
    """
    key = call.argv[2]
    if call.argc == 4 and call.argv[3].lower() == b"end":
        call.emit_nothing()
        call.reply.integer(_end(call, key))
        return
    choice, rate = _read_choice(call)
    stream = call.stream(2)
    if choice.to == key:
        raise CommandError(b"ERR dead letters cannot go to the stream that they are in: name another with TO")
    if hash_at(call, side_key(key, REDRIVE)) is not None:
        raise CommandError(b"ERR a redrive of this stream runs: HEADRACE REDRIVING shows it, REDRIVE with END ends it")
    if rate is not None:
        _begin(call, key, stream, choice, rate)
        return
    if stream is None:
        call.reply.integer(0)
        return
    if choice.ids:
        letters = _choose_named(key, stream, choice)
    else:
        letters, _ = _choose(key, stream, choice, (MIN_ID, stream.last_id), len(stream) + 1)
    _check_permission(call, letters)
    _check_targets(call, letters)
    call.emit_nothing()
    _move(call, key, stream, letters)
    call.reply.integer(len(letters))


def _begin(call: Call, key: bytes, stream: Stream | None, choice: _Choice, rate: int) -> None:
    user = call.client.user
    if choice.to is None and user is not None and not user.unlimited:
        raise CommandError(
            b"NOPERM a redrive with a RATE writes to any stream that letters came from: name one with TO, or ask as a "
            b"user without limits"
        )
    if choice.to is not None and not isinstance(call.find(choice.to) or Stream(), Stream):
        raise CommandError(WRONG_TYPE)
    if stream is None or not len(stream):
        call.reply.ok()
        return
    state = {
        b"rate": b"%d" % rate,
        b"until": bytes(stream.last_id),
        b"next": bytes(MIN_ID),
        b"moved": b"0",
        b"started": b"%d" % call.now_ms,
    }
    if choice.to is not None:
        state[b"to"] = choice.to
    if choice.count != LONG_MAX:
        state[b"left"] = b"%d" % choice.count
    if choice.where is not None:
        state[b"field"], state[b"value"] = choice.where
    held: dict[bytes, bytes] = {}
    call.create(side_key(key, REDRIVE), held)
    _set_state(call, key, held, state)
    call.reply.ok()


@command("headrace|redriving key", arity=3, flags=Flag.READ | Flag.FAST, keys=SECOND, since="0.3.0", group="headrace")
def headrace_redriving(call: Call) -> None:
    """Reply how far the redrive of a dead-letter stream is that has a RATE; nil where none runs.

    The reply is a map: `rate`, the ID `until` which it goes, the `next` ID, how many it has `moved`, when it was
    `started` (Unix milliseconds), and where they were asked for `to`, how many are `left`, and `field` and `value`.
    `held` says why it waits, such as for a key that holds no stream any more.
    """
    key = call.argv[2]
    state = hash_at(call, side_key(key, REDRIVE))
    if state is None:
        call.reply.null()
        return
    held = call.engine.side_keys.due[REDRIVE].held_for((call.db.number, key))
    shown = [(name, state[name]) for name in _STATE if name in state]
    if held is not None:
        shown.append((b"held", held))
    call.reply.map(len(shown))
    for pair in shown:
        for text in pair:
            call.reply.bulk(text)
