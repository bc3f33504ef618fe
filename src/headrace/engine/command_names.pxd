from headrace.engine.command cimport Command


cdef class CommandNames:
    cdef readonly dict table            # lower-case name -> Command, by the names that the commands were declared with
    cdef dict names                     # the same by the names that clients use: `rename-command`
    cdef dict spellings                 # every spelling that a client has used -> Command
    cdef dict effect_spellings          # the same for effects, which use the declared names
    cdef bytes recent_name              # of the last command that was found: pipelines repeat themselves, and to
    cdef Command recent_command         # compare is cheaper than to hash

    cdef Command look_up(self, bytes name)
    cdef Command of_effect(self, bytes name)
    cpdef Command named_by(self, list argv)


cdef inline Command called(CommandNames commands, bytes name):
    """The command that clients call by this name, in any spelling; None where there is none."""
    if name == commands.recent_name:
        return commands.recent_command
    return commands.look_up(name)
