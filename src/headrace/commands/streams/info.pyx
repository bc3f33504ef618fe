# cython: nonecheck=True
"""XINFO: what there is to know of a stream, its groups and its consumers."""

from libc.stdint cimport int64_t

from headrace.commands.streams.arguments cimport is_word, reply_entry
from headrace.commands.streams.history cimport expect_range
from headrace.core.entry_log cimport EntryCursor, EntryLog, open_cursor
from headrace.core.group cimport Consumer, Group
from headrace.core.stream cimport Stream
from headrace.core.stream_id cimport ID, make_id, max_id
from headrace.engine.call cimport Call
from headrace.engine.command cimport LOADING, READ, READS_HISTORY, STALE
from headrace.protocol.reply cimport ReplyWriter

from headrace.commands.declaration.help import reply_help
from headrace.commands.declaration.table import SECOND, command, container
from headrace.engine.errors import NO_SUCH_KEY, CommandError, quoted

cdef enum:
    DEFAULT_COUNT = 10

container("xinfo", since="5.0.0", group="stream", summary="Look into streams, groups and consumers.")


cdef Stream existing_stream(Call call):
    stream = call.stream(2)
    if stream is None:
        raise CommandError(NO_SUCH_KEY)
    return stream


cdef object bad_subcommand(Call call):
    return CommandError(
        b"ERR unknown subcommand or wrong number of arguments for '%s'. Try XINFO HELP." % quoted(call.argv[1])[:128]
    )


cdef int put_text(ReplyWriter reply, bytes name, bytes text) except -1:
    reply.bulk(name)
    return reply.bulk(text)


cdef int put_number(ReplyWriter reply, bytes name, int64_t value) except -1:
    reply.bulk(name)
    return reply.integer(value)


cdef int put_id(ReplyWriter reply, bytes name, ID id) except -1:
    reply.bulk(name)
    return reply.bulk_id(id)


cdef int put_progress(ReplyWriter reply, Group group) except -1:
    """How far a group has read, and how far it lags: nil where that is not known."""
    cdef int64_t lag
    reply.bulk(b"entries-read")
    if group.entries_read >= 0:
        reply.integer(group.entries_read)
    else:
        reply.null()
    reply.bulk(b"lag")
    return reply.integer(lag) if group.lag_of(&lag) else reply.null()


cdef int put_end(ReplyWriter reply, EntryLog log, bytes name, bint last) except -1:
    """The first or the last entry, or nil."""
    cdef EntryCursor cursor = open_cursor(log, make_id(0, 0), max_id(), last)
    reply.bulk(name)
    return reply_entry(reply, &cursor.node) if cursor.next() else reply.null()


@command(
    "xinfo|stream key [FULL [COUNT count]]",
    arity=-3, flags=READ | READS_HISTORY, keys=SECOND, since="5.0.0", group="stream",
)
def xinfo_stream(Call call) -> None:
    """Reply the figures of a stream, with its first and last entry; FULL adds entries, groups and pending lists."""
    cdef Stream stream = existing_stream(call)
    cdef EntryLog log = stream.log
    cdef ReplyWriter reply = call.reply
    cdef bint full = call.argc > 3
    cdef int64_t count = DEFAULT_COUNT
    if full:
        if not is_word(call.argv[3], b"full") or call.argc not in (4, 6):
            raise bad_subcommand(call)
        if call.argc == 6:
            if not is_word(call.argv[4], b"count"):
                raise bad_subcommand(call)
            count = call.integer(5)
            if count < 0:
                count = DEFAULT_COUNT
    expect_range(call, log, make_id(0, 0), max_id(), (count if count else -1) if full else 1, False)
    if not full:
        expect_range(call, log, make_id(0, 0), max_id(), 1, True)
    if call.rehearses:
        return
    producers = stream.producers
    reply.map(15 if full else 16)
    put_number(reply, b"length", log.length)
    put_number(reply, b"radix-tree-keys", log.node_count())
    put_number(reply, b"radix-tree-nodes", log.index_node_count())
    put_id(reply, b"last-generated-id", log.last_id)
    put_id(reply, b"max-deleted-entry-id", log.max_deleted_id)
    put_number(reply, b"entries-added", log.entries_added)
    put_id(reply, b"recorded-first-entry-id", log.first_id)
    put_number(reply, b"idmp-duration", producers.duration_s)
    put_number(reply, b"idmp-maxsize", producers.max_size)
    put_number(reply, b"pids-tracked", len(producers))
    put_number(reply, b"iids-tracked", producers.remembered)
    put_number(reply, b"iids-added", producers.recorded)
    put_number(reply, b"iids-duplicates", producers.duplicates)
    if full:
        put_entries(reply, log, count)
        groups = stream.group_list()
        reply.bulk(b"groups")
        reply.array(len(groups))
        for group in groups:
            put_full_group(reply, group, count)
    else:
        put_number(reply, b"groups", len(stream.groups))
        put_end(reply, log, b"first-entry", False)
        put_end(reply, log, b"last-entry", True)


cdef int put_entries(ReplyWriter reply, EntryLog log, int64_t count) except -1:
    """The first entries; all of them where `count` is 0."""
    cdef EntryCursor cursor = open_cursor(log, make_id(0, 0), max_id(), False)
    cdef int64_t left = min(count, <int64_t>log.length) if count else <int64_t>log.length
    reply.bulk(b"entries")
    reply.array(left)
    while left > 0 and cursor.next():
        reply_entry(reply, &cursor.node)
        left -= 1
    return 0


cdef int put_full_group(ReplyWriter reply, Group group, int64_t count) except -1:
    reply.map(8)
    put_text(reply, b"name", group.name)
    put_id(reply, b"last-delivered-id", group.last_id)
    put_progress(reply, group)
    put_number(reply, b"pel-count", group.pending.by_id.length)
    put_number(reply, b"nacked-count", group.pending.released)
    records = group.pending_records(count=count)
    reply.bulk(b"pending")
    reply.array(len(records))
    for id, owner, time, deliveries in records:
        reply.array(4)
        reply.bulk(bytes(id))
        reply.bulk(owner or b"")
        reply.integer(time)
        reply.integer(deliveries)
    consumers = group.consumer_list()
    reply.bulk(b"consumers")
    reply.array(len(consumers))
    for consumer in consumers:
        put_full_consumer(reply, group, consumer, count)
    return 0


cdef int put_full_consumer(ReplyWriter reply, Group group, Consumer consumer, int64_t count) except -1:
    reply.map(5)
    put_text(reply, b"name", consumer.name)
    put_number(reply, b"seen-time", consumer.seen_time)
    put_number(reply, b"active-time", consumer.active_time)
    put_number(reply, b"pel-count", consumer.owned.length)
    records = group.pending_records(count=count, consumer=consumer.name)
    reply.bulk(b"pending")
    reply.array(len(records))
    for id, _, time, deliveries in records:
        reply.array(3)
        reply.bulk(bytes(id))
        reply.integer(time)
        reply.integer(deliveries)
    return 0


@command("xinfo|groups key", arity=3, flags=READ, keys=SECOND, since="5.0.0", group="stream")
def xinfo_groups(Call call) -> None:
    """Reply the groups of a stream: consumers, pending, how far each has read and how far it lags."""
    cdef ReplyWriter reply = call.reply
    cdef Group group
    groups = existing_stream(call).group_list()
    reply.array(len(groups))
    for group in groups:
        reply.map(6)
        put_text(reply, b"name", group.name)
        put_number(reply, b"consumers", len(group.consumers))
        put_number(reply, b"pending", group.pending.by_id.length)
        put_id(reply, b"last-delivered-id", group.last_id)
        put_progress(reply, group)


@command("xinfo|consumers key group", arity=4, flags=READ, keys=SECOND, since="5.0.0", group="stream")
def xinfo_consumers(Call call) -> None:
    """Reply the consumers of a group: how much each has pending, and since when it is idle and inactive."""
    cdef ReplyWriter reply = call.reply
    cdef Consumer consumer
    cdef Group group = existing_stream(call).find_group(call.argv[3])
    if group is None:
        raise CommandError(
            b"NOGROUP No such consumer group '%s' for key name '%s'" % (quoted(call.argv[3]), quoted(call.argv[2]))
        )
    consumers = group.consumer_list()
    reply.array(len(consumers))
    for consumer in consumers:
        reply.map(4)
        put_text(reply, b"name", consumer.name)
        put_number(reply, b"pending", consumer.owned.length)
        put_number(reply, b"idle", max(call.now_ms - consumer.seen_time, 0))
        put_number(reply, b"inactive", -1 if consumer.active_time == -1 else max(call.now_ms - consumer.active_time, 0))


@command("xinfo|help", arity=2, flags=LOADING | STALE, since="5.0.0", group="stream")
def xinfo_help(Call call) -> None:
    """Reply what XINFO can do."""
    reply_help(call)
