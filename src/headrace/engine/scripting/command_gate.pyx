# cython: nonecheck=True
"""`redis.call` and `redis.pcall`: where the commands of scripts come in from Lua, and their replies go out as values.

    :1              1                   _ (RESP3)             nil
    $3 abc          "abc"               #t                    true
    $-1, *-1        false               ,1.5                  {double=1.5}
    *2 …            {…, …}              %1 key value          {map={key=value}}
    +OK             {ok="OK"}           ~1 member             {set={member=true}}
    -ERR no         {err="ERR no"}      (123                  {big_number="123"}
    =7 txt:abc            {verbatim_string={format="txt", string="abc"}}

Both are functions of C to Lua. A command's words are taken from Lua's stack, and its reply is put there straight from
the buffer that the command wrote it to: a script of 300,000 INCR took 0.51 s of processor time when both came through
functions of Python, and 0.14 so (redis-server: 0.11).

An error of Lua jumps over the frames that lie in between, which must therefore hold nothing of Python's. So nothing
here may find no memory in Lua: every push of a value checks first that there is room for it. And errors are raised
by `call` and `protected_call`, when all else has returned.
"""

cimport cython
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memchr

from headrace.core.memory cimport byte_t
from headrace.core.stream_id cimport write_decimal
from headrace.engine.client cimport Client
from headrace.engine.scripting.lua_api cimport (
    LUA_GC_COUNT, LUA_GLOBALS, LUA_NIL, LUA_NUMBER, LUA_STRING, lua, lua_State,
)
from headrace.protocol.reply cimport ReplyWriter

from headrace.engine.scripting.errors import NO_MEMORY, ScriptKilled

cdef extern from "Python.h":
    double PyOS_string_to_double(const char *, char **, void *) except? -1

cdef enum:
    ROOM = 1 << 18              # bytes of Lua that any function of ours may need
    SHORT_REPLY = 1024          # bytes: whatever it holds fits into ROOM
    ROOM_PER_LINE = 160         # for a line of a reply: a table, and its place in another

cdef enum Outcome:
    ANSWERED                    # the reply is on the stack
    FAILED                      # it is one, and an error
    RAISED                      # an exception of Python is pending

cdef bytes NO_WORDS = b"ERR Please specify at least one argument for this redis lib call"
cdef bytes BAD_WORDS = b"ERR Lua redis lib command arguments must be strings or integers"


@cython.final
cdef class CommandGate:
    """The way from one Lua to the commands of an engine."""

    def __init__(self, memory_used, set_limit):
        self.memory_used = memory_used
        self.set_limit = set_limit

    def begin(self, ScriptRun run, size_t limit) -> None:
        """Let a script run, under a limit of memory; None: none runs any more."""
        self.run = run
        self.limit = limit

    def close(self) -> None:
        """Let go of Lua, which holds this."""
        self.memory_used = self.set_limit = None

    def check_room(self) -> None:
        """End the script where Lua has no memory left for what a function of ours may return."""
        if self.limit and <size_t>self.memory_used() + ROOM > self.limit:
            self.set_limit(0)
            raise ScriptKilled(NO_MEMORY)

    def raise_pending(self) -> None:
        """Raise what a command raised, by a way that Lua can take."""
        pending, self.pending = self.pending, None
        raise pending

    def install(self, thread: bytes) -> None:
        """Make the globals `redis_call` and `redis_pcall` in the Lua that a thread belongs to, told as `thread: 0x…`.

        The global `raise_pending` is there already: the function above, which keeps this alive as long as Lua is.
        """
        cdef lua_State *state = <lua_State *><size_t>int(thread.split()[1], 16)
        lua.pushlightuserdata(state, <void *>self)
        lua.getfield(state, LUA_GLOBALS, "raise_pending")
        lua.pushcclosure(state, call, 2)
        lua.setfield(state, LUA_GLOBALS, "redis_call")
        lua.pushlightuserdata(state, <void *>self)
        lua.getfield(state, LUA_GLOBALS, "raise_pending")
        lua.pushcclosure(state, protected_call, 2)
        lua.setfield(state, LUA_GLOBALS, "redis_pcall")

    cdef bint has_room(self, lua_State *state, size_t need) noexcept:
        """Whether so many bytes more would leave what any function needs."""
        return self.limit == 0 or (<size_t>lua.gc(state, LUA_GC_COUNT, 0) << 10) + need + ROOM <= self.limit

    cdef int serve(self, lua_State *state) except -1:
        """Run the command whose words are on the stack, and push its reply."""
        cdef int count = lua.gettop(state)
        cdef list argv = []
        cdef bytes refusal = NO_WORDS if count == 0 else None
        cdef const char *text
        cdef size_t size
        cdef int kind
        cdef int i
        if not self.has_room(state, 0):
            self.set_limit(0)
            raise ScriptKilled(NO_MEMORY)
        for i in range(1, count + 1):
            kind = lua.type(state, i)
            if kind == LUA_STRING:
                text = lua.tolstring(state, i, &size)
                argv.append(text[:size])
            elif kind == LUA_NUMBER:
                argv.append(number_text(lua.tonumber(state, i)))
            else:
                refusal = BAD_WORDS
                break
        if refusal is None:
            refusal = self.run.execute(argv)
        if refusal is not None:
            push_field(state, "err", refusal, len(refusal))
            return FAILED
        return self.push_reply(state)

    cdef int push_reply(self, lua_State *state) except -1:
        """Push the reply that a command of the script has written."""
        cdef ReplyWriter reply = (<Client>self.run.client).reply
        cdef bytes whole
        cdef const char *data = <const char *>reply.data
        cdef size_t size = reply.size
        if reply.chunked:
            whole = b"".join(reply.take())
            data, size = whole, len(whole)
        if size == 0:
            raise RuntimeError("a command of a script wrote no reply")
        try:
            return self.push_text(state, data, size)
        finally:
            reply.clear()

    cdef int push_text(self, lua_State *state, const char *data, size_t size) except -1:
        """Push the value of a reply. The command has its effects already, whether there is room for it or not."""
        cdef size_t need = size
        cdef bint failed = data[0] == c"-"
        if failed:
            self.run.last_error = data[1:size - 2]
        if size > SHORT_REPLY:
            if data[0] != c"$":         # values are larger than their texts
                need += ROOM_PER_LINE * <size_t>(<bytes>data[:size]).count(b"\r\n")
            if not self.has_room(state, need):
                push_field(state, "err", <bytes>NO_MEMORY, len(NO_MEMORY))
                return FAILED
        push_value(state, data, data + size)
        return FAILED if failed else ANSWERED


# --- functions of Lua ------------------------------------------------------------------------------------------

cdef int call(lua_State *state) noexcept nogil:
    """`redis.call`: an error is raised."""
    cdef int outcome = run_command(state)
    if outcome == FAILED:
        return lua.error(state)
    return 1 if outcome == ANSWERED else raise_pending(state)


cdef int protected_call(lua_State *state) noexcept nogil:
    """`redis.pcall`: an error is a reply."""
    return 1 if run_command(state) != RAISED else raise_pending(state)


cdef int run_command(lua_State *state) noexcept with gil:
    cdef CommandGate gate = <CommandGate>lua.touserdata(state, LUA_GLOBALS - 1)
    try:
        return gate.serve(state)
    except BaseException as raised:
        gate.pending = raised
        return RAISED


cdef int raise_pending(lua_State *state) noexcept nogil:
    lua.pushvalue(state, LUA_GLOBALS - 2)
    lua.call(state, 0, 0)
    return 0


# --- words and values ------------------------------------------------------------------------------------------

cdef bytes number_text(double number):
    """A number as a word of a command, with all the digits that it has."""
    cdef byte_t text[24]
    cdef int64_t whole
    if -1e17 < number < 1e17:
        whole = <int64_t>number
        if whole == number and (whole or 1 / number > 0):
            text[0] = c"-"
            if whole < 0:
                return (<char *>text)[:1 + write_decimal(0 - <uint64_t>whole, text + 1)]
            return (<char *>text)[:write_decimal(<uint64_t>whole, text)]
    return b"%.17g" % number


cdef int push_field(lua_State *state, const char *name, const char *text, size_t size) noexcept:
    """Push a table of one text."""
    lua.createtable(state, 0, 1)
    lua.pushlstring(state, text, size)
    lua.setfield(state, -2, name)
    return 0


cdef const char *push_value(lua_State *state, const char *data, const char *end) except NULL:
    """Push the value that a reply begins with, and return where the next one does."""
    cdef char kind = data[0]
    cdef const char *line = data + 1
    cdef const char *after = <const char *>memchr(line, c"\r", end - line)
    cdef size_t size = after - line
    cdef int64_t number = 0
    after += 2
    if kind == c":" or kind == c"$" or kind == c"*" or kind == c"%" or kind == c"~" or kind == c"=":
        number = read_number(line)
    if kind == c":":
        lua.pushnumber(state, <double>number)
    elif kind == c"$":
        if number < 0:
            lua.pushboolean(state, False)
        else:
            lua.pushlstring(state, after, number)
            after += number + 2
    elif kind == c"*":
        if number < 0:
            lua.pushboolean(state, False)
        else:
            after = push_array(state, number, after, end)
    elif kind == c"+":
        push_field(state, "ok", line, size)
    elif kind == c"-":
        push_field(state, "err", line, size)
    elif kind == c"_":
        lua.pushnil(state)
    elif kind == c"#":
        lua.pushboolean(state, line[0] == c"t")
    elif kind == c",":
        lua.createtable(state, 0, 1)
        lua.pushnumber(state, PyOS_string_to_double(<bytes>line[:size], NULL, NULL))
        lua.setfield(state, -2, "double")
    elif kind == c"(":
        push_field(state, "big_number", line, size)
    elif kind == c"=":
        lua.createtable(state, 0, 1)
        lua.createtable(state, 0, 2)
        lua.pushlstring(state, after, 3)
        lua.setfield(state, -2, "format")
        lua.pushlstring(state, after + 4, number - 4)
        lua.setfield(state, -2, "string")
        lua.setfield(state, -2, "verbatim_string")
        after += number + 2
    else:
        after = push_pairs(state, kind == c"%", number, after, end)
    return after


cdef const char *push_array(lua_State *state, int64_t count, const char *data, const char *end) except NULL:
    cdef int64_t i
    if not lua.checkstack(state, 8):
        raise MemoryError
    lua.createtable(state, <int>count, 0)
    for i in range(1, count + 1):
        data = push_value(state, data, end)
        lua.rawseti(state, -2, <int>i)
    return data


cdef const char *push_pairs(
        lua_State *state, bint with_values, int64_t count, const char *data, const char *end) except NULL:
    """Push {map={…}} or, without values, {set={…}}."""
    cdef int64_t _
    if not lua.checkstack(state, 8):
        raise MemoryError
    lua.createtable(state, 0, 1)
    lua.createtable(state, 0, <int>count)
    for _ in range(count):
        data = push_value(state, data, end)
        if with_values:
            data = push_value(state, data, end)
        else:
            lua.pushboolean(state, True)
        if lua.type(state, -2) == LUA_NIL:      # which no table takes as a key
            lua.settop(state, -3)
        else:
            lua.rawset(state, -3)
    lua.setfield(state, -2, "map" if with_values else "set")
    return data


cdef int64_t read_number(const char *text) noexcept nogil:
    """Read the digits that a line begins with."""
    cdef bint negative = text[0] == c"-"
    cdef uint64_t number = 0
    if negative:
        text += 1
    while c"0" <= text[0] <= c"9":
        number = 10 * number + <uint64_t>(text[0] - c"0")
        text += 1
    return <int64_t>(0 - number if negative else number)
