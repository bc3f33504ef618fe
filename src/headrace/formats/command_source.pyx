"""Where commands to be repeated come from: a file, a connection to another server, a list."""


cdef class CommandSource:
    """Gives one command after the other."""

    cpdef list next(self):
        """The next command, or None where there is none now."""
        raise NotImplementedError
