from libc.stdint cimport int64_t, uint64_t

from headrace.core.entry_log cimport NodeLimits
from headrace.engine.blocking.pausing cimport Pauses
from headrace.engine.client cimport Client
from headrace.engine.clocks cimport Clocks
from headrace.engine.command cimport Command
from headrace.engine.command_names cimport CommandNames
from headrace.engine.effect_log cimport EffectLog
from headrace.engine.database cimport Database
from headrace.engine.keyspace cimport Keyspace
from headrace.engine.outbox cimport Outbox
from headrace.engine.pubsub.observers cimport Observers
from headrace.engine.rules.book cimport RuleBook
from headrace.engine.standing_refusals cimport StandingRefusals
from headrace.engine.stats cimport Stats

cdef class Engine:
    cdef readonly Keyspace keyspace     # the keys of all databases
    cdef readonly list databases        # of the keyspace
    cdef readonly object side_keys      # what is told of keys that the server keeps beside streams
    cdef readonly RuleBook rules        # the rules of queues, and what they have to do
    cdef Client actor                   # what a rule does is done as this client
    cdef readonly object tickets        # names for what is done later
    cdef readonly object config
    cdef readonly NodeLimits node_limits
    cdef readonly dict clients          # id -> Client
    cdef readonly CommandNames commands     # which command a name means
    cdef readonly Stats stats
    cdef readonly str run_id            # of this run of this server
    cdef readonly object chores         # what is done by time
    cdef readonly object waiting        # WaitingRoom
    cdef readonly Clocks clocks         # the time
    cdef public int64_t dirty           # changes since the last snapshot
    cdef readonly EffectLog effects     # what was done to the data
    cdef readonly object hooks          # what the host does for the engine
    cdef readonly Outbox outbox         # replies and messages that have not left yet
    cdef readonly Observers observers   # the clients that monitor others, or are told of changed keys
    cdef readonly StandingRefusals refusals     # what is refused to everybody now
    cdef readonly Pauses pauses         # what holds commands back
    cdef readonly object exchange       # the clients that listen to what is published
    cdef readonly object users          # the users, and what each may do
    cdef readonly object script_host    # what runs scripts and functions
    cdef readonly object scripts        # what EVAL runs
    cdef readonly object functions      # what FCALL runs
    cdef public object busy             # the long run that others are refused for; None: there is none
    cdef readonly object freeing        # what frees large values beside the event loop
    cdef readonly object history        # which clients wait for entries that are on disk
    cdef readonly object staging        # what writers have staged and not committed yet
    cdef uint64_t next_client_id
    cdef readonly int depth             # commands within commands: EXEC, scripts
    cdef public bint loading            # not all data is there: clients are refused, and nothing expires
    cdef readonly bint applying                  # an effect is repeated: nothing expires or blocks, limits are off
    cdef public bint over_memory
    cdef readonly object latency        # LatencyMonitor
    cdef public object replication      # masters and followers
    cdef readonly bint is_replica       # the data is a master's: nothing expires here, its effects say what has
    cdef public object persistence      # what keeps the data when the process ends

    cpdef int execute(self, Client client, list argv) except -1
    cdef int execute_next(self, Client client, list argv) except -1
    cdef int run(self, Client client, Command command, list argv) except -1
    cdef int execute_muted(self, Client client, list argv) except -1
    cdef int mute(self, Client client, size_t written) except -1
    cdef int dispatch(self, Client client, list argv) except -1
    cdef int apply(self, Client client, list argv) except -1
    cpdef int record(self, Database db, list argv) except -1
    cpdef int act(self, Database db, object handler, object target) except -1
    cpdef int push(self, Client client, bytes message) except -1
    cdef int send_messages(self) except -1
    cpdef int flush_clients(self) except -1
    cdef int look_for_clock_step(self) except -1
