# cython: nonecheck=True
"""A command as the table knows it: how it is called, what it takes, where its keys are, and how often it ran.

    XADD key id field value …      name, syntax
      -5  │                        arity: at least five words
          └ (1, 1, 1)              keys: the first, the last, the step between them

The handler runs it. `commands/declaration/table` declares commands; the engine looks them up, runs them and counts.
"""

cimport cython


@cython.final
cdef class Command:
    """What a command is called, takes and does, and how often it did."""

    def __init__(self, name: bytes, handler, *, syntax: str, arity: int, flags: int, keys=None, find_keys=None,
                 reading=None, since: str = "1.0.0", group: str = "generic", summary: str = ""):
        self.name = name
        self.handler = handler
        self.syntax = syntax
        self.arity = arity
        self.flags = flags
        self.keys = keys
        self.find_keys = find_keys
        self.reading = reading
        self.since = since
        self.group = group
        self.summary = summary
        self.subcommands = {}
        self.access = ()
        self.forget_calls()

    def latencies(self) -> list[tuple[int, int]]:
        """List how many calls took at most 1, 2, 4 … times 1,024 ns."""
        cdef uint64_t calls = 0
        counts = []
        for bucket in range(LATENCY_BUCKETS):
            calls += self.took[bucket]
            counts.append((1024 << bucket, calls))
        return counts

    def forget_calls(self) -> None:
        """Begin to count calls again."""
        self.calls = self.rejected = self.failed = self.nanoseconds = 0
        for bucket in range(LATENCY_BUCKETS):
            self.took[bucket] = 0

    def accepts(self, arguments: int) -> bool:
        """Tell whether a request of so many arguments, the name included, is one of this command."""
        return arguments == self.arity if self.arity >= 0 else arguments >= -self.arity

    def keys_in(self, argv: list) -> list:
        """List the keys that a request names."""
        if self.find_keys is not None:
            return self.find_keys(argv)
        if self.keys is None:
            return []
        first, last, step = self.keys
        return argv[first:(last if last >= 0 else len(argv) + last) + 1:step]
