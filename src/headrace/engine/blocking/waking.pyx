# cython: nonecheck=True
"""Ending waits: clients whose key is ready run their command again, others are let go when their time is up.

    a command marks keys ready ─► serve_waiting    their clients, first come first served, run their command again
    an alarm, a tick            ─► run_due         deadlines, keys to look at again, the end of a pause, chores
    the disk has more           ─► disk_has_more        clients that wait for it look again
    a replica has more          ─► replicas_have_more   likewise
    CLIENT UNBLOCK, a deadline  ─► release         no more waiting

`engine/blocking/waiting` knows which client waits for what; here is what happens when it comes.
"""

from libc.stdint cimport uint64_t

from headrace.engine.client cimport Client
from headrace.engine.command cimport Command, count_call
from headrace.engine.database cimport Database
from headrace.engine.refusals cimport find_command

from headrace.engine.chores import Chore
from headrace.engine.values import kind_of
from headrace.engine.blocking.waiting import DISK, LOGIN, REPLICAS


cpdef int serve_waiting(Engine engine) except -1:
    """Let the clients that wait for a ready key run their command again, first come first served."""
    cdef Database db
    cdef bytes key
    cdef Client client
    while engine.keyspace.ready:
        ready = engine.keyspace.ready
        engine.keyspace.ready = []
        engine.keyspace.ready_set = {}
        for db, key in ready:
            queue = db.waiting.get(key)
            if queue is None:
                continue
            engine.clocks.read()
            for client in list(queue):
                if client.wait is None:
                    continue
                # Looked up for each client: the one before may have taken the last element of a list, and then the
                # clients behind it keep their places.
                kind = kind_of(engine.keyspace.peek(db, key))
                if client.wait.kind == kind or client.wait.without_key:
                    retry(engine, client)
    return 0


def retry(engine: Engine, client: Client) -> None:
    """Run a blocked client's command again; it may block again, with the deadline it had."""
    cdef size_t written = client.reply.written()
    wait = client.wait
    client.retrying = True
    try:
        found = find_command(engine, client, wait.argv)
        if found is not None:
            engine.run(client, found, wait.argv)
    finally:
        client.retrying = False
    if client.wait is wait:
        engine.mute(client, written)
        client.channel.flush()          # before anything else: it waits
        engine.waiting.leave(client)
        client.channel.resume()
    if engine.outbox.behind:
        engine.send_messages()


def disk_has_more(engine: Engine) -> None:
    """Let those look again whose effects are on disk by now."""
    cdef Client client
    if engine.persistence.appends:
        clients = engine.waiting.reached_by_disk(engine.persistence.synced)
    else:                           # nobody will be served by it any more
        clients = engine.waiting.awaiting_disk()
    for client in clients:
        if client.wait is not None:
            retry(engine, client)
    if engine.depth == 0:           # else a command goes on, and its client's turn to be flushed comes later
        engine.flush_clients()


def replicas_have_more(engine: Engine) -> None:
    """Let clients that wait for replicas look again: a replica has acknowledged something."""
    cdef Client client
    for client in engine.waiting.awaiting_replicas():
        if client.wait is not None:
            retry(engine, client)
    if engine.depth == 0:
        engine.flush_clients()


cpdef int run_due(Engine engine) except -1:
    """Do what is due by now: deadlines of waiting clients, keys to look at again, the end of a pause, and chores."""
    if engine.busy is not None:
        return 0                    # the end of that runs them
    engine.clocks.read()
    if (engine.pauses.first_end_ms or engine.pauses.held) and engine.clocks.steady_now_ms >= engine.pauses.first_end_ms:
        engine.pauses.run_held()
    for target in engine.chores.take_due(engine.clocks.steady_now_ms):
        if type(target) is Client:
            end_deadline(engine, <Client>target)
        elif type(target) is Chore:
            target.take_turn(engine.clocks.steady_now_ms)
        elif type(target) is tuple:
            engine.waiting.forget_reminder(target)
            engine.keyspace.signal(target[0], target[1])
    serve_waiting(engine)
    engine.flush_clients()
    return 0


cdef int end_deadline(Engine engine, Client client) except -1:
    """Let a client go whose time is up, unless it was served since, or waits for its turn to log in."""
    if client.wait is None or not 0 < client.wait.deadline <= engine.clocks.steady_now_ms:
        return 0
    if client.wait.kind == LOGIN:
        retry(engine, client)
    else:
        release(engine, client, None)
    return 0


def release(engine: Engine, client: Client, error: bytes | None) -> None:
    """End a wait without serving it: with an error, or with nothing, as after a timeout."""
    cdef size_t written = client.reply.written()
    cdef bytes kind = client.wait.kind
    cdef Command command = engine.commands.named_by(client.wait.argv)
    cdef uint64_t errors = client.reply.errors
    engine.waiting.leave(client)
    if error is None and kind == REPLICAS:
        client.reply.integer(engine.replication.count_acknowledged(client.awaited_offset))
    elif error is None and kind == DISK:
        client.reply.array(2)
        client.reply.integer(engine.persistence.appends and engine.persistence.synced >= client.awaited_position)
        client.reply.integer(engine.replication.count_synced(client.awaited_offset))
    elif error is None:
        client.reply.null_array()
    else:
        client.reply.error(error)
        engine.stats.count_error(error)
    if command is not None:             # else it was renamed meanwhile
        count_call(command, client.blocked_ns)
        command.failed += client.reply.errors != errors
    engine.stats.commands += 1
    client.commands_run += 1
    engine.mute(client, written)
    engine.outbox.note(client)
    client.channel.resume()
