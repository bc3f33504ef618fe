# cython: nonecheck=True
"""A script that runs, as the engine sees it: a client of its own, whose commands may be refused."""

cimport cython
from cpython.list cimport PyList_GET_SIZE

from headrace.core.clock cimport monotonic_ns
from headrace.engine.call cimport Call
from headrace.engine.client cimport Client
from headrace.engine.command cimport DENY_OOM, MAY_REPLICATE, NO_SCRIPT, READ, STALE, WRITE, Command
from headrace.engine.engine cimport Engine

from headrace.core.cold import ColdMiss
from headrace.engine.errors import OUT_OF_MEMORY
from headrace.engine.scripting.errors import ScriptKilled
from headrace.engine.standing_refusals import Cause

cdef bytes TOO_LONG = (
    b"ERR the script ran longer than busy-reply-threshold, and nobody could have killed it here: it was ended"
)


@cython.final
cdef class ScriptRun:
    """One script or function that runs, and the client that it is to the commands."""

    def __init__(self, Call call not None, bytes name, *, bint is_function, bint read_only, bint may_grow):
        cdef Client caller = call.client
        cdef Client client = Client(caller.id, call.db, caller.channel, call.engine.clocks.steady_now_ms)
        self.engine = call.engine
        self.name = name
        self.argv = call.argv
        self.is_function = is_function
        self.read_only = read_only
        self.may_grow = may_grow
        self.began_ns = monotonic_ns()
        self.last_error = b""
        self.caller = caller
        self.client = client
        client.user = caller.user
        client.authenticated = True
        client.executing = True         # nothing waits in here
        client.name, client.address, client.local_address = caller.name, caller.address, caller.local_address
        client.no_touch = caller.no_touch

    @property
    def took_ms(self) -> int:
        """How long it has run so far."""
        return (monotonic_ns() - self.began_ns) // 1000000

    def look_at_clock(self) -> None:
        """End the script where that is due, or let the host have its turn; asked now and then while Lua runs."""
        limit_ms = self.engine.config["busy-reply-threshold"]
        if limit_ms and self.took_ms >= limit_ms:
            runs = self.engine.hooks.long_runs
            if runs is not None and runs.current is not None:
                runs.current.pause()
            elif not self.has_written:
                raise ScriptKilled(TOO_LONG)
        if self.killed is not None:
            raise ScriptKilled(self.killed)

    cdef bint can_begin_again(self):
        return not self.has_acted and self.engine.busy is None

    cdef bytes execute(self, list argv):
        """Run a command for the script, which writes its reply; returns why it may not, or None."""
        cdef Engine engine = self.engine
        cdef Client client = self.client
        cdef Command command = engine.commands.named_by(argv)
        cdef Py_ssize_t argc = PyList_GET_SIZE(argv)
        if command is None:
            return b"ERR Unknown Redis command called from script"
        if (argc != command.arity) if command.arity >= 0 else (argc < -command.arity):
            return b"ERR Wrong number of args calling Redis command from script"
        if command.flags & NO_SCRIPT:
            return b"ERR This Redis command is not allowed from script"
        if client.user is not None and not client.user.unlimited:
            refusal = engine.users.refuse(client, command, argv, context=b"lua")
            if refusal is not None:
                return b"NOPERM ACL failure in script: %s" % refusal.removeprefix(b"NOPERM ")
        if command.flags & (WRITE | MAY_REPLICATE) and self.read_only:
            return b"ERR Write commands are not allowed from read-only scripts."
        if engine.refusals.stale is not None and not command.flags & STALE and not engine.applying:
            return b"ERR Can not execute the command on a stale replica"
        if command.flags & WRITE and engine.refusals.writes is not None and not engine.applying:
            return engine.refusals[Cause.READ_ONLY] or engine.refusals.writes
        if engine.refusals.over_memory and command.flags & DENY_OOM and not engine.applying:
            if not self.may_grow and not self.has_written:
                return OUT_OF_MEMORY
        if command.flags & WRITE:
            self.has_written = True
        try:
            engine.run(client, command, argv)
        except ColdMiss as miss:
            self.missed = miss
            raise ScriptKilled(b"ERR entries that the script needs are read first") from None
        if not command.flags & READ:
            self.has_acted = True
        return None
