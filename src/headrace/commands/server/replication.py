"""SYNC and what goes before it: a snapshot over a connection, as `redis-cli --rdb` asks for one.

Nothing follows the snapshot: who does not say `REPLCONF rdb-only 1` wants to be a replica, and is refused.
"""

from dataclasses import replace

from headrace.commands.declaration.table import command
from headrace.engine.blocking.waiting import SNAPSHOT
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError, quoted
from headrace.engine.snapshot_request import SnapshotParts, SnapshotRequest
from headrace.protocol.inline import split_words

_SYNC = Flag.ADMIN | Flag.NO_SCRIPT | Flag.NO_MULTI
_NO_REPLICAS = (
    b"ERR Headrace has no replicas: it sends a snapshot to clients that ask for nothing else (REPLCONF rdb-only 1), as "
    b"redis-cli --rdb does"
)
_TOLD_BY_REPLICAS = (b"ip-address", b"capa", b"version")
_LONGEST_ADDRESS = 255
_ADDRESS_TOO_LONG = b"ERR REPLCONF ip-address provided by replica instance is too long: %d bytes"


@command(
    "replconf [option value ...]",
    arity=-1,
    flags=Flag.ADMIN | Flag.NO_SCRIPT | Flag.LOADING | Flag.STALE | Flag.ALLOW_BUSY,
    since="3.0.0",
    group="server",
)
def replconf(call: Call) -> None:
    """Say what SYNC will ask for: `rdb-only 1`, and `rdb-filter-only functions` for the functions alone.

    What replicas say of themselves is taken and changes nothing; what they report (ACK, GETACK) has no reply.
    """
    if call.argc % 2 == 0:
        raise CommandError(SYNTAX)
    request = call.client.snapshot_request or SnapshotRequest()
    for at in range(1, call.argc, 2):
        option, value = call.argv[at].lower(), call.argv[at + 1]
        if option == b"rdb-only":
            request = replace(request, only_snapshot=_read_bit(call, at + 1))
        elif option == b"rdb-filter-only":
            request = replace(request, parts=_read_parts(value))
        elif option in (b"ack", b"getack"):
            return
        elif option == b"listening-port":
            call.integer(at + 1)
        elif option not in _TOLD_BY_REPLICAS:
            raise CommandError(b"ERR Unrecognized REPLCONF option: " + quoted(call.argv[at]))
        elif option == b"ip-address" and len(value) > _LONGEST_ADDRESS:
            raise CommandError(_ADDRESS_TOO_LONG % len(value))
        call.client.snapshot_request = request
    call.reply.ok()


def _read_bit(call: Call, at: int) -> bool:
    number = call.integer(at)
    if number not in (0, 1):
        raise CommandError(b"ERR value is out of range, value must between 0 and 1")
    return bool(number)


def _read_parts(value: bytes) -> SnapshotParts:
    words = split_words(value)
    if words is None:
        raise CommandError(b"ERR Missing rdb-filter-only values")
    for word in words:
        if word.lower() != b"functions":
            raise CommandError(b"ERR Unsupported rdb-filter-only option: " + quoted(word))
    return SnapshotParts(keys=False, functions=bool(words))


@command("sync", arity=1, flags=_SYNC, since="1.0.0", group="server")
def sync(call: Call) -> None:
    """Send a snapshot of now and end the connection; REPLCONF must have asked for nothing else before.

    The reply is the length in a line and the bytes of an RDB file; while it is written, empty lines.
    """
    _send(call, b"")


@command("psync replicationid offset", arity=-3, flags=_SYNC, since="2.8.0", group="server")
def psync(call: Call) -> None:
    """Do what SYNC does, behind a line that tells the identity of this server and the offset 0."""
    call.integer(2)
    _send(call, b"+FULLRESYNC %s 0\r\n" % call.engine.run_id.encode())


def _send(call: Call, announcement: bytes) -> None:
    client, sender = call.client, call.engine.snapshot_sender
    request = client.snapshot_request or SnapshotRequest()
    if not request.only_snapshot or sender is None:
        raise CommandError(_NO_REPLICAS)
    if client.subscribed or client in call.engine.monitors.clients or client in call.engine.tracker.clients:
        raise CommandError(b"ERR SYNC is for a connection that gets no messages: they would be in the snapshot")
    call.block([], SNAPSHOT, 0, False, call.argv)
    sender.add(client, request.parts)
    call.reply.raw(announcement)
