from libc.stdint cimport int64_t, uint64_t

from headrace.core.entry_log cimport NodeLimits
from headrace.core.stream cimport Stream
from headrace.engine.client cimport Client
from headrace.engine.keyspace cimport Database
from headrace.engine.stats cimport Stats
from headrace.protocol.reply cimport ReplyWriter

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

cdef enum:
    LATENCY_BUCKETS = 21        # up to 1, 2, 4 … µs; the last: about a second or more


cdef class Command:
    cdef readonly bytes name            # lower case; of a subcommand, `container|sub`
    cdef readonly str syntax
    cdef readonly int arity             # negative: at least so many, the name included
    cdef readonly int flags
    cdef readonly object handler        # None: only its subcommands run
    cdef public tuple access            # how it treats its keys: words of COMMAND INFO, for all keys or for each
    cdef readonly tuple keys            # first, last, step; None: it has none, or `find_keys` tells
    cdef readonly object find_keys      # argv -> list of keys, where they move
    cdef readonly str since
    cdef readonly str group
    cdef readonly str summary
    cdef readonly dict subcommands      # lower-case name -> Command
    cdef public uint64_t calls
    cdef public uint64_t rejected
    cdef public uint64_t failed
    cdef public uint64_t nanoseconds
    cdef uint64_t[LATENCY_BUCKETS] took         # calls by how long they took

    cdef void count_call(self, uint64_t nanoseconds) noexcept


cdef class Call:
    cdef readonly Engine engine
    cdef readonly Client client
    cdef readonly Command command
    cdef readonly Database db
    cdef readonly ReplyWriter reply
    cdef readonly list argv
    cdef readonly Py_ssize_t argc
    cdef readonly int64_t now_ms
    cdef bint explicit_effects          # the handler said what the effects are; else the command itself is the effect

    cpdef object value(self, Py_ssize_t index)
    cpdef Stream stream(self, Py_ssize_t index)
    cpdef int64_t integer(self, Py_ssize_t index, bytes refusal=*) except? -1
    cpdef int changed(self, int64_t changes=*) except -1
    cpdef int touch(self, bytes key) except -1
    cpdef int notify(self, int event_class, bytes event, bytes key) except -1
    cpdef int signal(self, bytes key) except -1
    cpdef int create(self, bytes key, object value) except -1
    cpdef bint delete(self, bytes key) except -1
    cpdef int emit(self, list argv) except -1
    cpdef int emit_nothing(self) except -1
    cpdef bint may_block(self)
    cpdef int block(self, list keys, bytes kind, int64_t timeout_ms, bint without_key, list argv) except -1


cdef class Engine:
    cdef readonly list databases
    cdef readonly object config
    cdef readonly NodeLimits node_limits
    cdef readonly dict clients          # id -> Client
    cdef readonly dict commands         # every spelling seen -> Command
    cdef bytes recent_name              # of the last command looked up: pipelines repeat themselves, and to compare
    cdef Command recent_command         # is cheaper than to hash
    cdef readonly dict table            # lower-case name -> Command
    cdef dict names                     # the same, by the names that clients use: `rename-command`
    cdef readonly Stats stats
    cdef readonly str run_id            # of this run of this server
    cdef readonly object waiting        # WaitingRoom
    cdef public object clock            # None: the machine's; else a function that gives Unix ms
    cdef uint64_t clock_ns              # monotonic: when the last command ended, or the batch began
    cdef int64_t wall_offset_ns         # what makes that Unix time
    cdef readonly int64_t now_ms        # when the outermost command began
    cdef readonly int64_t second        # of Unix time, as of the last tick: what accesses of keys are noted with
    cdef readonly int event_classes     # of keyspace events that are published; 0: none
    cdef bint minds_misses              # the command that runs publishes that it found no key
    cdef bint leave_access              # the client that runs a command does not want its accesses noted
    cdef public int64_t dirty           # changes since the last snapshot
    cdef public object failure_hook     # takes (name of the command, exception): an error of ours in a handler
    cdef public object effect_sink      # None, or a function that takes a list of (database number, argv)
    cdef list effects                   # of the command that runs
    cdef list ready                     # (database, key) that may serve waiting clients
    cdef dict ready_set
    cdef list unflushed                 # clients with replies
    cdef bint flush_due                 # the host was asked to call flush_clients
    cdef list pushes                    # (client, message) that follow the reply of the command that runs
    cdef readonly object exchange       # who listens to what is published
    cdef readonly object users          # who may do what
    cdef readonly object scripts        # what EVAL runs
    cdef public object long_runs        # what lets the host have its turn while a command runs long; None: nothing can
    cdef public object busy             # the long run that others are refused for; None: there is none
    cdef readonly object staging        # what writers have staged and not committed yet
    cdef uint64_t next_client_id
    cdef int depth                      # commands within commands: EXEC, scripts
    cdef public bint loading            # effects are replayed: nothing expires or blocks, limits are off
    cdef readonly Client loader         # who repeats them; None: nobody does
    cdef public bint over_memory
    cdef public bytes write_refusal     # why nothing can be written now; None: it can
    cdef public int64_t paused_until    # Unix ms; 0: not paused
    cdef public bint paused_writes_only
    cdef readonly dict postponed        # clients whose request CLIENT PAUSE holds back, in the order they came
    cdef readonly int64_t started_ms
    cdef readonly object latency        # LatencyMonitor
    cdef public object persistence      # what keeps the data when the process ends
    cdef uint64_t spike_ns              # commands from here on are latency spikes
    cdef public bint active_expiry      # whether keys expire without being looked at
    cdef public object shutdown_hook    # None, or a function of the host: takes whether to save, None: as configured

    cpdef int execute(self, Client client, list argv) except -1
    cdef int execute_next(self, Client client, list argv) except -1
    cdef int run(self, Client client, Command command, list argv) except -1
    cdef int execute_muted(self, Client client, list argv) except -1
    cdef int mute(self, Client client, size_t written) except -1
    cdef int dispatch(self, Client client, list argv) except -1
    cdef bint must_wait(self, Client client, Command command)
    cdef int refuse(self, Client client, Command command, bytes text) except -1
    cdef Command find_command(self, Client client, list argv)
    cdef int settle_effects(self) except -1
    cpdef int serve_waiting(self) except -1
    cpdef int push(self, Client client, bytes message) except -1
    cdef int deliver_pushes(self) except -1
    cdef bytes forbidding(self, Client client, Command command, list argv)
    cpdef int note_unflushed(self, Client client) except -1
    cpdef int flush_clients(self) except -1
    cpdef object find(self, Database db, bytes key)
    cpdef object peek(self, Database db, bytes key)
    cpdef int expire_now(self, Database db, bytes key) except -1
    cpdef int touch_key(self, Database db, bytes key) except -1
    cpdef int announce(self, Database db, int event_class, bytes event, bytes key) except -1
    cdef int announce_value(self, Database db, bytes key, object former, object value) except -1
    cdef bint reads(self, Command command)
    cpdef int signal_key(self, Database db, bytes key) except -1
    cdef void read_clocks(self) noexcept
    cpdef int64_t unix_ms(self)
