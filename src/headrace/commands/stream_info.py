"""XINFO: what there is to know of a stream, its groups and its consumers."""

from headrace.commands.help import reply_help
from headrace.commands.table import SECOND, command, container
from headrace.core.group import Consumer, Group
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import NO_SUCH_KEY, CommandError, quoted

_DEFAULT_COUNT = 10

container("xinfo", since="5.0.0", group="stream", summary="Look into streams, groups and consumers.")


def _existing_stream(call: Call) -> Stream:
    stream = call.stream(2)
    if stream is None:
        raise CommandError(NO_SUCH_KEY)
    return stream


def _bad_subcommand(call: Call) -> CommandError:
    return CommandError(
        b"ERR unknown subcommand or wrong number of arguments for '%s'. Try XINFO HELP." % quoted(call.argv[1])[:128]
    )


def _field(call: Call, name: bytes, value: int | bytes | StreamID | None) -> None:
    call.reply.bulk(name)
    if value is None:
        call.reply.null()
    elif isinstance(value, int):
        call.reply.integer(value)
    else:
        call.reply.bulk(bytes(value))


def _entry(call: Call, entry: tuple[StreamID, list[bytes]]) -> None:
    id, fields = entry
    call.reply.array(2)
    call.reply.bulk(bytes(id))
    call.reply.array(len(fields))
    for text in fields:
        call.reply.bulk(text)


@command("xinfo|stream key [FULL [COUNT count]]", arity=-3, flags=Flag.READ, keys=SECOND, since="5.0.0", group="stream")
def xinfo_stream(call: Call) -> None:
    """Reply the figures of a stream, with its first and last entry; FULL adds entries, groups and pending lists."""
    stream = _existing_stream(call)
    full = call.argc > 3
    count = _DEFAULT_COUNT
    if full:
        if call.argv[3].lower() != b"full" or call.argc not in (4, 6):
            raise _bad_subcommand(call)
        if call.argc == 6:
            if call.argv[4].lower() != b"count":
                raise _bad_subcommand(call)
            count = call.integer(5)
            if count < 0:
                count = _DEFAULT_COUNT
    producers = stream.producers
    call.reply.map(15 if full else 16)
    _field(call, b"length", len(stream))
    _field(call, b"radix-tree-keys", stream.node_count)
    _field(call, b"radix-tree-nodes", stream.rax_node_count)
    _field(call, b"last-generated-id", stream.last_id)
    _field(call, b"max-deleted-entry-id", stream.max_deleted_id)
    _field(call, b"entries-added", stream.entries_added)
    _field(call, b"recorded-first-entry-id", stream.first_id)
    _field(call, b"idmp-duration", producers.duration_s)
    _field(call, b"idmp-maxsize", producers.max_size)
    _field(call, b"pids-tracked", len(producers))
    _field(call, b"iids-tracked", producers.remembered)
    _field(call, b"iids-added", producers.recorded)
    _field(call, b"iids-duplicates", producers.duplicates)
    if full:
        entries = list(stream.range(count=count))
        call.reply.bulk(b"entries")
        call.reply.array(len(entries))
        for entry in entries:
            _entry(call, entry)
        groups = stream.group_list()
        call.reply.bulk(b"groups")
        call.reply.array(len(groups))
        for group in groups:
            _full_group(call, group, count)
        return
    _field(call, b"groups", len(stream.group_list()))
    for name, reverse in ((b"first-entry", False), (b"last-entry", True)):
        call.reply.bulk(name)
        ends = list(stream.range(count=1, reverse=reverse))
        if ends:
            _entry(call, ends[0])
        else:
            call.reply.null()


def _full_group(call: Call, group: Group, count: int) -> None:
    call.reply.map(8)
    _field(call, b"name", group.name)
    _field(call, b"last-delivered-id", group.last_delivered_id)
    _field(call, b"entries-read", group.position)
    _field(call, b"lag", group.lag)
    _field(call, b"pel-count", group.pending_count)
    _field(call, b"nacked-count", group.released_count)
    records = group.pending_records(count=count)
    call.reply.bulk(b"pending")
    call.reply.array(len(records))
    for id, owner, time, deliveries in records:
        call.reply.array(4)
        call.reply.bulk(bytes(id))
        call.reply.bulk(owner or b"")
        call.reply.integer(time)
        call.reply.integer(deliveries)
    consumers = group.consumer_list()
    call.reply.bulk(b"consumers")
    call.reply.array(len(consumers))
    for consumer in consumers:
        _full_consumer(call, group, consumer, count)


def _full_consumer(call: Call, group: Group, consumer: Consumer, count: int) -> None:
    call.reply.map(5)
    _field(call, b"name", consumer.name)
    _field(call, b"seen-time", consumer.seen_time)
    _field(call, b"active-time", consumer.active_time)
    _field(call, b"pel-count", len(consumer))
    records = group.pending_records(count=count, consumer=consumer.name)
    call.reply.bulk(b"pending")
    call.reply.array(len(records))
    for id, _, time, deliveries in records:
        call.reply.array(3)
        call.reply.bulk(bytes(id))
        call.reply.integer(time)
        call.reply.integer(deliveries)


@command("xinfo|groups key", arity=3, flags=Flag.READ, keys=SECOND, since="5.0.0", group="stream")
def xinfo_groups(call: Call) -> None:
    """Reply the groups of a stream: consumers, pending, how far each has read and how far it lags."""
    groups = _existing_stream(call).group_list()
    call.reply.array(len(groups))
    for group in groups:
        call.reply.map(6)
        _field(call, b"name", group.name)
        _field(call, b"consumers", len(group.consumer_list()))
        _field(call, b"pending", group.pending_count)
        _field(call, b"last-delivered-id", group.last_delivered_id)
        _field(call, b"entries-read", group.position)
        _field(call, b"lag", group.lag)


@command("xinfo|consumers key group", arity=4, flags=Flag.READ, keys=SECOND, since="5.0.0", group="stream")
def xinfo_consumers(call: Call) -> None:
    """Reply the consumers of a group: how much each has pending, and since when it is idle and inactive."""
    group = _existing_stream(call).group(call.argv[3])
    if group is None:
        raise CommandError(
            b"NOGROUP No such consumer group '%s' for key name '%s'" % (quoted(call.argv[3]), quoted(call.argv[2]))
        )
    consumers = group.consumer_list()
    call.reply.array(len(consumers))
    for consumer in consumers:
        call.reply.map(4)
        _field(call, b"name", consumer.name)
        _field(call, b"pending", len(consumer))
        _field(call, b"idle", max(call.now_ms - consumer.seen_time, 0))
        inactive = -1 if consumer.active_time == -1 else max(call.now_ms - consumer.active_time, 0)
        _field(call, b"inactive", inactive)


@command("xinfo|help", arity=2, flags=Flag.LOADING | Flag.STALE, since="5.0.0", group="stream")
def xinfo_help(call: Call) -> None:
    """Reply what XINFO can do."""
    reply_help(call)
