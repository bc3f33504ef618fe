"""HEADRACE MEMORY and CONSUMERS: figures of a stream and of a group that XINFO has not."""

from headrace.commands.declaration.table import SECOND, command
from headrace.core.offloading import cold_figures
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import NO_SUCH_KEY, CommandError, quoted


@command("headrace|memory key", arity=3, flags=Flag.READ, keys=SECOND, since="0.3.0", group="headrace")
def headrace_memory(call: Call) -> None:
    """Reply what of a stream is in memory, and what is on disk: entries, nodes, and bytes; nil where there is no key.

    In memory are nodes, the index that leads to them, groups and pending lists. On disk are nodes alone, in as many
    parts of segments.
    """
    stream = call.stream(2)
    if stream is None:
        call.reply.null()
        return
    parts, nodes, entries, size = cold_figures(stream)
    call.reply.map(7)
    for name, value in (
        (b"memory-entries", len(stream) - entries),
        (b"memory-nodes", stream.node_count - nodes),
        (b"memory-bytes", stream.memory_usage),
        (b"disk-entries", entries),
        (b"disk-nodes", nodes),
        (b"disk-bytes", size),
        (b"disk-parts", parts),
    ):
        call.reply.bulk(name)
        call.reply.integer(value)


@command("headrace|consumers key group", arity=4, flags=Flag.READ, keys=SECOND, since="0.3.0", group="headrace")
def headrace_consumers(call: Call) -> None:
    """Reply how many entries each consumer of a group was given, claims included, and how many it acknowledged.

    Two readings make a rate. The numbers only grow while the server runs; they are in no file, so that a start and a
    replica count anew.
    """
    stream = call.stream(2)
    if stream is None:
        raise CommandError(NO_SUCH_KEY)
    group = stream.group(call.argv[3])
    if group is None:
        raise CommandError(
            b"NOGROUP No such consumer group '%s' for key name '%s'" % (quoted(call.argv[3]), quoted(call.argv[2]))
        )
    consumers = group.consumer_list()
    call.reply.array(len(consumers))
    for consumer in consumers:
        call.reply.map(3)
        call.reply.bulk(b"name")
        call.reply.bulk(consumer.name)
        call.reply.bulk(b"delivered")
        call.reply.integer(consumer.delivered)
        call.reply.bulk(b"acknowledged")
        call.reply.integer(consumer.acknowledged)
