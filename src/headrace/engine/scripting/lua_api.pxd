ctypedef void lua_State                  # used by pointers only

ctypedef int (*lua_CFunction)(lua_State *) noexcept nogil

cdef enum:
    LUA_GLOBALS = -10002                # the place of the table of globals; below it are those of a closure's values
    LUA_NIL = 0
    LUA_NUMBER = 3
    LUA_STRING = 4
    LUA_GC_COUNT = 3                    # asks lua_gc how many kilobytes Lua holds


cdef struct LuaApi:
    int (*gettop)(lua_State *) noexcept nogil
    void (*settop)(lua_State *, int) noexcept nogil
    int (*checkstack)(lua_State *, int) noexcept nogil
    int (*type)(lua_State *, int) noexcept nogil
    double (*tonumber)(lua_State *, int) noexcept nogil
    const char *(*tolstring)(lua_State *, int, size_t *) noexcept nogil
    void *(*touserdata)(lua_State *, int) noexcept nogil
    void (*pushnil)(lua_State *) noexcept nogil
    void (*pushboolean)(lua_State *, int) noexcept nogil
    void (*pushnumber)(lua_State *, double) noexcept nogil
    void (*pushlstring)(lua_State *, const char *, size_t) noexcept nogil
    void (*pushlightuserdata)(lua_State *, void *) noexcept nogil
    void (*pushvalue)(lua_State *, int) noexcept nogil
    void (*pushcclosure)(lua_State *, lua_CFunction, int) noexcept nogil
    void (*createtable)(lua_State *, int, int) noexcept nogil
    void (*getfield)(lua_State *, int, const char *) noexcept nogil
    void (*setfield)(lua_State *, int, const char *) noexcept nogil
    void (*rawset)(lua_State *, int) noexcept nogil
    void (*rawseti)(lua_State *, int, int) noexcept nogil
    void (*call)(lua_State *, int, int) noexcept nogil
    int (*error)(lua_State *) noexcept nogil
    int (*gc)(lua_State *, int, int) noexcept nogil


cdef LuaApi lua
