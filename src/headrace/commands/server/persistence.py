"""Commands about what is on disk: snapshots, append-only files, and waiting for them."""

from headrace.commands.declaration.table import command
from headrace.commands.server.admin import read_timeout_ms
from headrace.engine.blocking.waiting import DISK
from headrace.engine.call import Call
from headrace.engine.command import Flag
from headrace.engine.errors import SYNTAX, CommandError

_ADMIN = Flag.ADMIN | Flag.NO_SCRIPT
_WAITAOF_ON_REPLICA = (
    b"ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local and "
    b"are not propagated."
)


@command("save", arity=1, flags=_ADMIN | Flag.NO_MULTI, since="1.0.0", group="server")
def save(call: Call) -> None:
    """Write a snapshot, and reply when it is on disk; nobody is served meanwhile."""
    call.engine.persistence.save()
    call.reply.ok()


@command("bgsave [SCHEDULE]", arity=-1, flags=_ADMIN, since="1.0.0", group="server")
def bgsave(call: Call) -> None:
    """Begin to write a snapshot of the data as it is now, while everybody is served.

    With SCHEDULE, later where the append-only files are being rewritten.
    """
    options = [word.lower() for word in call.argv[1:]]
    if options not in ([], [b"schedule"]):
        raise CommandError(SYNTAX)
    call.reply.simple(
        call.engine.persistence.save_in_background(schedule=bool(options), in_transaction=call.client.executing)
    )


@command("bgrewriteaof", arity=1, flags=_ADMIN, since="1.0.0", group="server")
def bgrewriteaof(call: Call) -> None:
    """Begin to write a new base of the append-only files, while everybody is served."""
    call.reply.simple(call.engine.persistence.rewrite_in_background(in_transaction=call.client.executing))


@command("lastsave", arity=1, flags=Flag.LOADING | Flag.STALE | Flag.FAST, since="1.0.0", group="server")
def lastsave(call: Call) -> None:
    """Reply when the data was last saved, in Unix seconds; the start of the server counts as that."""
    call.reply.integer(call.engine.persistence.last_save_s)


@command(
    "waitaof numlocal numreplicas timeout",
    arity=4,
    flags=Flag.NO_SCRIPT | Flag.BLOCKING,
    since="7.2.0",
    group="generic",
)
def waitaof(call: Call) -> None:
    """Wait until what was written is on this server's disk (1), and on so many replicas'.

    Reply on how many it is: what was reached when the time, in ms, is up.
    """
    local = call.integer(1, b"ERR value is out of range, must be between 0 and 1")
    if local not in (0, 1):
        raise CommandError(b"ERR value is out of range, must be between 0 and 1")
    replicas = call.integer(2)
    if replicas < 0:
        raise CommandError(b"ERR value is out of range, must be positive")
    timeout = read_timeout_ms(call, 3)
    if call.engine.is_replica:
        raise CommandError(_WAITAOF_ON_REPLICA)
    persistence, replication = call.engine.persistence, call.engine.replication
    if local and not persistence.appends:
        raise CommandError(b"ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.")
    client = call.client
    target = client.awaited_position if client.retrying else persistence.position
    offset = client.awaited_offset if client.retrying else client.write_offset
    reached = int(persistence.appends and persistence.synced >= target)
    synced = replication.count_synced(offset)
    if (reached < local or synced < replicas) and call.may_block():
        client.awaited_position = target
        client.awaited_offset = offset
        call.block([], DISK, timeout, False, call.argv)
        if not reached:
            call.engine.waiting.await_disk(client, target)
        if replicas and not client.retrying:
            replication.request_acknowledgements()
        return
    call.reply.array(2)
    call.reply.integer(reached)
    call.reply.integer(synced)
