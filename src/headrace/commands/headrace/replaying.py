"""HEADRACE IDMPLIMITS, IDMPFORGET, IDMPRECORD, IDMPREPEAT, RELEASE and SEEN: effects for which Redis has no command.

They say what became of a stream by time, by settings or by a read, so that repeating effects needs none of these. In
append-only files they are annotations, which Redis passes over (see formats.aof). Whoever calls one does what it says.
"""

from typing import Final

from headrace.commands.arguments import LONG_MAX, LONG_MIN, read_limited
from headrace.commands.declaration.table import SECOND, command
from headrace.commands.streams.arguments import INVALID_ID
from headrace.core.errors import InvalidStreamID
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import NO_SUCH_KEY, CommandError, wrong_arity

_WRITE: Final = Flag.WRITE | Flag.FAST
_MOST_SECONDS: Final = 86_400
_MOST_IDS: Final = 10_000


def _stream(call: Call) -> Stream:
    stream = call.stream(2)
    if stream is None:
        raise CommandError(NO_SUCH_KEY)
    return stream


@command(
    "headrace|idmplimits key duration maxsize", arity=5, flags=_WRITE, keys=SECOND, since="0.2.0", group="headrace"
)
def headrace_idmplimits(call: Call) -> None:
    """Set how many seconds and how many idempotent IDs a stream remembers, as XCFGSET does, but forget none."""
    limits = read_limited(call, 3, 1, _MOST_SECONDS), read_limited(call, 4, 1, _MOST_IDS)
    stream = _stream(call)
    stream.producers.set_limits(*limits)
    call.db.expect_forgetting(call.argv[2], stream)
    call.changed()
    call.reply.ok()


@command(
    "headrace|idmpforget key producer count [producer count ...]",
    arity=-5,
    flags=_WRITE,
    keys=SECOND,
    since="0.2.0",
    group="headrace",
)
def headrace_idmpforget(call: Call) -> None:
    """Forget the oldest idempotent IDs of producers: what happens by itself when they are older than IDMP-DURATION."""
    if call.argc % 2 == 0:
        raise wrong_arity(b"headrace|idmpforget")
    counts = [read_limited(call, at, 1, LONG_MAX) for at in range(4, call.argc, 2)]
    producers = _stream(call).producers
    for producer, count in zip(call.argv[3::2], counts, strict=True):
        producers.forget(producer, count)
    call.changed()
    call.reply.ok()


@command(
    "headrace|idmprecord key producer idempotent-id id",
    arity=6,
    flags=_WRITE | Flag.DENY_OOM,
    keys=SECOND,
    since="0.2.0",
    group="headrace",
)
def headrace_idmprecord(call: Call) -> None:
    """Remember that a producer's message became an entry, as XIDMPRECORD does, whether or not the entry is there."""
    key, producer, idempotent_id, text = call.argv[2:]
    try:
        entry = StreamID.parse(text)
    except InvalidStreamID:
        raise CommandError(INVALID_ID) from None
    stream = _stream(call)
    stream.producers.record(producer, idempotent_id, entry)
    call.db.expect_forgetting(key, stream)
    call.changed()
    call.reply.ok()


@command("headrace|idmprepeat key", arity=3, flags=_WRITE, keys=SECOND, since="0.2.0", group="headrace")
def headrace_idmprepeat(call: Call) -> None:
    """Count that a producer has sent a message again."""
    _stream(call).producers.duplicates += 1
    call.changed()
    call.reply.ok()


@command(
    "headrace|release key group consumer id count",
    arity=7,
    flags=_WRITE | Flag.DENY_OOM,
    keys=SECOND,
    since="0.2.0",
    group="headrace",
)
def headrace_release(call: Call) -> None:
    """Let nobody own a pending record, as XNACK does, and remove the consumer that had it for older servers.

    An empty name is a consumer that is there for its own sake. Replies 0 where there is no such group.
    """
    foster = call.argv[4]
    try:
        entry = StreamID.parse(call.argv[5])
    except InvalidStreamID:
        raise CommandError(INVALID_ID) from None
    deliveries = read_limited(call, 6, 0, LONG_MAX)
    group = _stream(call).group(call.argv[3])
    if group is not None:
        group.restore_released(entry, deliveries)
        if foster:
            group.delete_consumer(foster)
        call.changed()
        call.signal(call.argv[2])
    call.reply.integer(int(group is not None))


@command(
    "headrace|seen key group consumer seen-time active-time",
    arity=7,
    flags=_WRITE,
    keys=SECOND,
    since="0.2.0",
    group="headrace",
)
def headrace_seen(call: Call) -> None:
    """Set when a consumer was last seen and last got something, in Unix milliseconds; reply 0 where there is none."""
    times = [read_limited(call, at, LONG_MIN, LONG_MAX) for at in (5, 6)]
    group = _stream(call).group(call.argv[3])
    known = group is not None and group.note_seen(call.argv[4], *times)
    if known:
        call.changed()
    call.reply.integer(int(known))
