"""PUBLISH and SUBSCRIBE, their forms for patterns and shards, and PUBSUB, which tells who listens.

A client of RESP2 that has subscribed can only subscribe, unsubscribe, ping, reset and quit: it could not tell replies
from messages. RESP3 marks messages, and such a client goes on as before.
"""

from collections.abc import Callable
from typing import Final

from headrace.commands.declaration.help import reply_help
from headrace.commands.declaration.table import command, container
from headrace.engine.call import Call
from headrace.engine.client import ReplyMode
from headrace.engine.command import Flag
from headrace.engine.glob import matcher
from headrace.engine.pubsub.exchange import Kind, held_by
from headrace.protocol.reply import ReplyWriter

_LISTEN: Final = Flag.PUBSUB | Flag.NO_SCRIPT | Flag.LOADING | Flag.STALE
_LOOK: Final = Flag.PUBSUB | Flag.LOADING | Flag.STALE
_SEND: Final = _LOOK | Flag.FAST | Flag.MAY_REPLICATE

_SHARD_CHANNEL: Final = (1, 1, 1)
_SHARD_CHANNELS: Final = (1, -1, 1)


# --- publishing ------------------------------------------------------------------------------------------------


def _publish(call: Call, send: Callable[[bytes, bytes], int]) -> None:
    """Send a message to the clients that listen here, and at replicas.

    Without replicas it is no effect, and does not wait for the disk. What is repeated from files was heard before.
    """
    if not call.engine.applying:
        call.reply.integer(send(call.argv[1], call.argv[2]))
        if call.engine.replication.is_followed:
            call.emit(call.argv)


@command("publish channel message", arity=3, flags=_SEND, since="2.0.0", group="pubsub")
def publish(call: Call) -> None:
    """Send a message to the clients of a channel, by its name or by a pattern, and reply how many they are."""
    _publish(call, call.engine.exchange.publish)


@command("spublish shardchannel message", arity=3, flags=_SEND, keys=_SHARD_CHANNEL, since="7.0.0", group="pubsub")
def spublish(call: Call) -> None:
    """Send a message to the clients of the shard's channel, and reply how many they are."""
    _publish(call, call.engine.exchange.publish_to_shard)


# --- subscribing -----------------------------------------------------------------------------------------------


def _confirm(call: Call, name: bytes | None, listening: int) -> None:
    """Tell the client what it has subscribed to or left; a message, which also comes where replies are not wanted."""
    muted = call.client.reply_mode != ReplyMode.REPLY_ON
    reply = ReplyWriter(call.reply.protocol) if muted else call.reply
    reply.push(3)
    reply.bulk(call.command.name)
    if name is None:
        reply.null()
    else:
        reply.bulk(name)
    reply.integer(listening)
    if muted:
        call.engine.push(call.client, b"".join(reply.take()))


def _listening(call: Call, kind: Kind) -> int:
    """Count what the client listens to: channels and patterns together, those of the shard apart."""
    if kind is Kind.SHARD:
        return len(held_by(call.client, kind))
    return len(held_by(call.client, Kind.CHANNEL)) + len(held_by(call.client, Kind.PATTERN))


def _subscribe(call: Call, kind: Kind) -> None:
    for name in call.argv[1:]:
        call.engine.exchange.subscribe(call.client, kind, name)
        _confirm(call, name, _listening(call, kind))


def _unsubscribe(call: Call, kind: Kind) -> None:
    names = call.argv[1:] or list(held_by(call.client, kind))
    for name in names:
        call.engine.exchange.unsubscribe(call.client, kind, name)
        _confirm(call, name, _listening(call, kind))
    if not names:
        _confirm(call, None, _listening(call, kind))


@command("subscribe channel [channel ...]", arity=-2, flags=_LISTEN, since="2.0.0", group="pubsub")
def subscribe(call: Call) -> None:
    """Listen to channels. For each, a message says how many channels and patterns that makes."""
    _subscribe(call, Kind.CHANNEL)


@command("psubscribe pattern [pattern ...]", arity=-2, flags=_LISTEN, since="2.0.0", group="pubsub")
def psubscribe(call: Call) -> None:
    """Listen to all channels that match a pattern. For each, a message says how many channels and patterns that makes.

    Who listens to a channel and to a pattern that matches it hears a message twice.
    """
    _subscribe(call, Kind.PATTERN)


@command(
    "ssubscribe shardchannel [shardchannel ...]",
    arity=-2,
    flags=_LISTEN,
    keys=_SHARD_CHANNELS,
    since="7.0.0",
    group="pubsub",
)
def ssubscribe(call: Call) -> None:
    """Listen to channels of the shard, which are not those of PUBLISH. For each, a message says how many that makes."""
    _subscribe(call, Kind.SHARD)


@command("unsubscribe [channel [channel ...]]", arity=-1, flags=_LISTEN, since="2.0.0", group="pubsub")
def unsubscribe(call: Call) -> None:
    """Leave channels, or all of them. For each, a message says how many channels and patterns are left."""
    _unsubscribe(call, Kind.CHANNEL)


@command("punsubscribe [pattern [pattern ...]]", arity=-1, flags=_LISTEN, since="2.0.0", group="pubsub")
def punsubscribe(call: Call) -> None:
    """Leave patterns, or all of them. For each, a message says how many channels and patterns are left."""
    _unsubscribe(call, Kind.PATTERN)


@command(
    "sunsubscribe [shardchannel [shardchannel ...]]",
    arity=-1,
    flags=_LISTEN,
    keys=_SHARD_CHANNELS,
    since="7.0.0",
    group="pubsub",
)
def sunsubscribe(call: Call) -> None:
    """Leave channels of the shard, or all of them. For each, a message says how many are left."""
    _unsubscribe(call, Kind.SHARD)


# --- PUBSUB ----------------------------------------------------------------------------------------------------

container("pubsub", since="2.8.0", group="pubsub", summary="Tell who listens.")


def _reply_names(call: Call, kind: Kind) -> None:
    names = list(call.engine.exchange.listeners[kind])
    if call.argc > 2:
        names = list(filter(matcher(call.argv[2]), names))
    call.reply.array(len(names))
    for name in names:
        call.reply.bulk(name)


def _reply_counts(call: Call, kind: Kind) -> None:
    names = call.argv[2:]
    call.reply.array(2 * len(names))
    for name in names:
        call.reply.bulk(name)
        call.reply.integer(call.engine.exchange.listening(kind, name))


@command("pubsub|channels [pattern]", arity=-2, flags=_LOOK, since="2.8.0", group="pubsub")
def pubsub_channels(call: Call) -> None:
    """Reply the channels that somebody listens to by name: all of them, or those that match a pattern."""
    _reply_names(call, Kind.CHANNEL)


@command("pubsub|numsub [channel [channel ...]]", arity=-2, flags=_LOOK, since="2.8.0", group="pubsub")
def pubsub_numsub(call: Call) -> None:
    """Reply each channel, and how many listen to it by name."""
    _reply_counts(call, Kind.CHANNEL)


@command("pubsub|numpat", arity=2, flags=_LOOK, since="2.8.0", group="pubsub")
def pubsub_numpat(call: Call) -> None:
    """Reply how many patterns somebody listens to."""
    call.reply.integer(len(call.engine.exchange.listeners[Kind.PATTERN]))


@command("pubsub|shardchannels [pattern]", arity=-2, flags=_LOOK, since="7.0.0", group="pubsub")
def pubsub_shardchannels(call: Call) -> None:
    """Reply the shard's channels that somebody listens to: all of them, or those that match a pattern."""
    _reply_names(call, Kind.SHARD)


@command("pubsub|shardnumsub [shardchannel [shardchannel ...]]", arity=-2, flags=_LOOK, since="7.0.0", group="pubsub")
def pubsub_shardnumsub(call: Call) -> None:
    """Reply each of the shard's channels, and how many listen to it."""
    _reply_counts(call, Kind.SHARD)


@command("pubsub|help", arity=2, flags=Flag.LOADING | Flag.STALE, since="6.2.0", group="pubsub")
def pubsub_help(call: Call) -> None:
    """Reply what PUBSUB can do."""
    reply_help(call)
