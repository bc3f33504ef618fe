from libc.stdint cimport uint64_t

cpdef enum Flag:
    WRITE = 1
    READ = 2
    DENY_OOM = 4
    FAST = 8
    ADMIN = 16
    BLOCKING = 32
    NO_AUTH = 64
    NO_MULTI = 128              # refused inside a transaction
    IN_MULTI = 256              # executed, not queued, inside a transaction
    LOADING = 512
    STALE = 1024
    PUBSUB = 2048
    NO_SCRIPT = 4096
    SKIP_SLOWLOG = 8192
    MOVABLE_KEYS = 16384
    ALLOW_BUSY = 32768
    MAY_REPLICATE = 65536
    PROTECTED = 131072          # only where the configuration allows it
    LENGTHY = 262144            # runs what a client wrote, which may never end
    NO_MANDATORY_KEYS = 524288
    SKIP_MONITOR = 1048576
    READS_HISTORY = 2097152     # may need entries that are on disk, and can rehearse: see Call.rehearses

cdef enum:
    LATENCY_BUCKETS = 21        # up to 1, 2, 4 … µs; the last: about a second or more

cdef extern from *:
    int leading_zeros "__builtin_clzll" (unsigned long long) nogil      # of a number that is not 0


cdef class Command:
    cdef readonly bytes name            # lower case; of a subcommand, `container|sub`
    cdef readonly str syntax
    cdef readonly int arity             # negative: at least so many, the name included
    cdef readonly int flags
    cdef readonly object handler        # None: only its subcommands run
    cdef public tuple access            # how it treats its keys: words of COMMAND INFO, for all keys or for each
    cdef readonly tuple keys            # first, last, step; None: it has none, or `find_keys` tells
    cdef readonly object find_keys      # argv -> list of keys, where they move
    cdef readonly object reading        # words behind a subcommand that writes, with which it only reads; None: none
    cdef readonly str since
    cdef readonly str group
    cdef readonly str summary
    cdef readonly dict subcommands      # lower-case name -> Command
    cdef public uint64_t calls
    cdef public uint64_t rejected
    cdef public uint64_t failed
    cdef public uint64_t nanoseconds
    cdef uint64_t[LATENCY_BUCKETS] took         # calls by how long they took


cdef inline void count_call(Command command, uint64_t nanoseconds) noexcept:
    """One more call, that took so long."""
    cdef uint64_t above = (nanoseconds - 1) >> 10 if nanoseconds else 0
    cdef int bucket = 64 - leading_zeros(above) if above else 0
    command.calls += 1
    command.nanoseconds += nanoseconds
    command.took[bucket if bucket < LATENCY_BUCKETS else LATENCY_BUCKETS - 1] += 1
