from libc.stdint cimport int64_t, uint64_t

from headrace.engine.database cimport Database
from headrace.protocol.reply cimport ReplyWriter

# Whether a client wants its replies.
cpdef enum ReplyMode:
    REPLY_ON = 0
    REPLY_OFF = 1
    REPLY_SKIP_NEXT = 2         # CLIENT REPLY SKIP: the next command's
    REPLY_SKIP = 3              # this command's


cdef class Wait:
    """What a blocked client waits for."""
    cdef readonly list argv             # the command to run again
    cdef readonly list keys             # each once
    cdef readonly bytes kind            # the type of value that can serve it: b"stream", b"list", …
    cdef readonly bint without_key      # to be woken when a key vanishes or changes its type, too
    cdef readonly int64_t deadline      # ms of the steady clock; 0: none
    cdef public object timer            # that ends the wait at its deadline; None: none does
    cdef public object disk_timer       # that ends it when the disk has the effects it waits for; None: none does
    cdef readonly Database db


cdef class Client:
    cdef readonly uint64_t id
    cdef public Database db
    cdef public ReplyWriter reply
    cdef public object channel          # the host's side: flush(), resume(), close()
    cdef public bytes name
    cdef public bytes address
    cdef public bytes local_address
    cdef public bytes library_name
    cdef public bytes library_version
    cdef public bint authenticated
    cdef public object user             # `headrace.engine.acl.rules.User`; None: a client that is refused nothing
    cdef public bint guarded            # not every command is for it: the engine asks for each
    cdef public object snapshot_request     # what REPLCONF said of the snapshot that SYNC will ask for; None: nothing
    cdef public bint is_follower        # a replica of this server, or one that asks to be: it gets effects, no replies
    cdef public bint is_master          # the server that this one follows
    cdef public bint subscribed         # listens to something
    cdef public tuple subscriptions     # names by kind of subscription (engine.pubsub.exchange); None: none so far
    cdef public ReplyMode reply_mode
    cdef public bint closing            # close once what was replied has left
    cdef public bint no_evict
    cdef public bint no_touch
    cdef public int64_t created_ms      # by the steady clock
    cdef public int64_t active_ms       # by the steady clock: when it last sent a command
    cdef public bytes last_command      # full name, in lower case; NULL: none yet, or none that exists
    cdef public uint64_t commands_run
    cdef public bint dirty              # has replies to flush
    cdef public list postponed          # a request that CLIENT PAUSE keeps waiting; None: none

    cdef public list queue              # the commands after MULTI; None: no transaction
    cdef readonly uint64_t queued_bytes         # what they take; a host may bound it
    cdef public bint queue_failed       # one of them was refused: EXEC will be too
    cdef readonly dict watched          # database -> set of its keys
    cdef public bint watch_failed       # one of them was changed
    cdef public bint executing          # inside EXEC

    cdef public Wait wait               # None: not blocked
    cdef public uint64_t blocked_ns     # how long its command ran before it blocked
    cdef public bint retrying           # running its command again after a wake-up
    cdef public uint64_t told           # the offset of the effect log up to which its replies may tell of data
    cdef public uint64_t awaited_position       # of the journal, that WAITAOF waits for
    cdef public uint64_t awaited_offset         # of the effect log, that WAIT and WAITAOF wait for replicas to have
    cdef public uint64_t write_offset           # of the effect log, behind the last command of the client that wrote

    cpdef int update_guard(self) except -1
    cdef int keep_for_exec(self, object command, list argv) except -1
