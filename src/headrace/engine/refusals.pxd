from headrace.engine.client cimport Client
from headrace.engine.command cimport Command
from headrace.engine.engine cimport Engine

cdef bytes forbidding(Engine engine, Client client, Command command, list argv)
cdef bint debugging_allowed(Engine engine, Client client)
cdef int flags_of(Client client, Command command)
cdef bytes unknown_command(list argv)
