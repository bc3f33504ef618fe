# cython: nonecheck=True
"""What the engine counts: commands, errors by their code, look-ups, and the commands that were slow."""

cimport cython

from collections import deque

cdef enum:
    RATE_SAMPLES = 16
    RATE_INTERVAL_MS = 100
    ERROR_CODES = 128           # more codes than this are a client's nonsense


class Rates:
    """How fast some counters grow: the mean over the last second and a half, from samples.

    Each is taken at least a tenth of a second after the one before.
    """

    def __init__(self):
        self._samples = deque(maxlen=RATE_SAMPLES)  # of (steady ms, counters)

    def sample(self, steady_ms, counters) -> None:
        """Note what the counters are by now."""
        if not self._samples or steady_ms - self._newest()[0] >= RATE_INTERVAL_MS:
            self._samples.append((steady_ms, counters))

    def per_second(self, counter) -> float:
        """Say how fast a counter grows."""
        if len(self._samples) < 2:
            return 0.0
        (began, first), (ended, last) = self._samples[0], self._newest()
        return (last[counter] - first[counter]) * 1000 / (ended - began)

    def _newest(self):
        return self._samples[len(self._samples) - 1]


@cython.final
cdef class Stats:
    """Counters that INFO shows and CONFIG RESETSTAT sets back."""

    def __init__(self):
        self.slow_ns = 10_000_000
        self.slow_most = 128
        self.slow_arguments = 32
        self.slow_text = 128
        self.errors = {}
        self.rates = Rates()
        self.slow_log = deque()

    cpdef int count_error(self, bytes text) except -1:
        """Count an error reply under its code, the first word."""
        cdef bytes code = text.split(b" ", 1)[0]
        self.error_replies += 1
        if code in self.errors or len(self.errors) < ERROR_CODES:
            self.errors[code] = self.errors.get(code, 0) + 1
        return 0

    def cut(self, text: bytes) -> bytes:
        """What the slow log keeps of a text."""
        if len(text) <= self.slow_text:
            return text
        return text[:self.slow_text] + b"... (%d more bytes)" % (len(text) - self.slow_text)

    def log_slow(self, client, argv: list, nanoseconds: int, now_ms: int) -> None:
        """Keep a slow command: (number, Unix seconds, µs, arguments, address, client name), newest first."""
        shown = [self.cut(text) for text in argv[:self.slow_arguments]]
        if len(argv) > self.slow_arguments:
            shown[self.slow_arguments - 1] = b"... (%d more arguments)" % (len(argv) - self.slow_arguments + 1)
        self.slow_log.appendleft(
            (self.next_slow_id, now_ms // 1000, nanoseconds // 1000, shown, client.address, self.cut(client.name))
        )
        self.next_slow_id += 1
        while len(self.slow_log) > self.slow_most:
            self.slow_log.pop()

    def sample_rates(self, steady_ms: int) -> None:
        """Look at the counters from which the rates of INFO are taken, some ten times a second."""
        self.rates.sample(steady_ms, (self.commands, self.bytes_in, self.bytes_out))

    def reset(self) -> None:
        """Begin to count again; the slow log stays."""
        self.commands = self.connections = self.rejected_connections = self.hits = self.misses = 0
        self.expired = self.error_replies = self.bytes_in = self.bytes_out = 0
        self.query_limit_closed = self.output_limit_closed = 0
        self.errors = {}
        self.rates = Rates()
