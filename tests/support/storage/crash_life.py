"""The life of a data directory: commands, rewrites, restarts, snapshots from elsewhere, and power cuts anywhere.

    history      what all keys looked like after each unit of effects: a command, a transaction, a key that expired
    promised     the unit up to which everything must be there after a power cut. Three things are promised: effects
                 that were synced; under `always`, effects for which replies may leave; and data that a process has
                 loaded, because its clients see it from then on.

Now and then a power cut is tried before an operation of the disk, in several ways. Each leaves a disk from which
another process must start. It must find the data as it was after one unit, between the promised one and the last: never
a mixture, never a part of a transaction. From some of these disks the life continues, so that there are crashes during
a start, and after it.

Rules of queues are set and kept meanwhile. After every unit, what became a dead letter is not pending, and what time
took from a pending list is a dead letter.

Everything is drawn from the seed, and time is a number: a seed lives the same life again.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

from headrace.commands.all import make_engine
from headrace.core.errors import HeadraceError
from headrace.core.offloading import PackedRun, pack_run, settle_run
from headrace.core.stream import Stream
from headrace.engine.blocking.waking import run_due
from headrace.engine.configuration.config import Config
from headrace.engine.effect_log import CallbackSubscriber
from headrace.formats.aof import AofReader, Ending
from headrace.storage import journal as journal_module
from headrace.storage import offloading as offloading_module
from headrace.storage import store as store_module
from headrace.storage.adoption import examine
from headrace.storage.assembly import assemble
from headrace.storage.child import InlineJob
from headrace.storage.directory import DataDirectory
from headrace.storage.segments.writing import RunToWrite
from headrace.storage.snapshot import write_snapshot
from support.in_process import InProcessClient
from support.storage.crash_workload import DATABASES, Command, CommandWriter
from support.storage.data_picture import Pictures, describe_difference, different_keys, take_pictures
from support.storage.moved_letters import DONE, count_done, find_fault, take_letters
from support.storage.operator_log import OperatorLog
from support.storage.simulated_disk import ProcessEnded, SimulatedDisk

ROOT: Final = Path("/simulated")
BEGINNING_MS: Final = 1_700_000_000_000
NEVER: Final = 2**63
ROOM: Final = 3000  # bytes of zeros before the data, so that there is soon need for more
SHORT_LIKELIHOOD: Final = 0.2  # of a write of which the system takes only a half at first
DEEPEST: Final = 3  # power cuts in a row, each before life went on for long


class Clock:
    """The time of all processes of a life."""

    def __init__(self) -> None:
        self.now_ms = BEGINNING_MS

    def seconds(self) -> float:
        return self.now_ms / 1000


@contextmanager
def time_of(clock: Clock) -> Iterator[None]:
    """Let storage live by this clock, and files name always the same process."""
    with ExitStack() as stack:
        for module in (journal_module, offloading_module, store_module):
            stack.enter_context(patch.object(module, "monotonic", clock.seconds))
        stack.enter_context(patch("os.getpid", lambda: 1234))
        yield


class Process:
    """An engine on a disk."""

    def __init__(self, disk: SimulatedDisk, clock: Clock, settings: dict[str, str]) -> None:
        config = Config()
        for name, value in {"dir": "/", "save": "", **settings}.items():
            config.load(name, [value])
        self.disk = disk
        self.log = OperatorLog()
        self.engine, self.journal, self.store = assemble(
            config, self.log, directory=DataDirectory(disk, ROOT), background=False, spawn=InlineJob
        )
        self.engine.clocks.unix_source = self.engine.clocks.steady_source = lambda: clock.now_ms
        self.engine.hooks.failure = _raise
        self.engine.rules.turn_ns = 1 << 40  # a turn ends where its work does, not when the machine is slow
        self.journal.immediate = False  # the worker works when the life lets it
        self.journal.room = ROOM
        self.commit_due = False
        self.follower: CallbackSubscriber | None = None
        self.journal.schedule = self._schedule
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []  # that a thread would do meanwhile

    def defer_jobs(self) -> None:
        """Let a thread do what is done beside the event loop not before it is told to."""
        self.store.rewriting.beside = lambda job, done: self.jobs.append((job, done))

    def _schedule(self, _commit: object, _in_a_turn: bool) -> None:
        self.commit_due = True

    def start(self) -> None:
        self.store.directory.lock()
        for _ in self.store.open():
            pass

    def commit(self) -> None:
        if self.commit_due:
            self.commit_due = False
            self.journal.commit()

    def run(self, client: InProcessClient, *words: str | int) -> bytes:
        """Run a command, and have its effects on disk."""
        reply = client.run(*words)
        self.commit()
        while self.journal.busy:
            self.let_worker_work()
        return reply

    def let_thread_work(self) -> None:
        """Let a thread do its next job, and then what follows it."""
        if self.jobs:
            job, done = self.jobs.pop(0)
            done(job())

    def let_worker_work(self) -> None:
        """Let the journal's worker write and sync what it was given, and take what came of it."""
        self.journal.completed()
        self.commit()


def _raise(_name: bytes, bug: Exception) -> None:
    raise bug


class LostData(AssertionError):
    """A disk after a power cut that does not hold what it should."""


class Life:
    """See the module."""

    def __init__(
        self,
        seed: str,
        *,
        disk: SimulatedDisk | None = None,
        clock: Clock | None = None,
        history: list[Pictures] | None = None,
        promised: int = 0,
        tally: Counter[str] | None = None,
        depth: int = 0,
        cut_likelihood: float = 0.12,
        ways: int = 2,
    ) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.disk = disk or SimulatedDisk(ROOT)
        self.clock = clock or Clock()
        self.history: list[Pictures] = history or [{}]
        self.positions = [0] * len(self.history)  # of the journal, after each unit; NEVER where it has not seen it
        self.promised = promised
        self.tally = Counter[str]() if tally is None else tally
        self.depth = depth
        self.cut_likelihood = cut_likelihood
        self.ways = ways
        self.writer = CommandWriter(self.random, of_a_queue=self.random.random() < 0.4)
        self.commands: list[str] = []
        self.settings = {
            "appendfsync": self.random.choice(("always", "always", "everysec", "no")),
            "auto-aof-rewrite-min-size": self.random.choice(("64mb", "4kb")),
            "stream-node-max-entries": self.random.choice(("100", "4", "1", "1")),
            "rdb-compatibility-version": self.random.choice(("auto", "7.0")),
        }
        self.offloads = self.settings["stream-node-max-entries"] == "1"
        self.kill_likelihood = 0.0
        self.starting = False
        self.by_time = False  # what happens now, nobody has asked for
        self.process: Process

    # --- one life --------------------------------------------------------------------------------------------------

    def live(self, steps: int) -> None:
        """Start a process, let it do so many steps, ending and starting again in between, and end in a power cut."""
        try:
            self._live(steps)
        except Exception as error:
            error.add_note(
                f"in the life {self.seed!r}, where the last operations were\n"
                + "\n".join(f"  {operation}" for operation in self.disk.operations[-20:])
                + "\nand the last commands\n"
                + "\n".join(f"  {command}" for command in self.commands[-10:])
            )
            raise

    def _live(self, steps: int) -> None:
        self._start()
        for _ in range(steps):
            try:
                self._step()
            except ProcessEnded:
                self.tally["killed processes"] += 1
                # What the system has survives the process, but not yet the machine.
                self._start(self.disk.restarted(), least=self._reached(self.process.journal.safe))
        if steps:
            self._cut_power()

    def _start(self, disk: SimulatedDisk | None = None, least: int = 0) -> None:
        """Start a process on a disk, however often it is killed meanwhile; it must find at least that unit."""
        self.disk = disk or self.disk
        while True:
            self.kill_likelihood = self.random.choice((0.0, 0.0, 0.0, 0.1))
            try:
                self.process = self._new_process(self.disk)
                break
            except ProcessEnded:
                self.tally["killed while starting"] += 1
                self.disk = self.disk.restarted()
        self.kill_likelihood = self.random.choice((0.0, 0.01, 0.03))
        found = take_pictures(self.process.engine, self.history[-1])
        unit = self._find(found, max(least, self.promised))
        self.history[unit + 1 :] = []
        self.positions = [0] * (unit + 1)
        self.promised = unit
        # The first gives orders to the server; it never waits.
        self.clients = [InProcessClient(self.process.engine) for _ in range(4)]
        self.letters = take_letters(self.process.engine)
        self.done = count_done(self.process.engine)
        self._follow_effects()

    def _new_process(self, disk: SimulatedDisk) -> Process:
        process = Process(disk, self.clock, self.settings)
        process.defer_jobs()
        disk.before_change = self._before_change
        self.starting = True
        self.tally["starts"] += 1
        try:
            process.start()
        except HeadraceError as error:
            raise LostData(f"A process cannot start: {error}") from error
        finally:
            self.starting = False
        self.tally["starts with segments"] += len(process.store.segments) > 0
        left = [name for path in (ROOT, ROOT / "appendonlydir") for name in disk.list(path) if name.startswith("temp-")]
        if left:
            raise LostData(f"Files that nobody reads are left: {left}")
        refused = [sentence for sentence in process.log.warnings if "was refused" in sentence]
        if refused:
            raise LostData(f"What was written cannot be repeated: {refused[0]}")
        self.tally["starts that cut the end of a file"] += any("was cut off" in each for each in process.log.warnings)
        return process

    # --- history ---------------------------------------------------------------------------------------------------

    def _follow_effects(self) -> None:
        """Note each unit of effects on its way to the journal."""
        process, effects = self.process, self.process.engine.effects
        if process.follower is not None:
            effects.unsubscribe(process.follower)
        if process.store.appends:
            # Behind the journal, which has the unit by then.
            process.follower = CallbackSubscriber(lambda _: self._note_unit(process.journal.position))
            effects.subscribe(process.follower)

    def _note_unit(self, position: int) -> None:
        self.history.append(take_pictures(self.process.engine, self.history[-1]))
        self.positions.append(position)
        self._check_letters()

    def _check_letters(self) -> None:
        engine = self.process.engine
        former, self.letters = self.letters, take_letters(engine)
        fault = find_fault(engine, former, self.letters, by_time=self.by_time)
        if fault is not None and not self.commands[-1].startswith("EXEC"):  # a transaction may deliver it again
            raise LostData(fault)

    def _count_done(self) -> None:
        former, self.done = self.done, count_done(self.process.engine)
        for name in DONE:
            self.tally[f"rules: {name}"] += max(self.done[name] - former[name], 0)

    def _reached(self, position: int) -> int:
        """The last unit that the journal had at a position."""
        unit = self.promised
        while unit + 1 < len(self.positions) and self.positions[unit + 1] <= position:
            unit += 1
        return unit

    def _note_promises(self) -> None:
        """Note what has been promised by now; nothing ever takes a promise back."""
        journal = self.process.journal
        self.promised = max(self.promised, self._reached(journal.synced))
        if self.settings["appendfsync"] == "always":
            self.promised = max(self.promised, self._reached(journal.safe))

    def _find(self, found: Pictures, least: int) -> int:
        """The unit after which everything was as it is found; the last such that is possible."""
        possible = range(len(self.history) - 1, least - 1, -1)
        for unit in possible:
            if self.history[unit] == found:
                self.tally["starts that found less than there was"] += unit < len(self.history) - 1
                return unit
        earlier = [unit for unit in range(least) if self.history[unit] == found]
        nearest = min(possible, key=lambda unit: len(different_keys(found, self.history[unit])))
        raise LostData(
            (f"The data is as after unit {earlier[-1]}" if earlier else "The data was never like this")
            + f", and it can be as after {least} to {len(self.history) - 1}; unlike after unit {nearest}:\n"
            + describe_difference(found, self.history[nearest])
        )

    # --- steps -----------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        self.clock.now_ms += self.random.choice((0, 1, 20, 200))
        if self.offloads and self.random.random() < 0.3:
            self._offload()
        roll = self.random.random()
        if roll < 0.75:
            for _ in range(self.random.choice((1, 1, 2, 4))):
                self._run_something()
        elif roll < 0.85:
            self._tick()
        elif roll < 0.89:
            self._run([b"BGREWRITEAOF"])
        elif roll < 0.92:
            self._run([self.random.choice((b"BGSAVE", b"SAVE"))])
        elif roll < 0.94:
            self._change_policy()
        elif roll < 0.955:
            self._switch_journal()
        elif roll < 0.97:
            self._restart()
        elif roll < 0.985:
            self._adopt_snapshot()
        self.process.commit()
        while self.process.journal.busy and self.random.random() < 0.7:
            self.process.let_worker_work()
        while self.process.jobs and self.random.random() < 0.5:
            self.process.let_thread_work()
        self.tally["steps while an increment is opened"] += bool(self.process.jobs) and self._opens()
        self.tally["steps while the increment changes"] += self.process.journal.changes_file
        self.tally["steps while a base is adopted"] += bool(self.process.jobs) and not self._opens()
        self.tally["steps while the disk is busy"] += self.process.journal.busy
        self._note_promises()
        self._count_done()
        found = take_pictures(self.process.engine, self.history[-1])
        if found != self.history[-1]:
            raise LostData("Something changed without an effect:\n" + describe_difference(found, self.history[-1]))

    def _run_something(self) -> None:
        free = [client for client in self.clients[1:] if not client.waits]
        if not free:
            return
        client = self.random.choice(free)
        if self.random.random() < 0.1:
            self._run([b"SELECT", b"%d" % self.random.randrange(DATABASES)], client)
        if self.random.random() > 0.12:
            self._run(self.writer.write(self.process.engine, client.client.db.number), client)
            return
        database = client.client.db.number
        queued: list[Command] = []
        for _ in range(self.random.randint(1, 5)):
            if self.random.random() < 0.3:
                database = self.random.randrange(DATABASES)
                queued.append([b"SELECT", b"%d" % database])
            queued.append(self.writer.write(self.process.engine, database, queued))
        for command in ([b"MULTI"], *queued, [b"EXEC"]):
            self._run(command, client)

    def _run(self, command: Command, client: InProcessClient | None = None) -> bytes:
        self.commands.append(b" ".join(word[:30] for word in command).decode("ascii", "backslashreplace"))
        reply = (client or self.clients[0]).run(*command)
        self.tally[command[0].decode() + (" refused" if reply.startswith(b"-") else "")] += 1
        if not self.process.store.appends:
            self._note_unit(NEVER)
        return reply

    def _tick(self) -> None:
        self.clock.now_ms += self.random.choice((0, 100, 1100))
        self.by_time = True
        self.process.engine.tick()
        run_due(self.process.engine)
        self.by_time = False
        if not self.process.store.appends:
            self._note_unit(NEVER)
        self.process.store.tick()

    def _offload(self) -> None:
        """Move some nodes of some streams to a segment, as a server does whose memory is short."""
        engine, segments = self.process.engine, self.process.store.segments
        streams = [
            (db.number, key, value)
            for db in engine.databases
            for key, value in db.values.items()
            if isinstance(value, Stream) and value.node_count > 1
        ]
        moves: list[tuple[Stream, PackedRun]] = []
        runs: list[RunToWrite] = []
        for database, key, stream in self.random.sample(streams, self.random.randint(0, len(streams))):
            packed = pack_run(stream, self.random.choice((1, 300, 2000)))
            if packed is not None:
                moves.append((stream, packed))
                runs.append(RunToWrite(database, key, packed.records, packed.data))
        if not runs:
            return
        try:
            written = segments.write(runs)
        except OSError:
            return  # the nodes stay where they are
        for (stream, packed), run in zip(moves, written, strict=True):
            self.tally["nodes moved to segments"] += settle_run(stream, run, packed.data)
        segments.settle(written)

    def _change_policy(self) -> None:
        policy = self.random.choice(("always", "everysec", "no"))
        self._run([b"CONFIG", b"SET", b"appendfsync", policy.encode()])
        self.settings["appendfsync"] = policy

    def _switch_journal(self) -> None:
        """Write effects no more, or again."""
        process = self.process
        wanted = b"no" if process.store.appends else b"yes"
        process.commit()
        self._run([b"CONFIG", b"SET", b"appendonly", wanted])
        self._follow_effects()
        if wanted == b"yes":
            self.promised = len(self.history) - 1
            self.positions[:] = [0] * (self.promised + 1)

    def _adopt_snapshot(self) -> None:
        """Let the data of another server replace all that there is."""
        store = self.process.store
        if not store.appends:
            return
        other = make_engine(self.process.engine.config)
        other.clocks.unix_source = other.clocks.steady_source = lambda: self.clock.now_ms
        client = InProcessClient(other)
        for _ in range(self.random.randint(0, 8)):
            client.run(*self.writer.write(other, 0))
        path = store.incoming()
        self.tally["snapshots from elsewhere"] += 1
        write_snapshot(other, self.disk, path)
        examine(self.disk, path, len(other.databases))
        self.history.append(take_pictures(other))
        self.positions.append(NEVER)
        for _ in store.adopt(path, b"%040x" % self.random.getrandbits(160), self.random.randrange(1_000_000)):
            pass
        self.promised = len(self.history) - 1
        self.positions[:] = [0] * (self.promised + 1)
        self.letters = take_letters(self.process.engine)

    def _restart(self) -> None:
        """Close the process in order, or cut its power, and start another."""
        if self.random.random() < 0.4:
            self._note_promises()
            self.settings["appendfsync"] = self.random.choice(("always", "everysec", "no"))
            self._start(self.disk.power_cut(self.random))
            return
        appends = self.process.store.appends
        self.process.store.close()
        if appends:
            self.promised = len(self.history) - 1
        self._start(self.disk.restarted())

    # --- power cuts ------------------------------------------------------------------------------------------------

    def _before_change(self) -> None:
        if not self.starting:
            self._note_promises()
        # Between a rename and the sync of its directory, most depends on what the next process does.
        renamed = self.disk.operations[-1:] and self.disk.operations[-1].startswith("rename")
        if self.random.random() < self.kill_likelihood * (8 if renamed else 1):
            self.disk.end_process()
            raise ProcessEnded
        changes = not self.starting and self.process.journal.changes_file  # for a moment, and rarely
        if self.random.random() < self.cut_likelihood * (4 if changes else 1):
            self._cut_power()
        if self.disk.attempted.startswith("write") and self.random.random() < SHORT_LIKELIHOOD:
            self.tally["writes in two halves"] += 1
            self.disk.take_half_of_next_write()

    def _cut_power(self) -> None:
        """Try several ways in which the disk may be found if the power fails now."""
        for way in range(self.ways):
            seed = f"{self.seed} / operation {len(self.disk.operations)} way {way}"
            self.tally["states"] += 1
            self.tally["states while starting"] += self.starting
            self.tally["states while rewriting"] += self._rewrites()
            if not self.starting:
                self.tally["states while an increment is opened"] += (
                    self.process.store.rewriting.goes_on and self._opens()
                )
                self.tally["states while the increment changes"] += self.process.journal.changes_file
            self.tally["states with segments"] += len(self.process.store.segments) > 0 if not self.starting else 0
            self._start_after_power_cut(seed)

    def _note_endings(self, disk: SimulatedDisk) -> None:
        """Note how the increments end that a power cut has left."""
        directory = ROOT / "appendonlydir"
        for name in disk.list(directory) if disk.exists(directory) else ():
            if not name.endswith(".incr.aof"):
                continue
            reader = AofReader(disk.read(directory / name))
            while reader.next() is not None:
                pass
            in_group = reader.group_end > reader.position
            self.tally["increments that end with prepared space"] += reader.unused > 0
            self.tally["increments without the end of a group"] += reader.ending is Ending.TRUNCATED and in_group
            self.tally["increments without the beginning of a group"] += reader.ending is Ending.CORRUPT
            self.tally["increments without the middle of a group"] += reader.ending is Ending.BROKEN

    def _opens(self) -> bool:
        """Whether a rewrite that goes on has no base yet, and what was before it is not history."""
        manifest = ROOT / "appendonlydir" / "appendonly.aof.manifest"
        return not self._rewrites() and self.disk.exists(manifest) and b" type h" not in bytes(self.disk.read(manifest))

    def _rewrites(self) -> bool:
        directory = ROOT / "appendonlydir"
        return self.disk.exists(directory) and any("rewriteaof" in name for name in self.disk.list(directory))

    def _start_after_power_cut(self, seed: str) -> None:
        disk = self.disk.power_cut(Random(seed))
        self._note_endings(disk)
        other = Life(
            seed,
            disk=disk,
            clock=self.clock,
            history=list(self.history),
            promised=self.promised,
            tally=self.tally,
            depth=self.depth + 1,
            cut_likelihood=0.1 if self.depth + 1 < DEEPEST else 0,
            ways=1,
        )
        began_ms = self.clock.now_ms
        goes_on = self.depth + 1 < DEEPEST and other.random.random() < 0.1
        other.live(other.random.randint(1, 8) if goes_on else 0)
        self.clock.now_ms = began_ms
