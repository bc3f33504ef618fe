from headrace.engine.client cimport Client
from headrace.engine.command cimport Command
from headrace.engine.engine cimport Engine

cdef Command find_command(Engine engine, Client client, list argv)
cdef Command find_effect(Engine engine, Client client, list argv)
cdef bint admits(Engine engine, Client client, Command command, list argv) except -1
cdef int refuse(Engine engine, Client client, Command command, bytes text) except -1
