# cython: nonecheck=True
"""Why a request is not run: what is asked only where something is out of the ordinary.

    no such command              unknown_command
    not everything is allowed    forbidding: clients without a login, users with rules, subscribers of RESP2
    DEBUG                        debugging_allowed
    a transaction                flags_of: what was queued in good times counts now
"""

from headrace.engine.command cimport NO_AUTH

from headrace.engine.errors import quoted

# What a client of RESP2 may do while messages come in between its replies.
cdef frozenset WHILE_SUBSCRIBED = frozenset((
    b"subscribe", b"psubscribe", b"ssubscribe", b"unsubscribe", b"punsubscribe", b"sunsubscribe", b"ping", b"quit",
    b"reset",
))


cdef bytes forbidding(Engine engine, Client client, Command command, list argv):
    """Why a client may not run a command, or None."""
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


cdef int flags_of(Client client, Command command):
    """The flags of a command; of EXEC, also those of what it is to run: what was queued in good times counts now."""
    cdef int flags = command.flags
    cdef Command queued
    if command.name == b"exec" and client.queue is not None:
        for queued, _ in client.queue:
            flags |= queued.flags
    return flags


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
