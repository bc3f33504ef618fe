# cython: nonecheck=True
"""Which command a name means: the names of the table for effects, those of `rename-command` for clients.

Names are compared without regard to case. Each spelling that was used is remembered, so that a name is made lower-case
once and not with each request.
"""

cimport cython
from cpython.list cimport PyList_GET_SIZE

cdef enum:
    SPELLINGS = 4096            # how many ways to write command names are remembered


@cython.final
cdef class CommandNames:
    """See the module."""

    def __init__(self, table: dict):
        self.table = self.names = table
        self.spellings = {}
        self.effect_spellings = {}
        for name, command in table.items():
            self.spellings[name] = command
            self.spellings[name.upper()] = command

    cdef Command look_up(self, bytes name):
        """The same as `called`, for a name other than that of the request before."""
        cdef Command command = self.spellings.get(name)
        if command is None:
            command = self.names.get(name.lower())
            if command is None:
                return None
            if len(self.spellings) < SPELLINGS:
                self.spellings[name] = command
        self.recent_name = name
        self.recent_command = command
        return command

    cdef Command of_effect(self, bytes name):
        """The command that an effect calls by this name; None where there is none."""
        cdef Command command = self.effect_spellings.get(name)
        if command is None:
            command = self.table.get(name.lower())
            if command is not None and len(self.effect_spellings) < SPELLINGS:
                self.effect_spellings[name] = command
        return command

    cpdef Command named_by(self, list argv):
        """Find the command or subcommand that a request of a client names; None where there is none."""
        cdef Command command = called(self, <bytes>argv[0])
        if command is not None and command.subcommands and PyList_GET_SIZE(argv) > 1:
            return command.subcommands.get((<bytes>argv[1]).lower())
        return command

    def rename(self, name: bytes, called_now: bytes) -> None:
        """Let clients call a command otherwise or, by an empty name, not at all; rules still call it as before."""
        if name not in self.names:
            raise ValueError("there is no such command")
        if called_now in self.names:
            raise ValueError("there is a command of the new name")
        self.names = dict(self.names)
        command = self.names.pop(name)
        if called_now:
            self.names[called_now] = command
        self.spellings = {}
        self.recent_name = None
