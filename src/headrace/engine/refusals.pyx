# cython: nonecheck=True
"""Whether a request is run: finding its command, and refusing it with an error.

    find_command     a client's request: is there such a command, are there enough arguments, does the engine admit it?
    admits           may this client run this command now?
    find_effect      an effect that is repeated: was checked when it was done, and need only be one
    refuse           the error, which also fails the transaction that the request was meant for

The checks run in the order of redis-server, which decides the error where there are several reasons.
"""

from cpython.list cimport PyList_GET_SIZE

from headrace.engine.command cimport ALLOW_BUSY, DENY_OOM, LOADING, NO_AUTH, PROTECTED, STALE, WRITE
from headrace.engine.command_names cimport called

from headrace.engine.effects import BESIDE_WRITES
from headrace.engine.errors import BUSY, BUSY_FUNCTION, DEBUG_NOT_ALLOWED, OUT_OF_MEMORY, quoted, wrong_arity

# What a client of RESP2 may do while messages come in between its replies.
cdef frozenset WHILE_SUBSCRIBED = frozenset((
    b"subscribe", b"psubscribe", b"ssubscribe", b"unsubscribe", b"punsubscribe", b"sunsubscribe", b"ping", b"quit",
    b"reset",
))


cdef Command find_command(Engine engine, Client client, list argv):
    """The command that a request names, or None after refusing it."""
    cdef Command command = called(engine.commands, <bytes>argv[0])
    cdef Command inner
    if command is None:
        client.last_command = b"NULL"
        refuse(engine, client, None, unknown_command(argv))
        return None
    if command.subcommands and PyList_GET_SIZE(argv) > 1:
        inner = command.subcommands.get((<bytes>argv[1]).lower())
        if inner is None:
            client.last_command = b"NULL"
            refuse(engine, client, command, b"ERR unknown subcommand '%s'. Try %s HELP." % (
                quoted(argv[1])[:128], command.name.upper()))
            return None
        command = inner
    client.last_command = command.name
    if not fits_arity(command, argv):
        refuse(engine, client, command, wrong_arity(command.name).text)
        return None
    return command if admits(engine, client, command, argv) else None


cdef Command find_effect(Engine engine, Client client, list argv):
    """The command of an effect, by the name that it was declared with, or None after refusing it.

    Only commands that may be an effect are found. Limits, permissions and the state of the server were checked when
    the effect was done.
    """
    cdef Command command = engine.commands.of_effect(<bytes>argv[0])
    if command is not None and command.subcommands and PyList_GET_SIZE(argv) > 1:
        command = command.subcommands.get((<bytes>argv[1]).lower())
    if command is None:
        refuse(engine, client, None, unknown_command(argv))
    elif not command.flags & WRITE and command.name not in BESIDE_WRITES:
        refuse(engine, client, command, b"ERR '%s' does not change data, and no server writes it there" % command.name)
    elif not fits_arity(command, argv):
        refuse(engine, client, command, wrong_arity(command.name).text)
    else:
        return command
    return None


cdef bint fits_arity(Command command, list argv):
    """Whether a request has as many words as its command takes; a negative arity is a minimum."""
    cdef Py_ssize_t argc = PyList_GET_SIZE(argv)
    return argc == command.arity if command.arity >= 0 else argc >= -command.arity


cdef bint admits(Engine engine, Client client, Command command, list argv) except -1:
    """Whether a client may run a command now; if not, it is refused."""
    if command.flags & PROTECTED and not debugging_allowed(engine, client):
        refuse(engine, client, command, DEBUG_NOT_ALLOWED)
        return False
    if client.guarded:
        refusal = forbidding(engine, client, command, argv)
        if refusal is not None:
            refuse(engine, client, command, refusal)
            return False
    if engine.refusals.over_memory and flags_of(client, command) & DENY_OOM and not only_reads(command, argv):
        refuse(engine, client, command, OUT_OF_MEMORY)
        return False
    if engine.refusals.writes is not None and flags_of(client, command) & WRITE and not only_reads(command, argv):
        refuse(engine, client, command, engine.refusals.writes)
        return False
    if engine.refusals.stale is not None and not runs_stale(client, command):
        refuse(engine, client, command, engine.refusals.stale)
        return False
    if engine.loading and not command.flags & LOADING:
        refuse(engine, client, command, b"LOADING Redis is loading the dataset in memory")
        return False
    if engine.busy is not None and not command.flags & ALLOW_BUSY:
        running = engine.script_host.running
        refuse(engine, client, command, BUSY_FUNCTION if running is not None and running.is_function else BUSY)
        return False
    return True


cdef int refuse(Engine engine, Client client, Command command, bytes text) except -1:
    """Answer an error for a command that was not run."""
    if command is not None:
        command.rejected += 1
        if command.name == b"exec":
            client.discard_transaction()
            text = b"EXECABORT Transaction discarded because of: " + text.removeprefix(b"ERR ")
    if client.queue is not None:
        client.queue_failed = True
    engine.stats.count_error(text)
    client.reply.error(text)
    return 0


cdef bytes forbidding(Engine engine, Client client, Command command, list argv):
    """Why a client may not run a command, or None: no login, rules for its user, a subscription under RESP2."""
    if not client.authenticated and not command.flags & NO_AUTH:
        return b"NOAUTH Authentication required."
    if not client.user.unlimited:
        refusal = engine.users.refuse(client, command, argv)
        if refusal is not None:
            return refusal
    if client.subscribed and client.reply.protocol == 2 and command.name not in WHILE_SUBSCRIBED:
        return (b"ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed "
                b"in this context" % command.name)
    return None


cdef bint debugging_allowed(Engine engine, Client client):
    """Whether `enable-debug-command` lets a client run what is protected."""
    allowed = engine.config["enable-debug-command"]
    return allowed == "yes" or (allowed == "local" and client.is_local)


cdef bint only_reads(Command command, list argv):
    """Whether a command that may write does not, because of what its request asks for."""
    return command.reading is not None and PyList_GET_SIZE(argv) > 2 and (<bytes>argv[2]).lower() in command.reading


cdef int flags_of(Client client, Command command):
    """The flags of a command. EXEC also has those of the commands that it is to run: they were queued earlier."""
    cdef int flags = command.flags
    cdef Command queued
    if command.name == b"exec" and client.queue is not None:
        for queued, _ in client.queue:
            flags |= queued.flags
    return flags


cdef bint runs_stale(Client client, Command command):
    """Whether a command, and with EXEC all that it is to run, may run on a replica without its master."""
    cdef Command queued
    if not command.flags & STALE:
        return False
    if command.name == b"exec" and client.queue is not None:
        for queued, _ in client.queue:
            if not queued.flags & STALE:
                return False
    return True


cdef bytes unknown_command(list argv):
    """Name the command and the beginning of its arguments, each at most 128 bytes as Redis shows them."""
    cdef list shown = []
    cdef Py_ssize_t room = 128
    for argument in argv[1:]:
        if room <= 0:
            break
        text = b"'%s' " % quoted(argument)[:room]
        shown.append(text)
        room -= len(text)
    return b"ERR unknown command '%s', with args beginning with: %s" % (quoted(argv[0])[:128], b"".join(shown))
