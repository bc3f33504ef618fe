from libc.stdint cimport int64_t, uint64_t

from headrace.core.stream cimport Policy
from headrace.engine.database cimport Database
from headrace.engine.timers cimport Timer, TimerHeap


cdef class Done:
    """What a rule has done since it was set, or since this server keeps it."""
    cdef public int64_t since_ms
    cdef public uint64_t trimmed            # entries that were over a limit
    cdef public uint64_t dropped            # entries that every group had acknowledged
    cdef public uint64_t redelivered        # entries that were delivered again
    cdef public uint64_t retried            # failures after which an entry waits
    cdef public uint64_t buried             # dead letters
    cdef public uint64_t removed            # consumers
    cdef public uint64_t created            # groups


cdef class StreamRules:
    """What is in force for one stream; no limits (0) and KEEPREF where only its groups have rules."""
    cdef readonly Database db
    cdef readonly bytes key
    cdef readonly object rule               # StreamRule; None: only groups have rules
    cdef readonly bytes pattern             # that the rule is for; None: it is the key's own
    cdef readonly Done done
    cdef uint64_t max_length
    cdef int64_t max_age_ms
    cdef uint64_t max_bytes
    cdef Policy policy
    cdef bint limits                        # any of the three is set
    cdef bint drops_acked
    cdef readonly dict groups               # name -> GroupRules
    cdef bytes retries_key                  # the hash that keeps what waits to be tried again
    cdef Timer timer                        # when its limits are looked at next; None: not by time


cdef class GroupRules:
    """What is in force for one group of a stream. 0, or None: nothing is said of it."""
    cdef readonly StreamRules stream
    cdef readonly bytes name
    cdef readonly object rule               # GroupRule
    cdef readonly bytes pattern
    cdef readonly Done done
    cdef int64_t visibility_ms
    cdef int64_t retry_min_ms
    cdef int64_t retry_max_ms
    cdef uint64_t max_deliveries
    cdef bint buries
    cdef bytes dead_letter                  # the stream that takes dead letters
    cdef int64_t consumer_ttl_ms
    cdef bytes create_from
    cdef bint redelivers                    # plain reads get again what failed
    cdef int64_t dated_ms                   # by how much the clock was set when the times of its records were right
    cdef list waiting                       # heap of (due Unix ms, ID) of released records; None: to be read
    cdef Timer timer                        # when somebody has to look for failures, or for consumers that left

    cdef int64_t backoff(self, uint64_t deliveries) noexcept


cdef class DatabaseRules:
    """The rules of one database."""
    cdef dict by_key                        # key -> Declared
    cdef dict by_pattern                    # pattern -> Declared
    cdef list patterns                      # (matcher, Declared), those that win first
    cdef dict resolved                      # key -> StreamRules; None: no rule
    cdef uint64_t resolved_most             # when there are more, those of keys that are gone are forgotten
    cdef list unplanned                     # keys with rules of their own that nobody has looked at yet
    cdef object cursor                      # where the search for streams under patterns goes on; None: it is over


cdef class RuleBook:
    cdef object engine                      # an Engine, whose declaration names this class
    cdef list databases                     # DatabaseRules, by number
    cdef dict stale_keys                    # (number of a database, key): its rules are to be read again
    cdef dict stale_patterns                # the same for patterns
    cdef list outdated                      # dicts of StreamRules that are not in force any more, to be taken apart
    cdef TimerHeap timers                   # of StreamRules and GroupRules, in Unix ms
    cdef object chore
    cdef object keep_stream                 # takes (Call, StreamRules): does what is due, and plans
    cdef object keep_group                  # takes (Call, GroupRules)
    cdef readonly bint kept                 # there are rules, and they are kept here: commands have to look
    cdef public uint64_t turn_ns            # how long one turn may take; a simulation, whose time stands still, sets it
    cdef public bint writing                # the server itself changes what it keeps of retries
    cdef readonly int64_t awake_ms          # since when the rules are kept here
    cdef int64_t dated_ms                   # by how much the clock was set when that was right

    cdef StreamRules find(self, Database db, bytes key)
    cdef StreamRules resolve(self, DatabaseRules rules, Database db, bytes key)
    cdef int refresh(self) except -1
    cdef int refresh_key(self, tuple place) except -1
    cdef int refresh_patterns(self) except -1
    cdef bint declare(self, dict declared, Database db, bytes side, bytes key) except -1
    cdef int plan(self, Database db, bytes key) except -1
    cdef int forget(self, DatabaseRules rules, bytes key) except -1
    cdef int forget_all(self, DatabaseRules rules) except -1
    cdef int let_go(self, StreamRules known) except -1
    cdef bint is_in_force(self, StreamRules known) except -1
    cdef bint take_step(self) except -1
    cdef bint take_apart(self) except -1
    cdef int keep(self, object target) except -1
    cdef int decide_ruled(self) except -1
    cdef int follow_clock(self) except -1
    cdef int expect_stream(self, StreamRules rules, int64_t when_ms) except -1
    cdef int expect_group(self, GroupRules rules, int64_t when_ms) except -1
