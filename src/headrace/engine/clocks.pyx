# cython: nonecheck=True
"""The two clocks of an engine, and the moment that a command sees.

    Unix time       may be set; it is in the data: IDs, delivery times, when a key expires
    steady time     nobody can set it; whatever waits or lasts is measured by it: deadlines, pauses, ages, rates

`now_ms` and `steady_now_ms` are the moment at which the outermost command began; the commands inside EXEC share it.
After `read`, each command reads one clock, at its end, which is the beginning of the next. Three readings a command
were 16 % of an XADD.
"""

cimport cython

from headrace.core.clock cimport monotonic_ns, wall_ms

from time import time_ns


cdef enum:
    CLOCK_STEP_MS = 50          # from one tick to the next; what corrects a clock slowly does less than that
    CLOCK_SET_MS = 1000         # from one reading to the next: somebody has set the clock


@cython.final
cdef class Clocks:
    """See the module."""

    def __cinit__(self):
        self.now_ms = self.started_ms = self.unix_ms()
        self.steady_now_ms = self.steady_started_ms = self.steady_ms()
        self.lead_ms = self.read_lead_ms = self.now_ms - self.steady_now_ms

    cdef void read(self) noexcept:
        """Begin to measure time: what runs next runs now."""
        cdef int64_t now_ms = self.unix_ms()
        self.last_ns = monotonic_ns()
        self.unix_offset_ns = now_ms * 1000000 + 500000 - <int64_t>self.last_ns
        self.now_ms = now_ms
        self.steady_now_ms = self.last_ns // 1000000 if self.steady_source is None else self.steady_source()
        self.count_step(self.now_ms - self.steady_now_ms)

    cdef void count_step(self, int64_t lead_ms) noexcept:
        """Note by how much Unix time was set since the last reading, which what waits by it has to know."""
        cdef int64_t step_ms = lead_ms - self.read_lead_ms
        self.read_lead_ms = lead_ms
        if not -CLOCK_SET_MS < step_ms < CLOCK_SET_MS:
            self.set_by_ms += step_ms

    cdef bint was_set(self) noexcept:
        """Whether Unix time was set since this was asked last."""
        cdef int64_t lead_ms = self.now_ms - self.steady_now_ms
        cdef int64_t step_ms = lead_ms - self.lead_ms
        self.lead_ms = lead_ms
        return not -CLOCK_STEP_MS < step_ms < CLOCK_STEP_MS

    def resume_at(self, now_ms: int) -> None:
        """Let it be the moment again at which a command began that had paused."""
        self.now_ms = now_ms

    def unix_us(self) -> int:
        """Return the time in microseconds, as the lines of MONITOR have it."""
        return time_ns() // 1000 if self.unix_source is None else self.unix_source() * 1000

    cpdef int64_t unix_ms(self):
        """Read the clock of the data, which may be set."""
        return wall_ms() if self.unix_source is None else self.unix_source()

    cpdef int64_t steady_ms(self):
        """Read the clock that nobody can set."""
        return monotonic_ns() // 1000000 if self.steady_source is None else self.steady_source()
