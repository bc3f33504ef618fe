"""HEADRACE SPLITS and NODES: a stream as packed nodes, for readers that decode them themselves, in parallel.

HEADRACE IDENTITY tells them whether it is still the same stream, HEADRACE MEMORY tells people where it is kept.
"""

from secrets import token_hex
from typing import Final

from headrace.commands.arguments import read_limited
from headrace.commands.declaration.help import reply_help
from headrace.commands.declaration.table import SECOND, command, container
from headrace.commands.streams.arguments import INVALID_ID
from headrace.commands.streams.history import expect_nodes
from headrace.core.errors import InvalidInterval, InvalidStreamID
from headrace.core.packed import split_range, take_nodes
from headrace.core.stream_id import StreamID, parse_range_end, parse_range_start
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError, wrong_arity
from headrace.formats.stream_remainder import COPIED

_MOST_PARTS: Final = 65536
_DEFAULT_BYTES: Final = 1 << 16
_MOST_BYTES: Final = 64 << 20
_MOST_IDENTITY_BYTES: Final = 64

container(
    "headrace", since="0.1.0", group="headrace", summary="Move many entries at once, in the form they are kept in."
)


def _read_range(call: Call) -> tuple[StreamID, StreamID]:
    try:
        return parse_range_start(call.argv[3]), parse_range_end(call.argv[4])
    except InvalidStreamID:
        raise CommandError(INVALID_ID) from None
    except InvalidInterval:
        raise CommandError(b"ERR invalid start or end ID for the interval") from None


@command("headrace|splits key start end parts", arity=6, flags=Flag.READ, keys=SECOND, since="0.1.0", group="headrace")
def headrace_splits(call: Call) -> None:
    """Cut a range of a stream into at most so many parts of about the same size, at the borders of its nodes.

    Replies for each part: its first ID, its last ID, how many entries its nodes hold, and how many bytes. The parts
    cover the range from start to end exactly; entries are estimated, for those of the first and last node may lie
    outside. No entry is read. Empty where there is no such key or nothing in the range.
    """
    start, end = _read_range(call)
    parts = read_limited(call, 5, 1, _MOST_PARTS)
    stream = call.stream(2)
    found = split_range(stream, start, end, parts) if stream is not None else []
    call.reply.array(len(found))
    for first, last, entries, size in found:
        call.reply.array(4)
        call.reply.bulk(bytes(first))
        call.reply.bulk(bytes(last))
        call.reply.integer(entries)
        call.reply.integer(size)


@command(
    "headrace|nodes key start end [COUNT bytes]",
    arity=-5,
    flags=Flag.READ | Flag.READS_HISTORY,
    keys=SECOND,
    since="0.1.0",
    group="headrace",
)
def headrace_nodes(call: Call) -> None:
    """Reply the nodes of a stream that entries from start to end lie in, whole and as they are kept.

    Replies the ID to go on from, or nil where this was all, and an array of nodes: the master ID as 16 bytes, and the
    listpack. One node at least, then as many as fit in COUNT bytes, 65,536 where it is not said: who asks for more lets
    everybody else wait longer. Deleted entries are marked in their node, and entries outside of the range are not cut
    off: that is for who decodes them.
    """
    start, end = _read_range(call)
    most = _DEFAULT_BYTES
    if call.argc > 5:
        if call.argc != 7 or call.argv[5].lower() != b"count":
            raise CommandError(SYNTAX)
        most = read_limited(call, 6, 1, _MOST_BYTES)
    stream = call.stream(2)
    if stream is not None:
        expect_nodes(call, stream, start, end, most)
    if call.rehearses:
        return
    following, nodes = take_nodes(stream, start, end, most) if stream is not None else (None, [])
    call.reply.array(2)
    if following is None:
        call.reply.null()
    else:
        call.reply.bulk(bytes(following))
    call.reply.array(len(nodes))
    for master, listpack in nodes:
        call.reply.array(2)
        call.reply.bulk(master)
        call.reply.bulk(listpack)


@command(
    "headrace|identity key [identity]",
    arity=-3,
    flags=Flag.WRITE | Flag.FAST,
    keys=SECOND,
    since="0.3.0",
    group="headrace",
)
def headrace_identity(call: Call) -> None:
    """Reply what tells a stream from all others, also from the next one under its key; nil where there is no key.

    A stream gets it when it is first asked for, and keeps it as long as it is there, under whatever key; files,
    restarts and replicas keep it. It begins with `copy-` where the stream came by COPY, RESTORE or a file of another
    server: it may be what was under the key before. The second form says what it is to be, and repeats the first one.
    """
    if call.argc > 4:
        raise wrong_arity(b"headrace|identity")
    stream = call.stream(2)
    if stream is None:
        call.emit_nothing()
        call.reply.null()
        return
    if call.argc == 4:
        given = call.argv[3]
        if not 0 < len(given) <= _MOST_IDENTITY_BYTES:
            raise CommandError(b"ERR an identity has 1 to %d bytes" % _MOST_IDENTITY_BYTES)
    else:
        given = stream.identity or (b"copy-" if stream.identity == COPIED else b"") + token_hex(8).encode()
    if given == stream.identity:
        call.emit_nothing()
    else:
        stream.identity = given
        call.changed()
        call.emit([b"HEADRACE", b"IDENTITY", call.argv[2], given])
    call.reply.bulk(given)


@command("headrace|help", arity=2, flags=Flag.LOADING | Flag.STALE, since="0.1.0", group="headrace")
def headrace_help(call: Call) -> None:
    """Reply what HEADRACE can do."""
    reply_help(call)
