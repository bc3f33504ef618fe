# cython: nonecheck=True
"""What a stream remembers of its producers: which of their messages became which entries, how long and how many.

XADD asks and adds to it; see `entries`. These commands set its limits, and write it back.
"""

from headrace.commands.streams.arguments cimport is_word, strict_id
from headrace.commands.streams.effects cimport emit_forgotten, emit_limits, emit_record, knows_producers
from headrace.core.stream cimport Stream
from headrace.core.stream_id cimport ID, StreamID, same, wrap_id
from headrace.engine.call cimport Call
from headrace.engine.command cimport DENY_OOM, FAST, WRITE

from headrace.commands.declaration.table import FIRST, command
from headrace.engine.errors import NO_SUCH_KEY, SYNTAX, CommandError


@command(
    "xcfgset key [IDMP-DURATION seconds] [IDMP-MAXSIZE count]",
    arity=-2, flags=WRITE | FAST, keys=FIRST, since="8.6.0", group="stream",
)
def xcfgset(Call call) -> None:
    """Set how long and how many idempotent IDs a stream remembers; a change forgets those it has."""
    cdef Stream stream
    cdef Py_ssize_t i = 2
    duration = size = None
    if call.value(1) is None:
        raise CommandError(NO_SUCH_KEY)
    stream = call.stream(1)
    while i < call.argc:
        if is_word(call.argv[i], b"idmp-duration") and i + 1 < call.argc:
            if duration is not None:
                raise CommandError(b"ERR IDMP-DURATION specified multiple times")
            duration = call.integer(i + 1)
            if not 1 <= duration <= 86400:
                raise CommandError(b"ERR IDMP-DURATION must be between 1 and 86400 seconds")
        elif is_word(call.argv[i], b"idmp-maxsize") and i + 1 < call.argc:
            if size is not None:
                raise CommandError(b"ERR IDMP-MAXSIZE specified multiple times")
            size = call.integer(i + 1)
            if not 1 <= size <= 10000:
                raise CommandError(b"ERR IDMP-MAXSIZE must be between 1 and 10000 entries")
        else:
            raise CommandError(SYNTAX)
        i += 2
    if duration is None and size is None:
        raise CommandError(b"ERR At least one parameter must be specified")
    producers = stream.producers
    forgotten = producers.sizes()
    if producers.configure(
        producers.duration_s if duration is None else duration, producers.max_size if size is None else size
    ):
        call.changed()
        if not knows_producers(call):
            emit_forgotten(call, <bytes>call.argv[1], forgotten)
            emit_limits(call, <bytes>call.argv[1], stream)
    call.reply.ok()


@command(
    "xidmprecord key producer idempotent-id id",
    arity=5, flags=WRITE | DENY_OOM | FAST, keys=FIRST, since="8.6.2", group="stream",
)
def xidmprecord(Call call) -> None:
    """Remember that a producer's message became an entry; written by AOF rewrites."""
    cdef ID id = strict_id(call, 4)
    cdef Stream stream
    cdef StreamID known
    _, key, producer, idempotent_id, _ = call.argv
    if not producer:
        raise CommandError(b"ERR producer ID must be non-empty")
    if not idempotent_id:
        raise CommandError(b"ERR idempotent ID must be non-empty")
    if call.value(1) is None:
        raise CommandError(NO_SUCH_KEY)
    stream = call.stream(1)
    if not stream.log.contains(id):
        raise CommandError(b"ERR No such message in stream")
    known = stream.producers.find(producer, idempotent_id)
    if known is None or call.engine.applying:
        stream.producers.record(producer, idempotent_id, wrap_id(id))
        call.db.expect_forgetting(key, stream)
        call.changed()
        if not knows_producers(call):
            emit_record(call, key, producer, idempotent_id, id)
    elif not same(known.id, id):
        raise CommandError(b"ERR IID already exists for this producer with a different stream ID")
    call.reply.ok()
