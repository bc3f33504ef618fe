"""A machine of a simulation: a disk, and the process of a server on it, as `headrace.server` puts one together.

Everything is the server's own but what has threads, sockets and clocks: the event loop, the transports, the disk, the
children (whose work is done at once), and the journal's worker, which works a moment after it was given something.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from headrace.engine import effect_log
from headrace.engine.blocking.waking import run_due
from headrace.engine.configuration.config import Config
from headrace.replication import confirmation as confirmation_module
from headrace.replication import followers, incoming_snapshot, link, master_connection, node, outgoing_snapshots
from headrace.replication.backlog import Backlog
from headrace.replication.confirmation import Confirmation
from headrace.replication.followers import Followers
from headrace.replication.link import Link
from headrace.replication.node import ReplicationNode
from headrace.server.connections import Connections
from headrace.storage import journal, loading, store
from headrace.storage.assembly import assemble
from headrace.storage.child import InlineJob
from headrace.storage.directory import DataDirectory
from support.in_process import InProcessClient
from support.replication.simulated_loop import ProcessLoop, Timeline
from support.replication.simulated_network import Network
from support.storage.simulated_disk import ProcessEnded, SimulatedDisk

ROOT: Final = Path("/simulated")
PORT: Final = 6379
TICK_S: Final = 0.1
_SETTINGS: Final = {
    "dir": "/",
    "save": "",
    "appendonly": "yes",
    "appendfsync": "always",
    "port": str(PORT),
    "protected-mode": "no",
    "tcp-keepalive": "0",
    "repl-diskless-sync-delay": "0",
    "databases": "2",
    "auto-aof-rewrite-min-size": "64mb",
}
_TIMED: Final = (
    *(journal, store, loading),
    *(confirmation_module, followers, link, master_connection, node, outgoing_snapshots),
)


class _DoneAtOnce:
    """Stands for the thread that writes a snapshot."""

    def __init__(self, *_: object) -> None:
        pass

    def submit(self, work: Callable[[], None]) -> Future[None]:
        done: Future[None] = Future()
        try:
            work()
            done.set_result(None)
        except Exception as error:  # noqa: BLE001 - it is the caller's
            done.set_exception(error)
        return done

    def shutdown(self, *, wait: bool) -> None:
        pass


@contextmanager
def living_in(world: "World") -> Iterator[None]:
    """Let time, threads and names of histories be those of a simulation."""
    timeline, random = world.timeline, world.chance
    with ExitStack() as stack:
        for module in _TIMED:
            stack.enter_context(patch.object(module, "monotonic", timeline.seconds))
        stack.enter_context(patch.object(incoming_snapshot, "ThreadPoolExecutor", _DoneAtOnce))
        stack.enter_context(patch.object(effect_log, "token_hex", lambda size: random.randbytes(size).hex()))
        stack.enter_context(patch("os.urandom", random.randbytes))
        yield


class Written:
    """What was written behind each offset of each history: nobody may write anything else there."""

    def __init__(self) -> None:
        self._texts: dict[bytes, bytearray] = {}
        self._known: dict[bytes, bytearray] = {}  # a byte of 1 for each byte that somebody has written

    def note(self, who: str, history: bytes, offset: int, data: bytes) -> None:
        text = self._texts.setdefault(history, bytearray())
        known = self._known.setdefault(history, bytearray())
        end = offset + len(data)
        if len(text) < end:
            text += bytes(end - len(text))
            known += bytes(end - len(known))
        if text[offset:end] != data:
            for at, byte in enumerate(data, offset):
                if known[at] and text[at] != byte:
                    raise AssertionError(
                        f"{who} has at offset {offset} of {history.decode()}\n  {data!r},\n"
                        f"and others, from {at} on,\n  {bytes(text[offset:end])!r}"
                    )
        text[offset:end] = data
        known[offset:end] = b"\x01" * len(data)


class World:
    """What all machines have in common."""

    def __init__(self, seed: str) -> None:
        self.chance = Random(f"{seed} chance")  # of networks and disks
        self.timeline = Timeline()
        self.network = Network(self.chance)
        self.written = Written()
        self.events: list[str] = []  # what happened, for whoever has to find out why
        self.on_said: Callable[[str], None] = lambda _: None  # called with what a server says


class Sentences:
    """What a process says to an operator; a bug ends the simulation."""

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine

    def notice(self, text: str) -> None:
        self._machine.said(text)

    def warning(self, text: str) -> None:
        self._machine.said(text)
        if "please report" in text or "cannot be repeated" in text or "error of ours" in text:
            self._machine.timeline.failure = AssertionError(f"{self._machine.host}: {text}")

    verbose = debug = lambda _self, _text: None


class Process:
    """A server."""

    def __init__(self, machine: "Machine", settings: dict[str, str]) -> None:
        config = Config()
        for name, value in {**_SETTINGS, **settings}.items():
            config.load(name, value.split() if name == "replicaof" else [value])
        timeline = machine.timeline
        self._machine = machine
        self.loop = loop = ProcessLoop(timeline, lambda *given: machine.network.connect(machine.host, *given))
        log: Any = Sentences(machine)
        events: Any = loop
        self.engine, self.journal, self.store = assemble(
            config, log, directory=DataDirectory(machine.disk, ROOT), background=False, spawn=InlineJob
        )
        self.engine.clocks.unix_source = self.engine.clocks.steady_source = timeline.milliseconds
        self.engine.hooks.failure = _raise
        self.engine.rules.turn_ns = 1 << 40  # a turn ends where its work does, not when the machine is slow
        self.journal.immediate = False
        self.journal.room = 3000
        self.connections = Connections(self.engine, self.journal, log, events, count_handshakes=lambda: 0)
        self.link = Link(self.engine, self.store, log, events)
        self.link.first_pause_s, self.link.longest_pause_s = 0.01, 0.05
        self.followers = Followers(self.engine, self.store, log, self.loop.call_soon)
        confirmation = Confirmation(self.engine, self.journal, self.followers, log)
        self.node = ReplicationNode(
            self.engine, self.followers, self.link, confirmation, log, call_soon=self.loop.call_soon
        )
        self.engine.chores.set_alarm = self._set_alarm
        self._alarm: asyncio.TimerHandle | None = None
        self._disk_works = False
        self._operator = InProcessClient(self.engine)
        self._tap = Backlog()
        self._tap.least = self._tap.most = 1 << 16
        self._tap.on_more = self._note_written

    def start(self) -> None:
        self.store.directory.lock()
        for _ in self.store.open():
            pass
        self.journal.schedule = self._commit_soon
        self.engine.effects.subscribe(self._tap)
        self._tap.begin_at(self.engine.effects.offset)
        self._noted = self.engine.effects.offset
        self.loop.call_soon(self.node.start)
        self.loop.call_later(TICK_S * self._machine.random.random(), self._tick)
        self._machine.network.listen(self._machine.host, self.loop, self.connections.make_protocol)

    def _note_written(self) -> None:
        """Note what has come since the last time, or since another place was begun at."""
        tap = self._tap
        begin = self._noted if tap.start <= self._noted <= tap.end else tap.start
        data = tap.read(begin, 1 << 30)
        self._machine.written.note(self._machine.host, self.engine.effects.history, begin, data)
        self._noted = begin + len(data)

    def run(self, *words: str | bytes | int) -> bytes:
        """Run a command of an operator, who waits for nothing."""
        reply = b""
        with suppress(ProcessEnded):
            reply = self._operator.run(*words)
            self._await_disk()
        return reply

    # --- time ------------------------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self.loop.call_later(TICK_S, self._tick)
        self.engine.tick()
        if not self.engine.loading:
            self.store.tick()
            self.followers.tick()
        self.node.tick()
        self.connections.tick()
        self._await_disk()

    def _set_alarm(self, when_ms: int) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        delay_ms = max(when_ms - self.engine.clocks.steady_ms(), 0) + 1
        self._alarm = self.loop.call_later(delay_ms / 1000, run_due, self.engine)

    def _commit_soon(self, commit: Callable[[], None], _in_a_turn: bool) -> None:
        self.loop.call_soon(self._commit, commit)

    def _commit(self, commit: Callable[[], None]) -> None:
        commit()
        self._await_disk()

    def _await_disk(self) -> None:
        if self.journal.busy and not self._disk_works:
            self._disk_works = True
            self.loop.call_later(self._machine.disk_delay(), self._disk_done)

    def _disk_done(self) -> None:
        self._disk_works = False
        self.journal.completed()
        self._await_disk()


def _raise(_name: bytes, bug: Exception) -> None:
    raise bug


class Known(NamedTuple):
    """The data of a process: its history, how much there is of each history that led to it; and its part."""

    history: bytes
    places: dict[bytes, int]
    leads: bool


class Machine:
    """See the module. A process that runs may be ended at once, or before one of its next operations of the disk."""

    def __init__(self, host: str, world: World) -> None:
        self.host = host
        self.timeline = world.timeline
        self.network = world.network
        self.random = world.chance
        self.written = world.written
        self.events = world.events
        self._world = world
        self.disk = SimulatedDisk(ROOT)
        self.process: Process | None = None
        self.tally = Counter[str]()
        self._known = Known(b"", {}, leads=False)
        self._ends_in = -1  # operations; -1: not
        self._sync_s = 0.0  # how long its disk takes, about

    def said(self, text: str) -> None:
        self.events.append(f"{self.timeline.now % 1000:.4f} {self.host}: {text}")
        self._world.on_said(text)

    def disk_delay(self) -> float:
        roll = self.random.random()
        return roll * self._sync_s * (1 if roll < 0.8 else 20)

    @property
    def is_up(self) -> bool:
        return self.process is not None

    @property
    def known(self) -> Known:
        """What is known of the process, or of the last one."""
        if self.process is not None:
            engine = self.process.engine
            effects = engine.effects
            places = {**dict(reversed(effects.ancestors)), effects.history: effects.offset}
            self._known = Known(effects.history, places, leads=not engine.is_replica)
        return self._known

    def start(self, settings: dict[str, str]) -> bool:
        """Start a server; False where the process has ended meanwhile."""
        self.disk.before_change = self._before_change
        self._ends_in = -1
        if self.random.random() < 0.05:
            self._ends_in = self.random.randrange(12)
        self._sync_s = self.random.choice((0.0005, 0.0005, 0.005))
        self.process = process = Process(self, settings)
        with suppress(ProcessEnded):
            process.start()
        return self.process is not None

    def _before_change(self) -> None:
        if self._ends_in == 0:
            self.end()
            raise ProcessEnded
        self._ends_in -= self._ends_in > 0

    def end_soon(self, operations: int) -> None:
        """Cut the power before one of the next operations of the disk."""
        self._ends_in = operations

    def end(self) -> None:
        """Cut the power."""
        process = self.process
        if process is None:
            return
        self._known = self.known
        self.process = None
        self.said("power cut")
        self.tally["power cuts"] += 1
        self._ends_in = -1
        self.disk.end_process()
        self.disk = self.disk.power_cut(self.random)
        process.loop.end()
        self.network.end_host(self.host)
        full, partial, refused = process.node.sync_counts
        self.tally["full synchronisations"] += full
        self.tally["partial synchronisations"] += partial
        self.tally["partial synchronisations refused"] += refused
