"""A connection in one line: what it is, does and costs, as CLIENT LIST and ACL LOG show it."""

from typing import TYPE_CHECKING

from headrace.engine.blocking.waiting import SNAPSHOT
from headrace.engine.client import Client
from headrace.engine.pubsub.exchange import Kind, held_by

if TYPE_CHECKING:
    from headrace.engine.engine import Engine


def is_replica(client: Client) -> bool:
    """Tell whether a client follows this server, or gets a snapshot: Redis calls both a replica."""
    return client.is_follower or (client.wait is not None and client.wait.kind == SNAPSHOT)


def _flags_of(engine: "Engine", client: Client) -> str:
    tracked = engine.observers.tracker.clients.get(client)
    flags = "O" if client in engine.observers.monitors.clients else ""
    if client.is_master:
        flags += "M"
    if client.subscribed:
        flags += "P"
    if client.queue is not None:
        flags += "x"
    if is_replica(client):
        flags += "S"
    elif client.wait is not None or client.postponed is not None:
        flags += "b"
    if tracked is not None:
        flags += "t" + "R" * tracked.broken + "B" * tracked.broadcast
    if client.watch_failed:
        flags += "d"
    if client.closing:
        flags += "c"
    if client.address.startswith(b"/"):
        flags += "U"
    if client.no_evict:
        flags += "e"
    if client.no_touch:
        flags += "T"
    return flags or "N"


def _waiting_bytes(client: Client) -> int:
    """Add up the arguments of a command that waits."""
    if client.wait is not None:
        return sum(map(len, client.wait.argv))
    return sum(map(len, client.postponed or ()))


def memory_of(client: Client, argument_bytes: int = 0) -> int:
    """Add up what is kept for a connection; `argument_bytes` are those of the command that it runs."""
    figures = client.channel.figures()
    buffers = figures.received + figures.room + figures.parsed + figures.unsent
    return buffers + argument_bytes + _waiting_bytes(client) + client.queued_bytes + client.reply.written()


def describe(engine: "Engine", client: Client, steady_ms: int, argument_bytes: int) -> bytes:
    """Describe a connection; `argument_bytes` are those of the command that it runs."""
    figures = client.channel.figures()
    total = memory_of(client, argument_bytes)
    tracked = engine.observers.tracker.clients.get(client)
    queued = client.queue or []
    written = client.reply.written()
    fields = {
        "id": client.id,
        "addr": client.address.decode(),
        "laddr": client.local_address.decode(),
        "fd": figures.descriptor,
        "name": client.name.decode(),
        "age": max(steady_ms - client.created_ms, 0) // 1000,
        "idle": max(steady_ms - client.active_ms, 0) // 1000,
        "flags": _flags_of(engine, client),
        "db": client.db.number,
        "sub": len(held_by(client, Kind.CHANNEL)),
        "psub": len(held_by(client, Kind.PATTERN)),
        "ssub": len(held_by(client, Kind.SHARD)),
        "multi": -1 if client.queue is None else len(queued),
        "watch": sum(map(len, client.watched.values())),
        "qbuf": figures.received,
        "qbuf-free": figures.room,
        "argv-mem": argument_bytes + figures.parsed + _waiting_bytes(client),
        "multi-mem": client.queued_bytes,
        "rbs": written,
        "rbp": written,
        "obl": written,
        "oll": int(figures.unsent > 0),
        "omem": figures.unsent,
        "tot-mem": total,
        "events": "rw" if figures.unsent else "r",
        "cmd": client.last_command.decode(),
        "user": client.user.name.decode(errors="surrogateescape"),
        "redir": tracked.redirect if tracked is not None else -1,
        "resp": client.reply.protocol,
        "lib-name": client.library_name.decode(),
        "lib-ver": client.library_version.decode(),
        "io-thread": 0,
        "tot-net-in": figures.bytes_in,
        "tot-net-out": figures.bytes_out,
        "tot-cmds": client.commands_run,
    }
    return " ".join(f"{name}={value}" for name, value in fields.items()).encode(errors="surrogateescape") + b"\n"
