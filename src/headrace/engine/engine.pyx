# cython: nonecheck=True
"""The engine: runs commands on databases for clients, one at a time.

    execute ── find the command, refuse or queue it, or run it
       run ── handler(Call) ─► reply, changes, effects, keys that became ready
       then ── effects go to the sink, in order; waiting clients are served; replies are flushed by the host

A command sees one moment, that of `clocks`.

The effects of a command are what must be repeated to get the same data: the command itself where it is deterministic,
else what its handler emitted instead. They are handed over once, after the command, wrapped in MULTI … EXEC where
there are several.

One thread owns an engine. A handler that raises CommandError has changed nothing.
"""

cimport cython
from cpython.list cimport PyList_GET_SIZE

from headrace.core.clock cimport monotonic_ns
from headrace.engine.call cimport Call
from headrace.engine.client cimport REPLY_ON, REPLY_SKIP, REPLY_SKIP_NEXT, Wait
from headrace.engine.clocks cimport Clocks, begin_next
from headrace.engine.command cimport (
    FAST, IN_MULTI, LENGTHY, NO_MULTI, READ, READS_HISTORY, SKIP_SLOWLOG, WRITE, count_call,
)
from headrace.engine.keyspace cimport begin_command
from headrace.engine.refusals cimport find_command, find_effect, refuse
from headrace.engine.blocking.waking cimport run_due, serve_waiting

from secrets import token_hex

from headrace.core.cold import ColdMiss
from headrace.core.errors import ColdReadError
from headrace.engine.channel import CLOSED
from headrace.engine.chores import Chores
from headrace.engine.errors import INTERNAL_ERROR, OUT_OF_MEMORY, CommandError
from headrace.engine.freeing import Freeing
from headrace.engine.history import History
from headrace.engine.hooks import Hooks
from headrace.engine.latency import LatencyMonitor
from headrace.engine.persistence import Persistence
from headrace.engine.replication import Replication
from headrace.engine.pubsub.exchange import Exchange
from headrace.engine.side_keys import SideKeys
from headrace.engine.staging import Staging
from headrace.engine.due_keys import Tickets
from headrace.engine.blocking.waiting import WaitingRoom


cdef uint64_t NEVER = <uint64_t>-1      # as a duration: longer than any command takes


@cython.final
cdef class Engine:
    """See the module."""

    def __init__(self, config, table: dict):
        self.config = config
        self.clocks = Clocks()
        self.commands = CommandNames(table)
        self.chores = Chores()
        self.node_limits = NodeLimits(config["stream-node-max-bytes"], config["stream-node-max-entries"])
        self.clients = {}
        self.stats = Stats()
        self.side_keys = SideKeys()
        self.tickets = Tickets()
        self.keyspace = Keyspace(self)
        self.databases = self.keyspace.databases
        self.rules = RuleBook(self)
        self.actor = Client(0, self.databases[0], None, 0)
        self.actor.authenticated = True
        self.run_id = token_hex(20)
        self.waiting = WaitingRoom(self.chores)
        self.latency = LatencyMonitor()
        self.persistence = Persistence()
        self.replication = Replication(self)
        self.refusals = StandingRefusals()
        self.hooks = Hooks()
        self.effects = EffectLog()
        self.outbox = Outbox(self.clients)
        self.exchange = Exchange(self.push)
        self.observers = Observers(self)
        self.staging = Staging(self.chores, self.clocks, config)
        self.freeing = Freeing(config)
        self.history = History(self)
        self.pauses = Pauses(self)
        self.chores.set_lead(self.clocks.lead_ms, self.clocks.steady_now_ms)
        self.keyspace.second = self.clocks.steady_now_ms // 1000
        config.watch("rdb-compatibility-version", self.effects.speak_to)
        self.effects.speak_to(config["rdb-compatibility-version"])
        config.watch("stream-node-max-bytes", self.limits_changed)
        config.watch("stream-node-max-entries", self.limits_changed)
        for name in (
            "slowlog-log-slower-than",
            "slowlog-max-len",
            "slowlog-entry-max-argc",
            "slowlog-entry-max-string-len",
            "latency-monitor-threshold",
        ):
            config.watch(name, self.thresholds_changed)
        self.thresholds_changed(None)

    def equip(self, users, script_host, scripts, functions) -> None:
        """Give the engine those of its parts that are about commands, and so above it; see commands.all.make_engine."""
        self.users = users
        self.script_host = script_host
        self.scripts = scripts
        self.functions = functions
        self.config.user_lines = users.directives
        self.config.watch("requirepass", users.password_changed)

    def limits_changed(self, value) -> None:
        """Take over new limits of a node; appends see them at once."""
        self.node_limits.max_bytes = self.config["stream-node-max-bytes"]
        self.node_limits.max_entries = self.config["stream-node-max-entries"]

    def thresholds_changed(self, value) -> None:
        """Take over from where on a command is slow, or a spike of latency."""
        slower_us = self.config["slowlog-log-slower-than"]
        self.stats.slow_most = self.config["slowlog-max-len"]
        self.stats.slow_arguments = self.config["slowlog-entry-max-argc"]
        self.stats.slow_text = self.config["slowlog-entry-max-string-len"]
        self.stats.slow_ns = NEVER if slower_us < 0 or self.stats.slow_most == 0 else min(slower_us * 1000, NEVER)
        self.latency.threshold_ms = self.config["latency-monitor-threshold"]
        self.stats.spike_ns = min(self.latency.threshold_ms * 1000000, NEVER) or NEVER

    # --- loading -----------------------------------------------------------------------------------------------

    def begin_loading(self) -> None:
        """Refuse clients until the data is there."""
        self.loading = True

    def end_loading(self) -> None:
        """Let everybody work again; what was loaded is no change."""
        self.keyspace.close_places()
        self.loading = False
        self.dirty = 0
        self.clocks.read()
        if not self.is_replica:
            self.rules.wake()

    def free_data(self) -> None:
        """Let go of all that is held, because nobody will ask for it any more.

        An engine and what is made for it know each other: without this, its data would stay until a garbage collection
        of everything, which a program may not have for hours.
        """
        self.keyspace.clear()
        self.scripts.flush()
        self.functions.flush()

    # --- clients -----------------------------------------------------------------------------------------------

    def connect(self, channel) -> Client:
        """Welcome a client; the channel is the host's side of it."""
        self.next_client_id += 1
        client = Client(self.next_client_id, self.databases[0], channel, self.clocks.steady_ms())
        self.users.welcome(client)
        self.clients[client.id] = client
        self.stats.connections += 1
        return client

    def disconnect(self, client: Client) -> None:
        """Forget a client and all it waited for and watched."""
        self.waiting.leave(client)
        self.pauses.held.pop(client, None)
        client.postponed = None
        client.discard_transaction()
        self.exchange.leave(client)
        if self.observers.present:
            self.observers.remove(client)
        self.clients.pop(client.id, None)
        client.channel = CLOSED         # which knows the client: the two must not keep each other

    # --- replication -------------------------------------------------------------------------------------------

    def begin_following(self) -> None:
        """Let the data be a master's: what is done to it here is no effect, and nothing expires by itself."""
        self.effects.begin_following()
        self.is_replica = True
        self.rules.sleep()

    def end_following(self) -> None:
        """Let what is done to the data be effects again, and expire what is due."""
        self.is_replica = False
        self.effects.end_following()
        self.keyspace.plan_expiry()
        self.rules.wake()
        for resume in self.hooks.promotion:
            resume()

    # --- running -----------------------------------------------------------------------------------------------

    cpdef int execute(self, Client client, list argv) except -1:
        """Run one request of a client that is not blocked, and serve the clients that waited for what it did."""
        self.clocks.read()
        return self.execute_next(client, argv)

    cdef int execute_next(self, Client client, list argv) except -1:
        """The same for a request that follows another, or `Clocks.read`, at once."""
        if client.reply_mode != REPLY_ON:
            self.execute_muted(client, argv)
        else:
            self.dispatch(client, argv)
        if self.observers.present:
            self.observers.tracker.end_command(client)
        if self.outbox.behind:
            self.send_messages()
        if self.keyspace.ready and self.busy is None:
            serve_waiting(self)
        return self.outbox.note(client)      # behind the clients that waited for what it did

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
        cdef Command command = find_command(self, client, argv)
        if command is None:
            return 0
        begin_next(self.clocks)
        client.active_ms = self.clocks.steady_now_ms
        if self.pauses.first_end_ms and self.pauses.holds(client, command, argv):
            return self.pauses.hold(client, argv)
        if client.queue is not None and not command.flags & IN_MULTI:
            if command.flags & NO_MULTI:
                client.queue_failed = True
                return refuse(self, client, command, b"ERR Command not allowed inside a transaction")
            if not client.queue_failed and not client.watch_failed:     # else nobody will run it
                client.keep_for_exec(command, argv)
            client.reply.simple(b"QUEUED")
            return 0
        if command.flags & LENGTHY and self.hooks.long_runs is not None and runs_script(client, command):
            self.hooks.long_runs.begin(client, command, argv)
            return 0
        return self.run(client, command, argv)

    cdef int apply(self, Client client, list argv) except -1:
        """Run or queue an effect that is repeated."""
        cdef Command command = find_effect(self, client, argv)
        if command is None:
            return 0
        if client.queue is None or command.flags & IN_MULTI:
            return self.run(client, command, argv)
        if command.flags & NO_MULTI:
            return refuse(self, client, command, b"ERR Command not allowed inside a transaction")
        client.keep_for_exec(command, argv)
        return 0

    def run_found(self, client: Client, command: Command, argv: list) -> None:
        """Run a command that was found fit to run: inside another, which has its effects, too, or as a long run."""
        self.run(client, command, argv)

    def begin_pause(self, run, client: Client, argv: list) -> None:
        """Refuse other clients, because a command is not over; what is there of its reply stays."""
        self.busy = run
        client.postponed = argv
        self.outbox.leave_out(client)

    def end_pause(self, client: Client, written: int) -> None:
        """Do what follows a command that had paused: other clients may work again."""
        self.busy = None
        client.postponed = None
        client.dirty = False
        self.outbox.note(client)
        self.mute(client, written)
        if self.outbox.behind:
            self.send_messages()
        client.channel.resume()
        run_due(self)

    cdef int run(self, Client client, Command command, list argv) except -1:
        """Run a command: its handler, its effects, its statistics."""
        cdef Call call = Call.__new__(Call)
        cdef uint64_t began = self.clocks.last_ns
        cdef uint64_t took
        cdef uint64_t errors = client.reply.errors
        cdef size_t written = client.reply.written()
        cdef int64_t dirty = self.dirty
        cdef Wait wait = client.wait
        cdef bint put_off = False
        call.engine = self
        call.client = client
        call.command = command
        call.db = client.db
        call.reply = client.reply
        call.argv = argv
        call.argc = PyList_GET_SIZE(argv)
        call.now_ms = self.clocks.now_ms
        begin_command(self.keyspace, client, command)
        if self.observers.present:
            self.observers.begin_command(client, command, argv)
        self.depth += 1
        try:
            command.handler(call)
        except CommandError as refusal:
            client.reply.rewind(written)
            client.reply.error(refusal.text)
            self.stats.count_error(refusal.text)
        except ColdMiss as miss:
            # It has changed nothing yet, and runs again from its beginning.
            client.reply.rewind(written)
            if self.depth > 1:
                raise                           # the script that it is part of does, too
            self.history.postpone(client, argv, miss)
            put_off = True
        except ColdReadError as refusal:
            text = b"IOERR " + str(refusal).encode()
            client.reply.rewind(written)
            client.reply.error(text)
            self.stats.count_error(text)
        except MemoryError:
            client.reply.rewind(written)
            client.reply.error(OUT_OF_MEMORY)
            self.stats.count_error(OUT_OF_MEMORY)
        except Exception as bug:
            # Ours, not the client's: it is told, the host is told where, and everybody else goes on.
            client.reply.rewind(written)
            client.reply.error(INTERNAL_ERROR)
            self.stats.count_error(INTERNAL_ERROR)
            self.hooks.failure(command.name, bug)
        finally:
            self.depth -= 1
        if put_off:
            if self.depth == 0 and self.effects.pending:        # of a group that the rules have made
                self.effects.settle()
            return 0
        if self.observers.present:
            self.observers.end_command(client, command, argv)
        # Fewer changes than before: a snapshot was written, or loaded, which is no effect.
        if self.dirty > dirty and not call.explicit_effects and self.effects.wanted:
            self.effects.add(call.db.number, argv)
        if self.depth == 0 and self.effects.pending is not None:
            self.effects.settle()
        if command.flags & (READ | WRITE | LENGTHY):
            client.told = self.effects.offset
            client.write_offset = self.effects.offset
        if client.wait is not wait or self.applying:
            if client.wait is not None:         # it is counted when its wait is over
                client.blocked_ns = monotonic_ns() - began + (client.blocked_ns if wait is not None else 0)
            return 0
        self.clocks.last_ns = monotonic_ns()
        took = self.clocks.last_ns - began
        count_call(command, took if wait is None else took + client.blocked_ns)
        if client.reply.errors != errors:
            command.failed += 1
        self.stats.commands += 1
        client.commands_run += 1
        if took >= self.stats.slow_ns and not command.flags & SKIP_SLOWLOG:
            self.stats.log_slow(client, argv, took, self.clocks.now_ms)
        if took >= self.stats.spike_ns:
            kind = b"fast-command" if command.flags & FAST else b"command"
            self.latency.add(kind, took // 1000000, self.clocks.now_ms // 1000)
        return 0

    def rehearse_queued(self, client: Client) -> None:
        """Have entries in memory that what was queued after MULTI needs; raises ColdMiss where some are to be read."""
        cdef size_t written = client.reply.written()
        cdef Command command
        cdef Call call
        for command, argv in client.queue:
            if not command.flags & READS_HISTORY:
                continue
            call = Call.__new__(Call)
            call.engine = self
            call.client = client
            call.command = command
            call.db = client.db
            call.reply = client.reply
            call.argv = argv
            call.argc = len(argv)
            call.now_ms = self.clocks.now_ms
            call.rehearses = True
            try:
                command.handler(call)
            except (CommandError, ColdReadError):
                pass                            # it says so when it runs
            finally:
                client.reply.rewind(written)

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
                        refuse(self, client, command, refusal)
                        continue
                self.run(client, command, argv)
        finally:
            client.executing = False
            client.discard_transaction()

    cpdef int record(self, Database db, list argv) except -1:
        """Note an effect that no command asked for: of time, or of a rule."""
        if self.effects.wanted:
            self.effects.add(db.number, argv)
            if self.depth == 0:
                self.effects.settle()
        return 0

    cpdef int act(self, Database db, object handler, object target) except -1:
        """Do what a rule asks for when nobody does: `handler` takes a Call of nobody, and the target.

        Its effects are one unit. A bug there is the host's to log, and all others continue.
        """
        cdef Call call = Call.__new__(Call)
        self.actor.db = db
        call.engine = self
        call.client = self.actor
        call.db = db
        call.reply = self.actor.reply
        call.argv = []
        call.now_ms = self.clocks.now_ms
        self.keyspace.leave_access = True
        self.keyspace.writing = True
        self.keyspace.minds_misses = False
        self.depth += 1
        try:
            handler(call, target)
        except Exception as bug:
            self.hooks.failure(b"rules", bug)
        finally:
            self.depth -= 1
        self.actor.reply.rewind(0)
        if self.depth == 0 and self.effects.pending:
            self.effects.settle()
        if self.outbox.behind:
            self.send_messages()
        return 0

    # --- time --------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Look at the clocks some ten times a second, and do what is due."""
        if self.busy is not None:
            return                      # nothing changes below a command that is not over
        self.clocks.read()
        self.keyspace.second = self.clocks.steady_now_ms // 1000
        self.stats.sample_rates(self.clocks.steady_now_ms)
        self.look_for_clock_step()
        if self.observers.present:
            self.observers.tracker.limit(self.config["tracking-table-max-keys"])
        run_due(self)

    cdef int look_for_clock_step(self) except -1:
        """When Unix time was set, let clients look again that wait for entries to be idle: idle times are Unix time."""
        if self.clocks.was_set():
            for db, key in self.waiting.take_reminders():
                self.keyspace.signal(db, key)
        if self.rules.kept:
            self.rules.follow_clock()
        self.chores.set_lead(self.clocks.lead_ms, self.clocks.steady_now_ms)
        return 0

    # --- messages and replies ----------------------------------------------------------------------------------

    cpdef int push(self, Client client, bytes message) except -1:
        """Send a client what answers no request; while a command runs, behind its reply."""
        if self.depth:
            self.outbox.behind.append((client, message))
            return 0
        return self.outbox.send(client, message)

    cdef int send_messages(self) except -1:
        """Send the messages that waited for the end of a command, unless that is part of another."""
        return self.outbox.send_behind() if self.depth == 0 else 0

    cpdef int flush_clients(self) except -1:
        """Let every client that has replies send them, and clients that track keys hear of changes."""
        if self.observers.present and self.depth == 0:
            self.observers.tracker.broadcast()
        return self.outbox.flush()


cdef bint runs_script(Client client, Command command):
    """Whether a command that may be lengthy is: EXEC is if it has to run another that is."""
    cdef Command queued
    if command.name != b"exec":
        return True
    for queued, _ in client.queue or ():
        if queued.flags & LENGTHY:
            return True
    return False
