from libc.stdint cimport int64_t, uint64_t

from headrace.core.entry_log cimport NodeLimits
from headrace.engine.client cimport Client
from headrace.engine.clocks cimport Clocks
from headrace.engine.command cimport Command
from headrace.engine.command_names cimport CommandNames
from headrace.engine.effect_log cimport EffectLog
from headrace.engine.database cimport Database
from headrace.engine.keyspace cimport Keyspace
from headrace.engine.rules.book cimport RuleBook
from headrace.engine.stats cimport Stats

cdef class Engine:
    cdef readonly Keyspace keyspace     # the keys of all databases
    cdef readonly list databases        # of the keyspace
    cdef readonly object side_keys      # what is told of keys that the server keeps beside streams
    cdef readonly RuleBook rules        # the rules of queues, and what they have to do
    cdef public bint ruled              # there are some, and they are kept here: commands have to look
    cdef Client actor                   # what a rule does is done as this client
    cdef readonly dict due_keys         # kind -> those side keys at which something is due by time
    cdef readonly object tickets        # names for what is done later
    cdef readonly object config
    cdef readonly NodeLimits node_limits
    cdef readonly dict clients          # id -> Client
    cdef readonly CommandNames commands     # which command a name means
    cdef readonly Stats stats
    cdef readonly str run_id            # of this run of this server
    cdef readonly object chores         # what is done by time
    cdef object staging_expiry          # one of them: what was staged too long ago is forgotten
    cdef readonly object waiting        # WaitingRoom
    cdef readonly Clocks clocks         # the time
    cdef public int64_t dirty           # changes since the last snapshot
    cdef public object failure_hook     # takes (name of the command, exception): an error of ours in a handler
    cdef public object warning_hook     # takes a sentence for the operator: something that is due cannot be done
    cdef readonly list promotion_hooks  # called when no master decides any more what is due
    cdef readonly EffectLog effects     # what was done to the data
    cdef list unflushed                 # clients with replies
    cdef bint flush_due                 # the host was asked to call flush_clients
    cdef list pushes                    # (client, message) that follow the reply of the command that runs
    cdef public bint attended           # somebody monitors commands or is told of changed keys
    cdef readonly object monitors       # the clients that see every command
    cdef readonly object tracker        # the clients that are told which keys have changed
    cdef readonly object exchange       # the clients that listen to what is published
    cdef readonly object users          # the users, and what each may do
    cdef readonly object script_host    # what runs scripts and functions
    cdef readonly object scripts        # what EVAL runs
    cdef readonly object functions      # what FCALL runs
    cdef public object long_runs        # what lets the host have its turn while a command runs long; None: nothing can
    cdef public object busy             # the long run that others are refused for; None: there is none
    cdef readonly object freeing        # what frees large values beside the event loop
    cdef readonly object history        # which clients wait for entries that are on disk
    cdef readonly object staging        # what writers have staged and not committed yet
    cdef uint64_t next_client_id
    cdef int depth                      # commands within commands: EXEC, scripts
    cdef public bint loading            # not all data is there: clients are refused, and nothing expires
    cdef readonly bint applying                  # an effect is repeated: nothing expires or blocks, limits are off
    cdef public bint over_memory
    cdef public bytes write_refusal     # why nothing can be written now; None: it can. Computed by the next
    cdef readonly object write_refusals     # the causes of that
    cdef public bytes stale_refusal     # why even reading is refused; None: it is not
    cdef readonly dict pauses           # what commands are held back for (engine.blocking.pausing)
    cdef public int64_t paused_until    # ms of the steady clock: when the first of them ends; 0: there is none
    cdef readonly dict postponed        # clients whose request CLIENT PAUSE holds back, in the order they came
    cdef readonly object latency        # LatencyMonitor
    cdef public object snapshot_sender  # what sends clients a snapshot over their connection; None: nothing can
    cdef public object replication      # masters and followers
    cdef readonly bint is_replica       # the data is a master's: nothing expires here, its effects say what has
    cdef public object persistence      # what keeps the data when the process ends
    cdef uint64_t spike_ns              # commands from here on are latency spikes
    cdef public object server_end       # what ends the server; None: nothing does

    cpdef int execute(self, Client client, list argv) except -1
    cdef int execute_next(self, Client client, list argv) except -1
    cdef int run(self, Client client, Command command, list argv) except -1
    cdef int execute_muted(self, Client client, list argv) except -1
    cdef int mute(self, Client client, size_t written) except -1
    cdef int dispatch(self, Client client, list argv) except -1
    cdef bint is_paused(self) noexcept
    cdef int apply(self, Client client, list argv) except -1
    cpdef int record(self, Database db, list argv) except -1
    cpdef int act(self, Database db, object handler, object target) except -1
    cdef int attend_before(self, Client client, Command command, list argv) except -1
    cdef int attend_after(self, Client client, Command command, list argv) except -1
    cpdef int push(self, Client client, bytes message) except -1
    cdef int deliver_pushes(self) except -1
    cpdef int note_unflushed(self, Client client) except -1
    cpdef int flush_clients(self) except -1
    cdef int look_for_clock_step(self) except -1
