"""MULTI, EXEC, DISCARD, WATCH, UNWATCH: commands that run as one, or not at all."""

from headrace.commands.declaration.table import ALL, command
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import CommandError

_CONTROL = Flag.FAST | Flag.LOADING | Flag.STALE | Flag.NO_SCRIPT | Flag.ALLOW_BUSY


@command("multi", arity=1, flags=_CONTROL | Flag.IN_MULTI, since="1.2.0", group="transactions")
def multi(call: Call) -> None:
    """Queue the commands that follow, up to EXEC."""
    if call.client.queue is not None:
        raise CommandError(b"ERR MULTI calls can not be nested")
    call.client.queue = []
    call.reply.ok()


@command(
    "exec",
    arity=1,
    flags=Flag.LOADING | Flag.STALE | Flag.NO_SCRIPT | Flag.SKIP_SLOWLOG | Flag.IN_MULTI | Flag.LENGTHY,
    since="1.2.0",
    group="transactions",
)
def exec_(call: Call) -> None:
    """Run what was queued, with nothing in between, and reply all replies; nil where a watched key has changed."""
    client = call.client
    if client.queue is None:
        raise CommandError(b"ERR EXEC without MULTI")
    if client.queue_failed:
        client.discard_transaction()
        raise CommandError(b"EXECABORT Transaction discarded because of previous errors.")
    # In a pause nothing expires, but the time of a key can come: that is a change.
    lapsed = any(db.expires.get(key, call.now_ms) < call.now_ms for db, keys in client.watched.items() for key in keys)
    call.engine.keyspace.expire_watched(client)
    if client.watch_failed or lapsed:
        client.discard_transaction()
        call.reply.null_array()
        return
    call.engine.rehearse_queued(client)
    call.emit_nothing()
    call.engine.run_queued(client)


@command("discard", arity=1, flags=_CONTROL | Flag.IN_MULTI, since="2.0.0", group="transactions")
def discard(call: Call) -> None:
    """Forget what was queued, and stop watching."""
    if call.client.queue is None:
        raise CommandError(b"ERR DISCARD without MULTI")
    call.client.discard_transaction()
    call.reply.ok()


@command(
    "watch key [key ...]",
    arity=-2,
    flags=_CONTROL | Flag.IN_MULTI,
    keys=ALL,
    since="2.2.0",
    group="transactions",
)
def watch(call: Call) -> None:
    """Let the next EXEC fail if one of the keys changes before it."""
    if call.client.queue is not None:
        raise CommandError(b"ERR WATCH inside MULTI is not allowed")
    for key in call.argv[1:]:
        # One whose time has already come is as good as gone, in a pause as well: that it goes is no change.
        if call.db.expires.get(key, call.now_ms) < call.now_ms and not call.engine.is_replica:
            call.engine.keyspace.expire_now(call.db, key)
        call.client.watch(key)
    call.reply.ok()


@command("unwatch", arity=1, flags=_CONTROL, since="2.2.0", group="transactions")
def unwatch(call: Call) -> None:
    """Stop watching every key."""
    call.client.unwatch_all()
    call.reply.ok()
