"""Commands about more than one server: who follows whom, what followers say, and waiting for them.

REPLICAOF, SLAVEOF, FAILOVER, ROLE      the part of this server
REPLCONF, PSYNC, SYNC                   what followers, and tools that speak as they do, ask for and report
WAIT                                    what followers have; WAITAOF is in `persistence`
"""

import os

from headrace.commands.declaration.table import command
from headrace.commands.server.admin import read_timeout_ms
from headrace.engine.blocking.waiting import REPLICAS, SNAPSHOT
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError, quoted
from headrace.engine.hooks import SnapshotParts, SnapshotRequest
from headrace.engine.replication import FailoverRequest, RoleReply
from headrace.protocol.inline import split_words
from headrace.protocol.reply import ReplyWriter

_ADMIN = Flag.ADMIN | Flag.NO_SCRIPT | Flag.STALE
_SYNC = Flag.ADMIN | Flag.NO_SCRIPT | Flag.NO_MULTI
_BAD_PORT = b"ERR Invalid master port"
_LAST_PORT = 65535
_LONGEST_ADDRESS = 255
_ADDRESS_TOO_LONG = b"ERR REPLCONF ip-address provided by replica instance is too long: %d bytes"
_WAIT_ON_REPLICA = (
    b"ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is configured "
    b"to be writable (which is not the default) writes to replicas are just local and are not propagated."
)

# --- the part of this server ---------------------------------------------------------------------------------------


def _follow(call: Call) -> None:
    host, port = call.argv[1:]
    if (host.lower(), port.lower()) == (b"no", b"one"):
        call.engine.replication.stop_following(call.client)
        call.reply.ok()
        return
    if call.client.is_follower:
        raise CommandError(b"ERR Command is not valid when client is a replica.")
    number = call.integer(2, _BAD_PORT)
    if not 0 <= number <= _LAST_PORT:
        raise CommandError(_BAD_PORT)
    call.reply.simple(call.engine.replication.follow(call.client, os.fsdecode(host), number))


@command("replicaof host port", arity=3, flags=_ADMIN, since="5.0.0", group="server")
def replicaof(call: Call) -> None:
    """Follow another server: its data replaces what is here. NO ONE ends that, and makes this server a master.

    The data stays as it is until the other server's is complete. CONFIG REWRITE keeps it over a restart.
    """
    _follow(call)


@command("slaveof host port", arity=3, flags=_ADMIN, since="1.0.0", group="server")
def slaveof(call: Call) -> None:
    """Do what REPLICAOF does."""
    _follow(call)


@command(
    "role",
    arity=1,
    flags=Flag.LOADING | Flag.STALE | Flag.NO_SCRIPT | Flag.FAST,
    since="2.8.12",
    group="server",
)
def role(call: Call) -> None:
    """Reply the part of this server in replication.

    A master: `master`, its offset, and address, port and offset of each replica. A replica: `slave`, address and port
    of its master, how far it is in connecting to it, and its offset.
    """
    _reply_nested(call.reply, call.engine.replication.role())


def _reply_nested(reply: ReplyWriter, values: RoleReply) -> None:
    reply.array(len(values))
    for value in values:
        if isinstance(value, list):
            _reply_nested(reply, value)
        elif isinstance(value, int):
            reply.integer(value)
        else:
            reply.bulk(value)


@command(
    "failover [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]",
    arity=-1,
    flags=_ADMIN,
    since="6.2.0",
    group="server",
)
def failover(call: Call) -> None:
    """Make a replica the master and follow it, without losing a write.

    Writes wait until the replica has everything: the one of TO, or the first that has it. When TIMEOUT is over, this
    server remains the master; with FORCE the replica becomes it nevertheless. ABORT ends the attempt.
    """
    request = FailoverRequest()
    aborts = False
    at = 1
    while at < call.argc:
        option = call.argv[at].lower()
        if option == b"timeout" and at + 1 < call.argc and not request.timeout_ms:
            request = request._replace(timeout_ms=call.integer(at + 1))
            if request.timeout_ms <= 0:
                raise CommandError(b"ERR FAILOVER timeout must be greater than 0")
            at += 1
        elif option == b"to" and at + 2 < call.argc and request.target is None:
            request = request._replace(target=(os.fsdecode(call.argv[at + 1]), call.integer(at + 2)))
            at += 2
        elif option == b"force" and not request.force:
            request = request._replace(force=True)
        elif option == b"abort" and not aborts:
            aborts = True
        else:
            raise CommandError(SYNTAX)
        at += 1
    if not aborts:
        call.engine.replication.fail_over(request)
    elif request != FailoverRequest():
        raise CommandError(SYNTAX)
    else:
        call.engine.replication.abort_failover()
    call.reply.ok()


# --- what followers say and ask for --------------------------------------------------------------------------------


@command(
    "replconf [option value ...]",
    arity=-1,
    flags=Flag.ADMIN | Flag.NO_SCRIPT | Flag.LOADING | Flag.STALE | Flag.ALLOW_BUSY,
    since="3.0.0",
    group="server",
)
def replconf(call: Call) -> None:
    """Say something of this connection before SYNC or PSYNC: its address, what it can read, what it wants.

    `rdb-only 1` asks for a snapshot and nothing behind it, and `rdb-filter-only functions` for the functions alone.
    What a follower reports (ACK) has no reply.
    """
    if call.argc % 2 == 0:
        raise CommandError(SYNTAX)
    for at in range(1, call.argc, 2):
        option, value = call.argv[at].lower(), call.argv[at + 1]
        if option == b"ack":
            _acknowledge(call, at)
            return
        if option == b"getack":
            return
        if option in (b"rdb-only", b"rdb-filter-only"):
            request = call.client.snapshot_request or SnapshotRequest()
            if option == b"rdb-only":
                request = request._replace(only_snapshot=_read_bit(call, at + 1))
            else:
                request = request._replace(parts=_read_parts(value))
            call.client.snapshot_request = request
        elif option == b"listening-port":
            call.integer(at + 1)
        elif option in (b"rdb-no-compress", b"rdb-no-checksum"):
            _read_bit(call, at + 1)
        elif option == b"ip-address":
            if len(value) > _LONGEST_ADDRESS:
                raise CommandError(_ADDRESS_TOO_LONG % len(value))
        elif option not in (b"capa", b"version", b"headrace"):
            raise CommandError(b"ERR Unrecognized REPLCONF option: " + quoted(call.argv[at]))
        call.engine.replication.note_option(call.client, option, value)
    call.reply.ok()


def _acknowledge(call: Call, at: int) -> None:
    """Take `ACK offset [FACK offset]`; what cannot be read is ignored, because nobody waits for a reply."""
    words = call.argv[at + 1 :]
    if not call.client.is_follower or not words[0].isdigit():
        return
    synced = int(words[2]) if len(words) > 2 and words[1].lower() == b"fack" and words[2].isdigit() else None
    call.engine.replication.acknowledge(call.client, int(words[0]), synced)


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
    """Send a snapshot of now, and behind it every effect from then on; where REPLCONF asked for it, nothing behind it.

    The reply is the length in a line and the bytes of an RDB file; while it is written, empty lines.
    """
    _check_connection(call)
    if not _send_snapshot(call, b""):
        call.engine.replication.sync(call.client)


@command("psync replicationid offset", arity=-3, flags=_SYNC, since="2.8.0", group="server")
def psync(call: Call) -> None:
    """Send the effects of a history from an offset on, where they are still there; otherwise do what SYNC does.

    The reply is `+CONTINUE` and the history, or `+FULLRESYNC`, the history and the offset of the snapshot that follows.
    """
    _check_connection(call)
    takes_over = call.argc > 3 and call.argv[3].lower() == b"failover"
    offset = call.integer(2)
    if not _send_snapshot(call, b"+FULLRESYNC %s %d\r\n" % (call.engine.effects.history, call.engine.effects.offset)):
        call.engine.replication.attach(call.client, call.argv[1], offset, takes_over=takes_over)


def _check_connection(call: Call) -> None:
    client = call.client
    if (
        client.subscribed
        or client in call.engine.observers.monitors.clients
        or client in call.engine.observers.tracker.clients
    ):
        raise CommandError(b"ERR SYNC is for a connection that gets no messages: they would be in the snapshot")


def _send_snapshot(call: Call, announcement: bytes) -> bool:
    """Send a client its snapshot where it wants nothing else; False: it does."""
    client, sender = call.client, call.engine.hooks.snapshot_sender
    request = client.snapshot_request or SnapshotRequest()
    if not request.only_snapshot or sender is None:
        return False
    call.block([], SNAPSHOT, 0, False, call.argv)
    sender.add(client, request.parts)
    call.reply.raw(announcement)
    return True


# --- waiting -------------------------------------------------------------------------------------------------------


@command("wait numreplicas timeout", arity=3, flags=Flag.NO_SCRIPT, since="3.0.0", group="generic")
def wait(call: Call) -> None:
    """Wait until so many replicas have what this connection wrote, or the time is up, and reply how many have."""
    if call.engine.is_replica:
        raise CommandError(_WAIT_ON_REPLICA)
    wanted = call.integer(1)
    timeout = read_timeout_ms(call, 2)
    replication = call.engine.replication
    offset = call.client.awaited_offset if call.client.retrying else call.client.write_offset
    have = replication.count_acknowledged(offset)
    if have >= wanted or not call.may_block():
        call.reply.integer(have)
        return
    call.client.awaited_offset = offset
    call.block([], REPLICAS, timeout, False, call.argv)
    if not call.client.retrying:
        replication.request_acknowledgements()
