# cython: nonecheck=True
"""The engine: runs commands on databases for clients, one at a time.

    execute ── find the command, refuse or queue it, or run it
       run ── handler(Call) ─► reply, changes, effects, keys that became ready
       then ── effects go to the sink, in order; waiting clients are served; replies are flushed by the host

A command sees one moment: `now_ms` is read when the outermost command begins, and commands inside EXEC share it.

The effects of a command are what must be repeated to get the same data: the command itself where it is deterministic,
else what its handler emitted instead. They are handed over once, after the command, wrapped in MULTI … EXEC where
there are several.

One thread owns an engine. A handler that raises CommandError has changed nothing.
"""

cimport cython
from cpython.list cimport PyList_GET_SIZE

from headrace.core.clock cimport monotonic_ns, wall_ms
from headrace.core.stream_id cimport strict_integer
from headrace.engine.client cimport REPLY_ON, REPLY_SKIP, REPLY_SKIP_NEXT, Wait
from headrace.engine.notifications cimport (
    EXPIRED, KEY_MISS, KEYEVENT, KEYSPACE, NEW, OVERWRITTEN, TYPE_CHANGED,
)

import traceback
from secrets import token_hex

from headrace.engine.errors import INTERNAL_ERROR, NOT_AN_INTEGER, OUT_OF_MEMORY, WRONG_TYPE, CommandError, quoted
from headrace.engine.latency import LatencyMonitor
from headrace.engine.notifications import NO_READERS, READERS
from headrace.engine.persistence import Persistence
from headrace.engine.pubsub import Exchange
from headrace.engine.staging import Staging
from headrace.engine.values import kind_of
from headrace.engine.waiting import WaitingRoom


cdef extern from *:
    int leading_zeros "__builtin_clzll" (unsigned long long) nogil      # of a number that is not 0

cdef enum:
    SPELLINGS = 4096            # how many ways to write command names are remembered
    EXPIRED_AT_ONCE = 1000      # keys of a database that one tick expires, so that no client waits long


cdef uint64_t NEVER = <uint64_t>-1      # as a duration: longer than any command takes

# What WAIT and WAITAOF wait for; every other kind but the next is a type of value.
REPLICAS = b"replicas"
DISK = b"disk"
# What a client waits for that has not found its password several times: the answer.
FAILED_LOGIN = b"failed-login"
WRONG_PASSWORD = b"WRONGPASS invalid username-password pair or user is disabled."

BUSY = b"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."

# What a client of RESP2 may do while messages come in between its replies.
cdef frozenset WHILE_SUBSCRIBED = frozenset((
    b"subscribe", b"psubscribe", b"ssubscribe", b"unsubscribe", b"punsubscribe", b"sunsubscribe", b"ping", b"quit",
    b"reset",
))

cdef bytes DEBUG_NOT_ALLOWED = (
    b'ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a local '
    b"connection, otherwise you need to set this option in the configuration file, and then restart the server."
)


# --- commands --------------------------------------------------------------------------------------------------

@cython.final
cdef class Command:
    """What a command is called, takes and does, and how often it did."""

    def __init__(self, name: bytes, handler, *, syntax: str, arity: int, flags: int, keys=None, find_keys=None,
                 since: str = "1.0.0", group: str = "generic", summary: str = ""):
        self.name = name
        self.handler = handler
        self.syntax = syntax
        self.arity = arity
        self.flags = flags
        self.keys = keys
        self.find_keys = find_keys
        self.since = since
        self.group = group
        self.summary = summary
        self.subcommands = {}
        self.access = ()
        self.forget_calls()

    cdef void count_call(self, uint64_t nanoseconds) noexcept:
        cdef uint64_t above = (nanoseconds - 1) >> 10 if nanoseconds else 0
        cdef int bucket = 64 - leading_zeros(above) if above else 0
        self.calls += 1
        self.nanoseconds += nanoseconds
        self.took[bucket if bucket < LATENCY_BUCKETS else LATENCY_BUCKETS - 1] += 1

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


# --- one call --------------------------------------------------------------------------------------------------

@cython.final
@cython.no_gc
@cython.freelist(16)
cdef class Call:
    """One command that runs: its arguments, its client, its reply, and what it does to the data."""

    cpdef object value(self, Py_ssize_t index):
        """The value of the key at an argument, or None."""
        return self.engine.find(self.db, <bytes>self.argv[index])

    cpdef Stream stream(self, Py_ssize_t index):
        """The stream of the key at an argument, or None; refuses any other type."""
        cdef object value = self.engine.find(self.db, <bytes>self.argv[index])
        if value is not None and type(value) is not Stream:
            raise CommandError(WRONG_TYPE)
        return <Stream>value

    cpdef int64_t integer(self, Py_ssize_t index, bytes refusal=NOT_AN_INTEGER) except? -1:
        """The argument as a signed 64-bit integer in its canonical spelling."""
        cdef bytes text = <bytes>self.argv[index]
        cdef int64_t value
        if not strict_integer(text, len(text), &value):
            raise CommandError(refusal)
        return value

    cpdef int changed(self, int64_t changes=1) except -1:
        """Note changes to the data; without any, a command has no effects."""
        self.engine.dirty += changes
        return 0

    cpdef int touch(self, bytes key) except -1:
        """Fail the transactions that watch the key."""
        return self.engine.touch_key(self.db, key)

    cpdef int notify(self, int event_class, bytes event, bytes key) except -1:
        """Publish what happened to a key, where somebody wants to know."""
        if self.engine.event_classes & event_class:
            self.engine.announce(self.db, event_class, event, key)
        return 0

    cpdef int signal(self, bytes key) except -1:
        """Let those who wait for the key look at it when this command is over."""
        return self.engine.signal_key(self.db, key)

    cpdef int create(self, bytes key, object value) except -1:
        """Give a key a value, whether it has one or not."""
        if self.engine.event_classes & (NEW | OVERWRITTEN | TYPE_CHANGED):
            self.engine.announce_value(self.db, key, self.db.values.get(key), value)
        self.db.put(key, value)
        self.db.note_access(key, self.engine.second)
        return self.engine.signal_key(self.db, key)

    cpdef bint delete(self, bytes key) except -1:
        """Remove a key; False where there is none."""
        if self.engine.find(self.db, key) is None:
            return False
        self.db.take(key)
        self.engine.touch_key(self.db, key)
        self.engine.signal_key(self.db, key)
        return True

    cpdef int emit(self, list argv) except -1:
        """Note an effect, in place of the command itself."""
        self.explicit_effects = True
        if self.engine.effect_sink is not None:
            self.engine.effects.append((self.db.number, argv))
        return 0

    cpdef int emit_nothing(self) except -1:
        """What changed need not be repeated."""
        self.explicit_effects = True
        return 0

    cpdef bint may_block(self):
        """Whether a reply may be kept waiting: not inside a transaction, nor when effects are replayed."""
        return not self.client.executing and not self.engine.loading

    cpdef int block(self, list keys, bytes kind, int64_t timeout_ms, bint without_key, list argv) except -1:
        """Answer later: run `argv` again when a key is ready, or answer nothing after the timeout (0: never)."""
        cdef int64_t deadline = self.now_ms + timeout_ms if timeout_ms else 0
        if self.client.retrying:
            deadline = self.client.wait.deadline
        self.engine.waiting.enter(self.client, Wait(self.db, argv, keys, kind, without_key, deadline))
        return 0


# --- the engine ------------------------------------------------------------------------------------------------

@cython.final
cdef class Engine:
    """See the module."""

    def __init__(self, config, table: dict):
        self.config = config
        self.table = self.names = table
        self.commands = {}
        for name, command in table.items():
            self.commands[name] = command
            self.commands[name.upper()] = command
        self.databases = [Database(number) for number in range(config["databases"])]
        self.node_limits = NodeLimits(config["stream-node-max-bytes"], config["stream-node-max-entries"])
        self.clients = {}
        self.stats = Stats()
        self.run_id = token_hex(20)
        self.waiting = WaitingRoom()
        self.latency = LatencyMonitor()
        self.persistence = Persistence(self.unix_ms() // 1000)
        self.active_expiry = True
        self.failure_hook = print_failure
        self.effects = []
        self.ready = []
        self.ready_set = {}
        self.unflushed = []
        self.pushes = []
        self.exchange = Exchange(self.push)
        self.staging = Staging()
        # Imported here, for rules and scripts are about commands, which this module declares.
        from headrace.engine.users import Users
        self.users = Users(self)
        from headrace.engine.scripts import Scripts
        self.scripts = Scripts(self)
        self.postponed = {}
        self.now_ms = self.started_ms = self.unix_ms()
        self.second = self.now_ms // 1000
        config.watch("stream-node-max-bytes", self.limits_changed)
        config.watch("stream-node-max-entries", self.limits_changed)
        for name in ("slowlog-log-slower-than", "slowlog-max-len", "latency-monitor-threshold"):
            config.watch(name, self.thresholds_changed)
        self.thresholds_changed(None)
        config.user_lines = self.users.directives
        config.watch("requirepass", self.users.password_changed)
        config.watch("notify-keyspace-events", self.events_changed)
        self.events_changed(config["notify-keyspace-events"])

    def limits_changed(self, value) -> None:
        """Take over new limits of a node; appends see them at once."""
        self.node_limits.max_bytes = self.config["stream-node-max-bytes"]
        self.node_limits.max_entries = self.config["stream-node-max-entries"]

    def thresholds_changed(self, value) -> None:
        """Take over from where on a command is slow, or a spike of latency."""
        slower_us = self.config["slowlog-log-slower-than"]
        self.stats.slow_most = self.config["slowlog-max-len"]
        self.stats.slow_ns = NEVER if slower_us < 0 or self.stats.slow_most == 0 else min(slower_us * 1000, NEVER)
        self.latency.threshold_ms = self.config["latency-monitor-threshold"]
        self.spike_ns = min(self.latency.threshold_ms * 1000000, NEVER) or NEVER

    def events_changed(self, classes) -> None:
        """Take over which events are published: none where it is not said on which channels."""
        self.event_classes = classes if classes & (KEYSPACE | KEYEVENT) else 0

    cdef void read_clocks(self) noexcept:
        """Begin to measure time: what runs next runs now.

        After that each command reads one clock, at its end, which is the beginning of the next. Three readings a
        command were 16 % of an XADD.
        """
        cdef int64_t now_ms = self.unix_ms()
        self.clock_ns = monotonic_ns()
        self.wall_offset_ns = now_ms * 1000000 + 500000 - <int64_t>self.clock_ns
        self.now_ms = now_ms

    cpdef int64_t unix_ms(self):
        return wall_ms() if self.clock is None else self.clock()

    # --- loading -----------------------------------------------------------------------------------------------

    def begin_loading(self) -> Client:
        """Let nobody but the client that this returns change data: it repeats what was written before."""
        self.loading = True
        self.loader = Client(0, self.databases[0], None, self.unix_ms())
        self.loader.authenticated = True
        return self.loader

    def load_key(self, number: int, key: bytes, value: object, expires_ms: int | None, idle_s: int | None) -> None:
        """Give a key of a database a value that was saved, and what else was saved of it."""
        cdef Database db = self.databases[number]
        db.put(key, value)
        if expires_ms is not None:
            db.set_expiry(key, expires_ms)
        db.note_access(key, self.second - (idle_s or 0))

    def end_loading(self) -> None:
        """Let everybody work again; what was loaded is no change."""
        self.loading = False
        self.loader = None
        self.dirty = 0

    def rename_command(self, name: bytes, called: bytes) -> None:
        """Let clients call a command otherwise or, by an empty name, not at all; rules still call it as before."""
        if name not in self.names:
            raise ValueError("there is no such command")
        if called in self.names:
            raise ValueError("there is a command of the new name")
        self.names = dict(self.names)
        command = self.names.pop(name)
        if called:
            self.names[called] = command
        self.commands = {}
        self.recent_name = None

    # --- clients -----------------------------------------------------------------------------------------------

    def connect(self, channel) -> Client:
        """Welcome a client; the channel is the host's side of it."""
        self.next_client_id += 1
        client = Client(self.next_client_id, self.databases[0], channel, self.unix_ms())
        self.users.welcome(client)
        self.clients[client.id] = client
        self.stats.connections += 1
        return client

    def disconnect(self, client: Client) -> None:
        """Forget a client and all it waited for and watched."""
        self.waiting.leave(client)
        self.postponed.pop(client, None)
        client.postponed = None
        client.discard_transaction()
        self.exchange.leave(client)
        self.clients.pop(client.id, None)

    # --- running -----------------------------------------------------------------------------------------------

    cpdef int execute(self, Client client, list argv) except -1:
        """Run one request of a client that is not blocked, and serve those who waited for what it did."""
        self.read_clocks()
        return self.execute_next(client, argv)

    cdef int execute_next(self, Client client, list argv) except -1:
        """The same for a request that follows another, or `read_clocks`, at once."""
        if client.reply_mode != REPLY_ON:
            self.execute_muted(client, argv)
        else:
            self.dispatch(client, argv)
        if self.pushes:
            self.deliver_pushes()
        if self.ready and self.busy is None:
            self.serve_waiting()
        return self.note_unflushed(client)      # behind those who waited for what it did

    cdef int execute_muted(self, Client client, list argv) except -1:
        """The same for a client that does not want the reply."""
        cdef size_t written = client.reply.written()
        if client.reply_mode == REPLY_SKIP_NEXT:
            client.reply_mode = REPLY_SKIP
        self.dispatch(client, argv)
        if client.wait is None and client.postponed is None:
            self.mute(client, written)
        return 0

    cdef int mute(self, Client client, size_t written) except -1:
        """Take back what a client does not want to read; it is the reply to its last request."""
        if client.reply_mode == REPLY_ON:
            return 0
        client.reply.rewind(written)
        if client.reply_mode == REPLY_SKIP:
            client.reply_mode = REPLY_ON
        return 0

    cdef int dispatch(self, Client client, list argv) except -1:
        """Refuse, hold back, queue or run a request."""
        cdef Command command = self.find_command(client, argv)
        if command is None:
            return 0
        if self.clock is None:
            self.now_ms = (<int64_t>self.clock_ns + self.wall_offset_ns) // 1000000
        client.active_ms = self.now_ms
        if self.paused_until and self.must_wait(client, command):
            client.postponed = argv
            self.postponed[client] = None
            return 0
        if client.queue is not None and not command.flags & IN_MULTI:
            if command.flags & NO_MULTI:
                client.queue_failed = True
                return self.refuse(client, command, b"ERR Command not allowed inside a transaction")
            client.queue.append((command, argv))
            client.reply.simple(b"QUEUED")
            return 0
        if command.flags & LENGTHY and self.long_runs is not None and runs_script(client, command) \
                and client is not self.loader:
            self.long_runs.begin(client, command, argv)
            return 0
        return self.run(client, command, argv)

    # --- pausing -----------------------------------------------------------------------------------------------

    def pause(self, until_ms: int, writes_only: bool) -> None:
        """Hold commands back up to a time; of two pauses, the longer and the stricter counts."""
        if self.paused_until <= self.now_ms:
            self.paused_writes_only = writes_only
        self.paused_writes_only = self.paused_writes_only and writes_only
        self.paused_until = max(self.paused_until, until_ms)
        self.waiting.wake_at(self.paused_until)

    cdef bint must_wait(self, Client client, Command command):
        """Whether CLIENT PAUSE holds a command back."""
        cdef Command queued
        if self.now_ms >= self.paused_until:
            return False
        if not self.paused_writes_only or command.flags & (WRITE | MAY_REPLICATE):
            return True
        if command.name == b"exec" and client.queue is not None:
            for queued, _ in client.queue:
                if queued.flags & (WRITE | MAY_REPLICATE):
                    return True
        return False

    def unpause(self) -> None:
        """End a pause; what it held back runs as soon as the command that ends it is over."""
        self.paused_until = 0
        if self.postponed:
            self.waiting.wake_at(self.now_ms)

    def run_postponed(self) -> None:
        """Run what CLIENT PAUSE held back, first come first."""
        cdef Client client
        self.paused_until = 0
        postponed = self.postponed
        self.postponed = {}
        for client in postponed:
            argv = client.postponed
            if argv is None:
                continue                # one of the others has killed it
            client.postponed = None
            self.execute(client, argv)
            client.channel.resume()

    cdef Command find_command(self, Client client, list argv):
        """The command that a request names, or None after refusing it."""
        cdef bytes name = <bytes>argv[0]
        cdef Command command
        cdef Command inner
        cdef Py_ssize_t argc = PyList_GET_SIZE(argv)
        if name == self.recent_name:
            command = self.recent_command
        else:
            command = self.commands.get(name)
            self.recent_name = name
            self.recent_command = command
        if command is None:
            command = self.names.get(name.lower())
            if command is None and client is self.loader:
                command = self.table.get(name.lower())  # effects have the names that commands were born with
            if command is None:
                client.last_command = b"NULL"
                self.refuse(client, None, unknown_command(argv))
                return None
            if len(self.commands) < SPELLINGS:
                self.commands[name] = command
            self.recent_command = command
        if command.subcommands and argc > 1:
            inner = command.subcommands.get((<bytes>argv[1]).lower())
            if inner is None:
                client.last_command = b"NULL"
                self.refuse(client, command, b"ERR unknown subcommand '%s'. Try %s HELP." % (
                    quoted(argv[1])[:128], command.name.upper()))
                return None
            command = inner
        client.last_command = command.name
        if (argc != command.arity) if command.arity >= 0 else (argc < -command.arity):
            self.refuse(client, command, b"ERR wrong number of arguments for '%s' command" % command.name)
            return None
        if command.flags & PROTECTED and not self.debugging_allowed(client):
            self.refuse(client, command, DEBUG_NOT_ALLOWED)
            return None
        if client.guarded:
            refusal = self.forbidding(client, command, argv)
            if refusal is not None:
                self.refuse(client, command, refusal)
                return None
        if client is self.loader:
            return command
        if self.over_memory and flags_of(client, command) & DENY_OOM:
            self.refuse(client, command, OUT_OF_MEMORY)
            return None
        if self.loading and not command.flags & LOADING:
            self.refuse(client, command, b"LOADING Redis is loading the dataset in memory")
            return None
        if self.write_refusal is not None and flags_of(client, command) & WRITE:
            self.refuse(client, command, self.write_refusal)
            return None
        if self.busy is not None and not command.flags & ALLOW_BUSY:
            self.refuse(client, command, BUSY)
            return None
        return command

    def command_of(self, argv: list) -> Command | None:
        """Find the command that words name, as clients call it; None where there is none."""
        command = self.names.get((<bytes>argv[0]).lower())
        if command is not None and command.subcommands and len(argv) > 1:
            return command.subcommands.get((<bytes>argv[1]).lower())
        return command

    def run_found(self, client: Client, command: Command, argv: list) -> None:
        """Run a command that was found fit to run: inside another, which has its effects, too, or as a long run."""
        self.run(client, command, argv)

    def begin_pause(self, run, client: Client, argv: list) -> None:
        """Refuse others, for a command of a client is not over; what is there of its reply stays."""
        self.busy = run
        client.postponed = argv
        self.unflushed = [other for other in self.unflushed if other is not client]

    def go_on_at(self, now_ms: int) -> None:
        """Let it be the moment again at which a command began that had paused."""
        self.now_ms = now_ms

    def end_pause(self, client: Client, written: int) -> None:
        """Do what follows a command, for one that had paused: others may work again."""
        self.busy = None
        client.postponed = None
        client.dirty = False
        self.note_unflushed(client)
        self.mute(client, written)
        if self.pushes:
            self.deliver_pushes()
        client.channel.resume()
        self.ring()

    cdef bytes forbidding(self, Client client, Command command, list argv):
        """Why a client may not run a command, or None."""
        if not client.authenticated and not command.flags & NO_AUTH:
            return b"NOAUTH Authentication required."
        if not client.user.unlimited:
            refusal = self.users.refuse(client, command, argv)
            if refusal is not None:
                return refusal
        if client.subscribed and client.reply.protocol == 2 and command.name not in WHILE_SUBSCRIBED:
            return (b"ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed "
                    b"in this context" % command.name)
        return None

    def debugging_allowed(self, client: Client) -> bool:
        """Tell whether `enable-debug-command` lets a client run what is protected."""
        allowed = self.config["enable-debug-command"]
        return allowed == "yes" or (allowed == "local" and client.is_local)

    cdef int refuse(self, Client client, Command command, bytes text) except -1:
        """Answer an error for a command that was not run."""
        if command is not None:
            command.rejected += 1
            if command.name == b"exec":
                client.discard_transaction()
                text = b"EXECABORT Transaction discarded because of: " + text.removeprefix(b"ERR ")
        if client.queue is not None:
            client.queue_failed = True
        self.stats.count_error(text)
        client.reply.error(text)
        return 0

    cdef int run(self, Client client, Command command, list argv) except -1:
        """Run a command: its handler, its effects, its statistics."""
        cdef Call call = Call.__new__(Call)
        cdef uint64_t began = self.clock_ns
        cdef uint64_t took
        cdef uint64_t errors = client.reply.errors
        cdef size_t written = client.reply.written()
        cdef int64_t dirty = self.dirty
        cdef Wait wait = client.wait
        call.engine = self
        call.client = client
        call.command = command
        call.db = client.db
        call.reply = client.reply
        call.argv = argv
        call.argc = PyList_GET_SIZE(argv)
        call.now_ms = self.now_ms
        self.leave_access = client.no_touch
        if self.event_classes & KEY_MISS:
            self.minds_misses = self.reads(command)
        self.depth += 1
        try:
            command.handler(call)
        except CommandError as refusal:
            client.reply.rewind(written)
            client.reply.error(refusal.text)
            self.stats.count_error(refusal.text)
        except MemoryError:
            client.reply.rewind(written)
            client.reply.error(OUT_OF_MEMORY)
            self.stats.count_error(OUT_OF_MEMORY)
        except Exception as bug:
            # Ours, not the client's: it is told, the host is told where, and everybody else goes on.
            client.reply.rewind(written)
            client.reply.error(INTERNAL_ERROR)
            self.stats.count_error(INTERNAL_ERROR)
            self.failure_hook(command.name, bug)
        finally:
            self.depth -= 1
        # Fewer changes than before: a snapshot was written, or loaded, which is no effect.
        if self.dirty > dirty and not call.explicit_effects and self.effect_sink is not None:
            self.effects.append((call.db.number, argv))
        if self.depth == 0 and self.effects:
            self.settle_effects()
        if client.wait is not wait or client is self.loader:
            return 0                    # it waits, and is counted when it is served; or it ran, and was, before
        self.clock_ns = monotonic_ns()
        took = self.clock_ns - began
        command.count_call(took)
        if client.reply.errors != errors:
            command.failed += 1
        self.stats.commands += 1
        client.commands_run += 1
        if took >= self.stats.slow_ns and not command.flags & SKIP_SLOWLOG:
            self.stats.log_slow(client, argv, took, self.now_ms)
        if took >= self.spike_ns:
            kind = b"fast-command" if command.flags & FAST else b"command"
            self.latency.add(kind, took // 1000000, self.now_ms // 1000)
        return 0

    def expire_watched(self, client: Client) -> None:
        """Let watched keys whose time has come expire, which fails the transaction."""
        for db, key in list(client.watched):
            self.find(db, key)

    def run_queued(self, client: Client) -> None:
        """Run what was queued after MULTI, as one: same moment, nothing in between, effects together."""
        cdef Command command
        queue = client.queue
        client.queue = None
        client.executing = True
        try:
            client.reply.array(len(queue))
            for command, argv in queue:
                if client.guarded and not client.user.unlimited:
                    refusal = self.users.refuse_queued(client, command, argv)
                    if refusal is not None:
                        self.refuse(client, command, refusal)
                        continue
                self.run(client, command, argv)
        finally:
            client.executing = False
            client.discard_transaction()

    cdef int settle_effects(self) except -1:
        effects = self.effects
        self.effects = []
        if self.effect_sink is not None:    # CONFIG SET appendonly no, inside the transaction
            self.effect_sink(effects)
        return 0

    def forget_effects(self) -> None:
        """The effects so far of the transaction that runs need not be noted: a base that was just written has them."""
        self.effects = []

    # --- keys --------------------------------------------------------------------------------------------------

    cpdef object find(self, Database db, bytes key):
        """The value of a key that has not expired, or None; to look is an access."""
        cdef object value = self.peek(db, key)
        if value is not None and not self.leave_access:
            # A stream remembers it itself, which costs nothing that shows; in the database's list it cost an XADD 33 ns
            # of 342 and an XLEN 43 of 247 (in-process, 1000 keys).
            if type(value) is Stream:
                (<Stream>value).accessed_s = self.second
            else:
                db.note_access(key, self.second)
        return value

    cpdef object peek(self, Database db, bytes key):
        """The value of a key that has not expired, or None, as the commands see it that are no access to it."""
        cdef object value = db.look_up(key)
        if value is None:
            self.stats.misses += 1
            if self.event_classes & KEY_MISS and self.depth and self.minds_misses:
                self.announce(db, KEY_MISS, b"keymiss", key)
            return None
        if db.expires and key in db.expires and db.expires[key] < self.now_ms and not self.loading:
            if not self.paused_until:
                self.expire_now(db, key)
            self.stats.misses += 1
            if self.event_classes & KEY_MISS and self.depth and self.minds_misses:
                self.announce(db, KEY_MISS, b"keymiss", key)
            return None
        self.stats.hits += 1
        return value

    cpdef int expire_now(self, Database db, bytes key) except -1:
        """Remove a key whose time has come; the effect is its deletion."""
        db.take(key)
        self.stats.expired += 1
        self.announce(db, EXPIRED, b"expired", key)
        self.touch_key(db, key)
        self.signal_key(db, key)
        if self.effect_sink is not None:
            self.effects.append((db.number, [b"DEL", key]))
            if self.depth == 0:
                self.settle_effects()
        return 0

    cpdef int announce(self, Database db, int event_class, bytes event, bytes key) except -1:
        """Publish what happened to a key of a database, where the configuration asks for events of its class."""
        if self.event_classes & event_class:
            if self.event_classes & KEYSPACE:
                self.exchange.publish(b"__keyspace@%d__:%s" % (db.number, key), event)
            if self.event_classes & KEYEVENT:
                self.exchange.publish(b"__keyevent@%d__:%s" % (db.number, event), key)
        return 0

    cdef int announce_value(self, Database db, bytes key, object former, object value) except -1:
        """Publish that a key gets its first value, or another one."""
        if former is None:
            return self.announce(db, NEW, b"new", key)
        self.announce(db, OVERWRITTEN, b"overwritten", key)
        if kind_of(former) != kind_of(value):
            self.announce(db, TYPE_CHANGED, b"type_changed", key)
        return 0

    cdef bint reads(self, Command command):
        """Whether a key that a command does not find was one to read."""
        if command.flags & READ:
            return command.name not in NO_READERS
        return command.name in READERS

    cpdef int touch_key(self, Database db, bytes key) except -1:
        cdef Client client
        if db.watchers and key in db.watchers:
            for client in db.watchers[key]:
                client.watch_failed = True
        return 0

    cpdef int signal_key(self, Database db, bytes key) except -1:
        if db.waiting and key in db.waiting and (db, key) not in self.ready_set:
            self.ready_set[db, key] = None
            self.ready.append((db, key))
        return 0

    def tick(self) -> None:
        """Do the chores that are due some ten times a second: expire keys, and what was sent or staged long ago."""
        cdef Database db
        if self.busy is not None:
            return                      # nothing changes below a command that is not over
        self.read_clocks()
        self.second = self.now_ms // 1000
        self.stats.sample_rates(self.now_ms)
        # While data is loading, a key whose time has come may be one that is still to be changed.
        for db in self.databases if self.active_expiry and not self.loading else ():
            if not self.paused_until:
                for key in db.expired(self.now_ms, EXPIRED_AT_ONCE):
                    self.expire_now(db, key)
            for key in list(db.producing):
                value = db.values.get(key)
                if type(value) is Stream:
                    value.producers.expire(self.now_ms)
                if type(value) is not Stream or not len(value.producers):
                    db.producing.discard(key)
        if self.staging.batches:
            self.staging.expire(self.now_ms - 1000 * self.config["headrace-stage-ttl"])
        if self.ready:
            self.serve_waiting()
        self.flush_clients()

    # --- waiting clients ---------------------------------------------------------------------------------------

    cpdef int serve_waiting(self) except -1:
        """Let the clients that wait for a ready key run their command again, first come first served."""
        cdef Database db
        cdef bytes key
        cdef Client client
        while self.ready:
            ready = self.ready
            self.ready = []
            self.ready_set = {}
            for db, key in ready:
                queue = db.waiting.get(key)
                if queue is None:
                    continue
                self.read_clocks()
                for client in list(queue):
                    if client.wait is None:
                        continue
                    # Looked up for each: the one before may have taken the last element of a list, and who comes
                    # after it keeps its turn.
                    kind = kind_of(self.peek(db, key))
                    if client.wait.kind == kind or client.wait.without_key:
                        self.retry(client)
        return 0

    def retry(self, client: Client) -> None:
        """Run a blocked client's command again; it may block again, with the deadline it had."""
        cdef size_t written = client.reply.written()
        wait = client.wait
        client.retrying = True
        try:
            found = self.find_command(client, wait.argv)
            if found is not None:
                self.run(client, found, wait.argv)
        finally:
            client.retrying = False
        if client.wait is wait:
            self.mute(client, written)
            client.channel.flush()              # before anything else: it waits
            self.waiting.leave(client)
            client.channel.resume()
        if self.pushes:
            self.deliver_pushes()

    def disk_has_more(self) -> None:
        """Let those look again who wait for the disk."""
        cdef Client client
        for client in [client for client in self.waiting.clients if client.wait.kind == DISK]:
            self.retry(client)
        if self.depth == 0:             # else a command goes on, and its client's turn to be flushed comes later
            self.flush_clients()

    def disown_replies(self, error: int) -> None:
        """The disk refused effects that replies which have not left yet may tell of: let their clients know."""
        cdef Client client
        for client in self.unflushed:
            if client.reply.written():
                client.channel.disown(error)

    def ring(self) -> None:
        """Do what is due by now: the deadlines of waiting clients, keys to look at again, and the end of a pause."""
        if self.busy is not None:
            return                      # the end of that will ring
        self.read_clocks()
        if (self.paused_until or self.postponed) and self.now_ms >= self.paused_until:
            self.run_postponed()
        clients, keys = self.waiting.due(self.now_ms)
        for client in clients:
            # One that was served and waits again with the same deadline is due twice.
            if client.wait is not None and 0 < client.wait.deadline <= self.now_ms:
                self.release(client, None)
        for db, key in keys:
            self.signal_key(db, key)
        self.serve_waiting()
        self.flush_clients()

    def release(self, client: Client, error: bytes | None) -> None:
        """End a wait without serving it: with an error, or with nothing, as after a timeout."""
        cdef size_t written = client.reply.written()
        cdef bytes kind = client.wait.kind
        self.waiting.leave(client)
        if error is None and kind == REPLICAS:
            client.reply.integer(0)
        elif error is None and kind == DISK:
            client.reply.array(2)
            client.reply.integer(self.persistence.appends and self.persistence.synced >= client.awaited_position)
            client.reply.integer(0)
        elif kind == FAILED_LOGIN:
            client.reply.error(WRONG_PASSWORD)
            self.stats.count_error(WRONG_PASSWORD)
        elif error is None:
            client.reply.null_array()
        else:
            client.reply.error(error)
            self.stats.count_error(error)
        self.mute(client, written)
        self.note_unflushed(client)
        client.channel.resume()

    # --- messages and replies ----------------------------------------------------------------------------------

    cpdef int push(self, Client client, bytes message) except -1:
        """Send a client what answers no request; while a command runs, behind its reply."""
        if self.depth:
            self.pushes.append((client, message))
        elif client.id in self.clients:
            client.reply.raw(message)
            self.note_unflushed(client)
        return 0

    cdef int deliver_pushes(self) except -1:
        pushes = self.pushes
        self.pushes = []
        for client, message in pushes:
            self.push(<Client>client, <bytes>message)
        return 0

    cpdef int note_unflushed(self, Client client) except -1:
        """The client has, or may have, replies to send at the end of the batch."""
        if not client.dirty:
            client.dirty = True
            self.unflushed.append(client)
        return 0

    cpdef int flush_clients(self) except -1:
        """Let every client that has replies send them."""
        cdef Client client
        self.flush_due = False
        if self.unflushed:
            clients = self.unflushed
            self.unflushed = []
            for client in clients:
                client.dirty = False
                client.channel.flush()
        return 0


def print_failure(name: bytes, bug: Exception) -> None:
    """Say on standard error what went wrong in a command; a host may have a log instead."""
    traceback.print_exception(bug)


cdef int flags_of(Client client, Command command):
    """The flags of a command; of EXEC, also those of what it is to run: what was queued in good times counts now."""
    cdef int flags = command.flags
    cdef Command queued
    if command.name == b"exec" and client.queue is not None:
        for queued, _ in client.queue:
            flags |= queued.flags
    return flags


cdef bint runs_script(Client client, Command command):
    """Whether a command that may be lengthy is: EXEC is if it has to run another that is."""
    cdef Command queued
    if command.name != b"exec":
        return True
    for queued, _ in client.queue or ():
        if queued.flags & LENGTHY:
            return True
    return False


cdef bytes unknown_command(list argv):
    """Name the command and the beginning of its arguments, each at most 128 bytes as Redis shows them."""
    cdef list shown = []
    cdef Py_ssize_t room = 128
    for argument in argv[1:]:
        if room <= 0:
            break
        text = b"'%s' " % quoted(argument)[:room]
        shown.append(text)
        room -= len(text)
    return b"ERR unknown command '%s', with args beginning with: %s" % (quoted(argv[0])[:128], b"".join(shown))
