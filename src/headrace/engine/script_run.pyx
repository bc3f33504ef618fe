# cython: nonecheck=True
"""A script that runs: its commands, and their replies as values of Lua, by Redis's rules.

    :1              1                   _ (RESP3)             nil
    $3 abc          "abc"               #t                    true
    $-1, *-1        false               ,1.5                  {double=1.5}
    *2 …            {…, …}              %1 key value          {map={key=value}}
    +OK             {ok="OK"}           ~1 member             {set={member=true}}
    -ERR no         {err="ERR no"}      (123                  {big_number="123"}
    =7 txt:abc            {verbatim_string={format="txt", string="abc"}}

Lua must not refuse memory while this runs, as `lua/sandbox.lua` explains: so whatever makes a value for Lua looks first
whether there is room for it.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memchr

from headrace.core.clock cimport monotonic_ns
from headrace.engine.call cimport Call
from headrace.engine.client cimport Client
from headrace.engine.command cimport DENY_OOM, MAY_REPLICATE, NO_SCRIPT, WRITE, Command
from headrace.engine.engine cimport Engine

from headrace.engine.errors import OUT_OF_MEMORY
from headrace.engine.script_errors import NO_MEMORY, ScriptKilled

cdef bytes TOO_LONG = (
    b"ERR the script ran longer than busy-reply-threshold, and nobody could have killed it here: it was ended"
)

cdef enum:
    ROOM = 1 << 18              # bytes of Lua that any function of ours may need
    ROOM_PER_LINE = 160         # for a line of a reply: a table, its place in another, a reference while it is made


@cython.final
cdef class ScriptRun:
    """One script or function that runs, and the client that it is to the commands."""

    def __init__(self, Call call not None, bytes name, *, bint is_function, bint read_only, bint may_grow):
        cdef Client caller = call.client
        cdef Client client = Client(caller.id, call.db, caller.channel, call.engine.steady_now_ms)
        self.engine = call.engine
        self.name = name
        self.argv = call.argv
        self.is_function = is_function
        self.read_only = read_only
        self.may_grow = may_grow
        self.began_ns = monotonic_ns()
        self.last_error = b""
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
            runs = self.engine.long_runs
            if runs is not None and runs.current is not None:
                runs.current.pause()
            elif not self.has_written:
                raise ScriptKilled(TOO_LONG)
        if self.killed is not None:
            raise ScriptKilled(self.killed)

    cdef bytes execute(self, list argv):
        """Run a command for the script; returns its reply, or an error where it may not."""
        cdef Engine engine = self.engine
        cdef Client client = self.client
        cdef Command command = engine.command_of(argv)
        cdef list pieces
        cdef bytes reply
        if command is None:
            return b"-ERR Unknown Redis command called from script\r\n"
        if not command.accepts(len(argv)):
            return b"-ERR Wrong number of args calling Redis command from script\r\n"
        if command.flags & NO_SCRIPT:
            return b"-ERR This Redis command is not allowed from script\r\n"
        if client.user is not None and not client.user.unlimited:
            refusal = engine.users.refuse(client, command, argv, context=b"lua")
            if refusal is not None:
                return b"-NOPERM ACL failure in script: %s\r\n" % refusal.removeprefix(b"NOPERM ")
        if command.flags & (WRITE | MAY_REPLICATE) and self.read_only:
            return b"-ERR Write commands are not allowed from read-only scripts.\r\n"
        if command.flags & WRITE and engine.write_refusal is not None and not engine.loading:
            return b"-%s\r\n" % engine.write_refusal
        if engine.over_memory and command.flags & DENY_OOM and not engine.loading:
            if not self.may_grow and not self.has_written:
                return b"-%s\r\n" % OUT_OF_MEMORY
        if command.flags & WRITE:
            self.has_written = True
        engine.run(client, command, argv)
        pieces = client.reply.take()
        reply = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        if reply.startswith(b"-"):
            self.last_error = reply[1:len(reply) - 2]
        return reply


@cython.final
cdef class CommandGate:
    """Where the commands of scripts come in from Lua, as words, and where their replies go out as values."""

    def __init__(self, table, memory_used, set_limit):
        self.table = table
        self.memory_used = memory_used
        self.set_limit = set_limit

    def begin(self, ScriptRun run, size_t limit) -> None:
        """Let a script run, under a limit of memory; None: none runs any more."""
        self.run = run
        self.limit = limit
        self.words = None

    def check_room(self) -> None:
        """End the script where Lua has no memory left for what a function of ours may return."""
        if not self.has_room(0):
            self.set_limit(0)
            raise ScriptKilled(NO_MEMORY)

    cdef bint has_room(self, size_t need) except -1:
        """Whether so many bytes more would leave what any function needs."""
        return self.limit == 0 or <size_t>self.memory_used() + need + ROOM <= self.limit

    def add_words(self, *words) -> None:
        """Take the first words of a command that has many."""
        self.check_room()
        if self.words is None:
            self.words = []
        take_words(self.words, words)

    def run_command(self, *words):
        """Run a command and return its reply; an error is {err=…}."""
        cdef list argv = self.words
        cdef bytes reply
        cdef Py_ssize_t place = 0
        self.words = None
        if argv is None:
            argv = []
        take_words(argv, words)
        self.check_room()
        reply = self.run.execute(argv)
        if reply[0] != c":":
            # The command has its effects already. Its reply comes as a text, or as values, which are larger than that.
            need = len(reply) if reply[0] == c"$" else len(reply) + ROOM_PER_LINE * reply.count(b"\r\n")
            if not self.has_room(need):
                return self.table({b"err": NO_MEMORY})
        return self.read(PyBytes_AS_STRING(reply), PyBytes_GET_SIZE(reply), &place)

    cdef object read(self, const char *data, Py_ssize_t size, Py_ssize_t *place):
        """Return the value at a place of a reply, and set the place behind it."""
        cdef char kind = data[place[0]]
        cdef Py_ssize_t begin = place[0] + 1
        cdef const char *end = <const char *>memchr(data + begin, c"\r", size - begin)
        cdef Py_ssize_t length = end - (data + begin)
        cdef bytes text = data[begin:begin + length]
        cdef Py_ssize_t count
        place[0] = begin + length + 2
        if kind == c":":
            return int(text)
        if kind == c"$":
            return False if text == b"-1" else self.take(data, int(text), place)
        if kind == c"*":
            if text == b"-1":
                return False
            count = int(text)
            return self.table([self.read(data, size, place) for _ in range(count)])
        if kind == c"+":
            return self.table({b"ok": text})
        if kind == c"-":
            return self.table({b"err": text})
        if kind == c"_":
            return None
        if kind == c"#":
            return text == b"t"
        if kind == c",":
            return self.table({b"double": float(text)})
        if kind == c"(":
            return self.table({b"big_number": text})
        if kind == c"=":
            form, _, text = self.take(data, int(text), place).partition(b":")
            return self.table({b"verbatim_string": self.table({b"format": form, b"string": text})})
        count = int(text)
        content = {}
        for _ in range(count):
            key = self.read(data, size, place)
            content[key] = True if kind == c"~" else self.read(data, size, place)
        return self.table({b"set" if kind == c"~" else b"map": self.table(content)})

    cdef bytes take(self, const char *data, Py_ssize_t size, Py_ssize_t *place):
        cdef Py_ssize_t begin = place[0]
        place[0] = begin + size + 2
        return data[begin:begin + size]


cdef int take_words(list argv, tuple words) except -1:
    """Add what a script gave as arguments: texts, and numbers with all the digits that they have."""
    for word in words:
        if type(word) is bytes:
            argv.append(word)
        elif type(word) is int and -100000000000000000 < word < 100000000000000000:
            argv.append(b"%d" % word)
        else:
            argv.append(b"%.17g" % word)
    return 0
