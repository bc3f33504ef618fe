"""HEADRACE LINK, and STAGE, COMMIT, ABORT and FORGET: many entries at once, packed, and exactly once.

    tasks    STAGE key query batch partition payload …      nobody sees it yet; lost when the server ends; expires
    driver   COMMIT key query batch parts                   all of it, in order, or nothing; a repeat changes nothing

What was committed last is kept beside the stream, in the hash `headrace:{key}:batches`: a field for each query, with
the batch, the first and the last ID, and how many entries. It is data like any other, so that it is saved and sent
wherever the stream is.

The effect of a commit is LINK with the payloads as they came, the trim, and HSET. A redis-server cannot repeat a
LINK: where `rdb-compatibility-version` names one that should be able to, an XADD for each entry takes its place.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from headrace.commands.arguments import LONG_MAX, integer_of, read_limited
from headrace.commands.declaration.table import SECOND, command
from headrace.commands.held import hash_at, note_change, settle_removal
from headrace.commands.streams.appending import hand_over_settings, keep_after_appending, new_stream
from headrace.commands.streams.arguments import INVALID_ID
from headrace.core.errors import HeadraceError, InvalidStreamID
from headrace.core.packed import Packed, first_id_for, link_parts
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError, quoted
from headrace.engine.pubsub.notifications import Event
from headrace.engine.staging import BatchName, StagedBatch

_WRITE: Final = Flag.WRITE | Flag.DENY_OOM
_MOST_PARTS: Final = 1_000_000
_NO_ID: Final = b"-"


class _Linked(NamedTuple):
    """What a commit or a LINK appended; no IDs where that was nothing."""

    first: bytes = _NO_ID
    last: bytes = _NO_ID
    entries: int = 0

    def reply(self, call: Call) -> None:
        call.reply.array(3)
        for id in (self.first, self.last):
            if id == _NO_ID:
                call.reply.null()
            else:
                call.reply.bulk(id)
        call.reply.integer(self.entries)


def _batches_key(key: bytes) -> bytes:
    return b"headrace:{%s}:batches" % key


def _with_batches_key(argv: list[bytes]) -> list[bytes]:
    """List the keys of COMMIT and FORGET: the stream, and beside it what queries have committed."""
    return [argv[2], _batches_key(argv[2])]


def _refusal(mistake: HeadraceError) -> CommandError:
    return CommandError(b"ERR " + str(mistake).encode())


def _read_payload(payload: bytes) -> Packed:
    try:
        return Packed(payload)
    except HeadraceError as mistake:
        raise _refusal(mistake) from None


def _batch_name(call: Call) -> BatchName:
    batch = read_limited(call, 4, 0, LONG_MAX, b"ERR batch must be an integer that is not negative")
    return (call.db.number, call.argv[2], call.argv[3], batch)


# --- appending -------------------------------------------------------------------------------------------------


def _link(call: Call, payloads: list[Packed], first: StreamID | None) -> _Linked:
    """Append entries to the stream at argument 2, which is made where it is missing, and hand over the effect."""
    entries = sum(payload.entries for payload in payloads)
    stream = call.stream(2)
    if entries == 0:
        return _Linked()
    key = call.argv[2]
    target = stream if stream is not None else new_stream(call)
    try:
        begin = first if first is not None else first_id_for(target, entries, call.now_ms)
        lowest, last = link_parts(target, payloads, begin)
    except HeadraceError as mistake:
        raise _refusal(mistake) from None
    if stream is None:
        call.create(key, target)
    call.changed(entries)
    call.touch(key)
    call.notify(Event.STREAM, b"xadd", key)
    call.signal(key)
    _hand_over(call, target, payloads, lowest, last)
    if stream is None:
        hand_over_settings(call, key, target)
    keep_after_appending(call, key, target)
    return _Linked(bytes(lowest), bytes(last), entries)


def _hand_over(call: Call, stream: Stream, payloads: list[Packed], first: StreamID, last: StreamID) -> None:
    key = call.argv[2]
    call.emit_nothing()
    if not call.engine.effects.wanted:
        return
    if call.engine.effects.vocabulary == "auto":
        packed = [payload.payload for payload in payloads if payload.entries]
        call.emit([b"HEADRACE", b"LINK", key, bytes(first), *packed])
        return
    for id, fields in stream.range(first, last):
        call.emit([b"XADD", key, bytes(id), *fields])


@command(
    "headrace|link key *|id payload [payload ...]", arity=-5, flags=_WRITE, keys=SECOND, since="0.1.0", group="headrace"
)
def headrace_link(call: Call) -> None:
    """Append packed entries to a stream, which is created where it is missing, all of them or none.

    The first one gets the ID, or with `*` one of now, and the others those behind it; payloads may also carry IDs,
    and then this one does not count. Replies the first ID, the last ID, and how many entries; nil for the IDs where
    there are none.
    """
    payloads = [_read_payload(payload) for payload in call.argv[4:]]
    first = None
    if call.argv[3] != b"*":
        try:
            first = StreamID.parse(call.argv[3])
        except InvalidStreamID:
            raise CommandError(INVALID_ID) from None
    _link(call, payloads, first).reply(call)


# --- staging ---------------------------------------------------------------------------------------------------


@command(
    "headrace|stage key query batch partition payload [OFFSET entries]",
    arity=-7,
    flags=_WRITE,
    keys=SECOND,
    since="0.1.0",
    group="headrace",
)
def headrace_stage(call: Call) -> None:
    """Keep packed entries of a part of a batch until the batch is committed, and reply how many the part has now.

    They come behind what the part has; with OFFSET, behind so many entries of it and in place of the others, so that
    the same call may be repeated, and OFFSET 0 begins the part anew. A part without entries is staged by an empty
    payload. What is not committed within `headrace-stage-ttl` seconds is forgotten, as it is when the server ends.
    """
    name = _batch_name(call)
    partition = read_limited(call, 5, 0, LONG_MAX, b"ERR partition must be an integer that is not negative")
    offset = None
    if call.argc > 7:
        if call.argc != 9 or call.argv[7].lower() != b"offset":
            raise CommandError(SYNTAX)
        offset = read_limited(call, 8, 0, LONG_MAX)
    call.stream(2)
    payload = _read_payload(call.argv[6])
    try:
        part = call.engine.staging.add(name, partition, payload, offset, call.engine.clocks.steady_now_ms)
    except HeadraceError as mistake:
        raise _refusal(mistake) from None
    call.reply.integer(part.entries)


@command(
    "headrace|abort key query batch",
    arity=5,
    flags=Flag.WRITE | Flag.FAST,
    keys=SECOND,
    since="0.1.0",
    group="headrace",
)
def headrace_abort(call: Call) -> None:
    """Forget what was staged for a batch, and reply how many parts that were."""
    call.reply.integer(call.engine.staging.drop(_batch_name(call)))


# --- committing ------------------------------------------------------------------------------------------------


@dataclass
class _CommitOptions:
    partitions: list[int]
    trim_word: bytes | None = None
    threshold: int | StreamID = 0
    approximate: bool = False


def _read_options(call: Call) -> _CommitOptions:
    parts = read_limited(call, 5, 0, _MOST_PARTS)
    options = _CommitOptions(list(range(parts)))
    at = 6
    while at < call.argc:
        word = call.argv[at].lower()
        if word == b"parts" and at + parts < call.argc:
            options.partitions = [read_limited(call, at + 1 + i, 0, LONG_MAX) for i in range(parts)]
            at += 1 + parts
        elif word in {b"maxlen", b"minid"} and options.trim_word is None and at + 1 < call.argc:
            at = _read_trim(call, at, options)
        else:
            raise CommandError(SYNTAX)
    return options


def _read_trim(call: Call, at: int, options: _CommitOptions) -> int:
    """Read MAXLEN or MINID with its threshold: the place behind it."""
    options.trim_word = call.argv[at].lower()
    at += 1
    if call.argv[at] in {b"=", b"~"} and at + 1 < call.argc:
        options.approximate = call.argv[at] == b"~"
        at += 1
    if options.trim_word == b"maxlen":
        options.threshold = read_limited(call, at, 0, LONG_MAX, b"ERR The MAXLEN argument must be >= 0.")
    else:
        try:
            options.threshold = StreamID.parse(call.argv[at])
        except InvalidStreamID:
            raise CommandError(INVALID_ID) from None
    return at + 1


def _committed(call: Call) -> tuple[int, _Linked] | None:
    """Return the last batch of the query that was committed, and what it appended."""
    key = _batches_key(call.argv[2])
    held = hash_at(call, key)
    text = held.get(call.argv[3]) if held is not None else None
    if text is None:
        return None
    words = text.split(b" ")
    numbers = [integer_of(word) for word in (words[0], words[-1])]
    if len(words) != 4 or None in numbers:
        raise CommandError(
            b"ERR '%s' is not what a commit wrote for this query into '%s': remove the field to begin anew"
            % (quoted(text)[:64], quoted(key)[:128])
        )
    return int(words[0]), _Linked(words[1], words[2], int(words[3]))


def _remember(call: Call, batch: int, linked: _Linked) -> None:
    key, query = _batches_key(call.argv[2]), call.argv[3]
    text = b"%d %s %s %d" % (batch, linked.first, linked.last, linked.entries)
    held = hash_at(call, key)
    if held is None:
        held = {}
        call.create(key, held)
    held[query] = text
    note_change(call, key, Event.HASH, b"hset")
    call.emit([b"HSET", key, query, text])


def _staged_payloads(call: Call, batch: StagedBatch | None, partitions: list[int]) -> list[Packed]:
    """Put the payloads of the parts in a row; refuses where a part is missing, because entries would be missing."""
    payloads: list[Packed] = []
    for partition in partitions:
        part = batch.parts.get(partition) if batch is not None else None
        if part is None:
            raise CommandError(
                b"ERR part %d of batch %s is not staged: it expired, or the server was restarted; stage the batch again"
                % (partition, call.argv[4])
            )
        payloads += part.payloads
    return payloads


def _trim(call: Call, options: _CommitOptions) -> None:
    """Trim the stream; its length then tells exactly what must be repeated."""
    stream = call.stream(2)
    if stream is None or options.trim_word is None:
        return
    if isinstance(options.threshold, int):
        removed = stream.trim_to_length(options.threshold, options.approximate)
    else:
        removed = stream.trim_to_id(options.threshold, options.approximate)
    if removed:
        note_change(call, call.argv[2], Event.STREAM, b"xtrim", removed)
        call.emit([b"XTRIM", call.argv[2], b"MAXLEN", b"=", b"%d" % len(stream)])


@command(
    "headrace|commit key query batch parts [PARTS partition [partition ...]] [MAXLEN|MINID [=|~] threshold]",
    arity=-6,
    flags=_WRITE,
    keys=SECOND,
    find_keys=_with_batches_key,
    since="0.1.0",
    group="headrace",
)
def headrace_commit(call: Call) -> None:
    """Append the staged parts of a batch to a stream, in order, all of them or none, and remember the batch.

    The parts are those from 0 on, or with PARTS as many as are named, in that order; each must be staged. Entries get
    IDs of now, unless their payloads carry IDs. Then the stream is trimmed. Replies the first ID, the last ID, and
    how many entries; nil for the IDs where there are none. A batch that was committed is not committed again: the
    reply is the same, or that of no entries where the query has committed a later batch since. What else was staged
    for the batch, or for an earlier one of the query, is forgotten. The last batch of each query is kept in the hash
    `headrace:{key}:batches`, for which the user needs permission, too.
    """
    name = _batch_name(call)
    options = _read_options(call)
    staging = call.engine.staging
    former = _committed(call)
    if former is not None and former[0] >= name[3]:
        staging.drop_until(name)
        (former[1] if former[0] == name[3] else _Linked()).reply(call)
        return
    payloads = _staged_payloads(call, staging.batches.get(name), options.partitions)
    linked = _link(call, payloads, None)
    _trim(call, options)
    _remember(call, name[3], linked)
    staging.drop_until(name)
    linked.reply(call)


@command(
    "headrace|forget key query",
    arity=4,
    flags=Flag.WRITE | Flag.FAST,
    keys=SECOND,
    find_keys=_with_batches_key,
    since="0.1.0",
    group="headrace",
)
def headrace_forget(call: Call) -> None:
    """Forget what a query committed last, and reply whether anything was known; for a query that will not come back."""
    key = _batches_key(call.argv[2])
    held = hash_at(call, key)
    known = held is not None and held.pop(call.argv[3], None) is not None
    if held is not None and known:
        settle_removal(call, key, held, b"hdel")
        call.emit([b"HDEL", key, call.argv[3]])
    call.reply.integer(int(known))
