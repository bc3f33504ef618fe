from headrace.engine.scripting.lua_api cimport lua_State
from headrace.engine.scripting.script_run cimport ScriptRun


cdef class CommandGate:
    cdef object memory_used             # how many bytes Lua holds
    cdef object set_limit               # how many it may hold; 0: any number
    cdef public size_t limit            # that a script may need; 0: any number
    cdef public ScriptRun run           # the script that runs; None: none
    cdef object pending                 # the exception that `raise_pending` raises

    cdef bint has_room(self, lua_State *state, size_t need) noexcept
    cdef int serve(self, lua_State *state) except -1
    cdef int push_reply(self, lua_State *state) except -1
    cdef int push_text(self, lua_State *state, const char *data, size_t size) except -1
