"""The C interface of Lua 5.1, as the library has it that lupa brings: what it has no function of Python for.

`lua` has the functions, by their names without `lua_`. Any that allocates may find no memory, which is an error of Lua:
it jumps to where Lua was entered, over whatever stands in between.
"""

cdef extern from "dlfcn.h" nogil:
    void *dlopen(const char *, int)
    void *dlsym(void *, const char *)
    int RTLD_NOW

cdef tuple NAMES = (
    b"gettop", b"settop", b"checkstack", b"type", b"tonumber", b"tolstring", b"touserdata", b"pushnil", b"pushboolean",
    b"pushnumber", b"pushlstring", b"pushlightuserdata", b"pushvalue", b"pushcclosure", b"createtable", b"getfield",
    b"setfield", b"rawset", b"rawseti", b"call", b"error", b"gc",
)       # in the order of the members of LuaApi


def load_api(path: str) -> None:
    """Find the functions in the library that a module was loaded from; raises ImportError where it hides them."""
    cdef void *library = dlopen(path.encode(), RTLD_NOW)
    cdef void **places = <void **>&lua
    cdef void *function
    cdef Py_ssize_t i
    if library == NULL:
        raise ImportError(f"{path} cannot be opened")
    for i in range(len(NAMES)):
        function = dlsym(library, b"lua_" + <bytes>NAMES[i])
        if function == NULL:
            raise ImportError(f"{path} has no function lua_{NAMES[i].decode()}")
        places[i] = function
