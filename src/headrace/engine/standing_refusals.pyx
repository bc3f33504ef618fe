"""What is refused to every client now, and why: writing, even reading, and what needs memory.

Several parts may have a reason to refuse writes, and a client is told the first. Commands look at one slot, `writes`,
which is computed whenever a reason comes or goes. The order of the causes is that in which redis-server looks at them.
"""

cimport cython

from enum import IntEnum


class Cause(IntEnum):
    """The causes to refuse writes; the first that holds gives the sentence."""

    DISK = 0            # it does not take what is written, or no snapshots
    REPLICAS = 1        # fewer than `min-replicas-to-write` are there
    CONFIRMATION = 2    # fewer than `min-replicas-to-confirm` are there
    READ_ONLY = 3       # this server is a replica


@cython.final
cdef class StandingRefusals:
    """See the module."""

    def __cinit__(self):
        self.causes = [None] * len(Cause)

    def refuse_writes(self, Py_ssize_t cause, text: bytes | None) -> None:
        """Refuse writes with a sentence, or with None no longer for this cause."""
        self.causes[cause] = text
        self.writes = next((each for each in self.causes if each is not None), None)

    def __getitem__(self, Py_ssize_t cause) -> bytes | None:
        return self.causes[cause]
