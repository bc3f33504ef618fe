"""One history: random commands while the clock jumps and settings change, and again and again a restart of some kind.

    a step      a line of any command that writes, alone, in a transaction or in a script; or the clock jumps, forward
                by anything from milliseconds to days, or backward; or a setting changes; or the chores are done
    a restart   kill     another process starts from the files as they are
                stop     the process ends in order first
                rewrite  a new base is written first
                reload   DEBUG RELOAD or DEBUG LOADAOF, in the same process

The next process has another clock and other settings. It must find the whole state, refuse nothing, and log no warning.
Everything follows from the seed. Files are in memory, written and read by the production code.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from headrace.commands.all import TABLE
from headrace.core.stream import Stream
from headrace.engine.blocking.waking import run_due
from headrace.engine.configuration.config import Config
from headrace.storage.assembly import assemble
from headrace.storage.child import InlineJob
from headrace.storage.directory import DataDirectory
from support.in_process import InProcessClient
from support.replay.any_command import AnyCommand, Line
from support.replay.whole_state import State, differences, take_state
from support.storage.memory_disk import MemoryDisk
from support.storage.operator_log import OperatorLog

Clock = Callable[[], int]

ROOT: Final = Path("/memory")
BEGINNING_MS: Final = 1_700_000_000_000
SECOND: Final = 1000
DAY: Final = 86_400 * SECOND

# Everything that decides what becomes of data.
SETTINGS: Final = {
    "stream-node-max-entries": ("1", "2", "3", "7", "100"),
    "stream-node-max-bytes": ("60", "500", "4096"),
    "stream-idmp-duration": ("1", "3", "100", "900"),
    "stream-idmp-maxsize": ("1", "2", "3", "100", "200"),
    "proto-max-bulk-len": ("1mb", "512mb"),
    "rdb-compatibility-version": ("auto", "auto", "7.0", "7.2", "8.6", "8.8"),
    "rdbcompression": ("yes", "no"),
    "appendfsync": ("always", "everysec", "no"),
    "notify-keyspace-events": ("", "KEA"),
    "headrace-stage-ttl": ("1", "3600"),
}
SCRIPT: Final = b"return redis.call(unpack(ARGV))"


class Machine:
    """An engine on a disk."""

    def __init__(
        self, disk: MemoryDisk, clock: Clock, settings: dict[str, str], steady_clock: Clock | None = None
    ) -> None:
        self.prepare(disk, clock, settings, steady_clock)
        self.open()

    def prepare(
        self, disk: MemoryDisk, clock: Clock, settings: dict[str, str], steady_clock: Clock | None = None
    ) -> None:
        """Make everything, and load nothing yet."""
        config = Config()
        for name, value in {"dir": "/", "save": "", "enable-debug-command": "yes", **settings}.items():
            config.load(name, [value])
        self.log = OperatorLog()
        self.engine, self.journal, self.store = assemble(
            config, self.log, directory=DataDirectory(disk, ROOT), background=False, spawn=InlineJob
        )
        self.engine.clocks.unix_source = clock
        self.engine.clocks.steady_source = steady_clock or clock
        self.engine.hooks.failure = _raise
        self.journal.room = 0

    def open(self) -> None:
        """Load what the disk has, and begin to write."""
        for _ in self.store.open():
            pass
        self.clients = [InProcessClient(self.engine) for _ in range(3)]


def _raise(_name: bytes, bug: Exception) -> None:
    raise bug


class Lost(AssertionError):
    """A restart that did not give back what was there."""


class History:
    """See the module."""

    def __init__(self, seed: int, tally: Counter[str]) -> None:
        self.random = Random(seed)
        self.tally = tally
        self.now_ms = BEGINNING_MS
        self.steady_ms = 0
        self.disk = MemoryDisk({})
        self.lines: list[str] = []
        self.writer = AnyCommand(self.random, lambda: self.now_ms)
        self.machine = self._start()
        for name in (b"xadd", b"xgroup|create", b"xgroup|create", b"xadd", b"xadd"):
            self._run(self.writer.line(name))
        self._learn()

    def live(self, steps: int) -> None:
        """Do so many steps, with a restart after some, and at the end."""
        for _ in range(steps):
            self._step()
            if self.random.random() < 0.05:
                self._restart()
        self._restart()

    # --- steps -----------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        roll = self.random.random()
        if roll < 0.62:
            self._run(self.writer.write())
        elif roll < 0.68:
            self._transaction()
        elif roll < 0.73:
            line = self.writer.write()
            if line[0] != b"FUNCTION":
                self._run([b"EVAL", SCRIPT, b"0", *line], named=line)
        elif roll < 0.86:
            self._pass_time()
        elif roll < 0.91:
            name, values = self.random.choice(list(SETTINGS.items()))
            self._run([b"CONFIG", b"SET", name.encode(), self.random.choice(values).encode()])
        elif roll < 0.94:
            self._run([b"DUMP", self.writer.key()])
        elif roll < 0.96:
            self._run(
                [b"CLIENT", b"PAUSE", b"%d" % self.random.choice((1, 400)), self.random.choice((b"ALL", b"WRITE"))]
            )
        else:
            self._tick()
        self.machine.journal.commit()
        self._learn()

    def _client(self) -> InProcessClient | None:
        free = [each for each in self.machine.clients if not each.waits and each.client.postponed is None]
        return self.random.choice(free) if free else None

    def _run(self, line: Line, named: Line | None = None, client: InProcessClient | None = None) -> None:
        client = client or self._client()
        if client is None:
            self._jump(500)  # all wait: for a key, or for the end of a pause
            self._tick()
            return
        self.lines.append(f"{self.now_ms - BEGINNING_MS:+} {b' '.join(line)[:300]!r}")
        reply = client.run(*line)
        if line[0] == b"DUMP" and reply.startswith(b"$") and not reply.startswith(b"$-1"):
            self.writer.payloads.append(reply.split(b"\r\n", 1)[1][:-2])
        self._count(named or line, reply)

    def _count(self, line: Line, reply: bytes) -> None:
        name = line[0].lower()
        if TABLE[name].subcommands and len(line) > 1:
            name = TABLE[name].subcommands[line[1].lower()].name
        self.tally[name.decode()] += 1
        self.tally[f"{name.decode()} refused"] += reply.startswith(b"-")

    def _transaction(self) -> None:
        client = self._client()
        if client is None:
            return
        lines = [self.writer.write() for _ in range(self.random.randint(1, 4))]
        if self.random.random() < 0.2:
            lines.insert(0, [b"SELECT", self.writer.pick(b"0", b"1")])
        if self.random.random() < 0.1:
            lines.insert(1, [b"CLIENT", b"PAUSE", b"300", b"WRITE"])
        if self.random.random() < 0.1:
            lines.append([b"DEBUG", self.writer.pick(b"RELOAD", b"LOADAOF")])
        for line in ([b"MULTI"], *lines, [b"EXEC"]):
            if client.client.postponed is not None:
                break
            self._run(line, client=client)

    def _jump(self, milliseconds: int) -> None:
        """Set the clock; the steady clock goes on."""
        self.now_ms += milliseconds
        self.steady_ms += max(milliseconds, 1)

    def _pass_time(self) -> None:
        ahead = (1, 20, 700, 2 * SECOND, 90 * SECOND, 150 * SECOND, 20 * 60 * SECOND, DAY)
        self._jump(self.random.choice((*ahead, -1, -3 * SECOND, -200 * SECOND, -DAY)))
        self.lines.append(f"{self.now_ms - BEGINNING_MS:+} is the time")
        if self.random.random() < 0.5:
            self._tick()

    def _tick(self) -> None:
        self.lines.append(f"{self.now_ms - BEGINNING_MS:+} chores")
        self.machine.engine.tick()
        run_due(self.machine.engine)
        self.machine.store.tick()
        for client in self.machine.clients:
            client.reply()

    def _learn(self) -> None:
        """Let the writer know IDs that are there."""
        value = self.machine.engine.databases[0].values.get(self.writer.key("stream"))
        if isinstance(value, Stream):
            ids = [bytes(id) for id, _ in value.range(count=12, reverse=self.random.random() < 0.7)]
            pending = [bytes(id) for group in value.group_list() for id, *_ in group.pending_records(count=4)]
            self.writer.learn(iter([*pending, *reversed(ids), bytes(value.last_id)]))

    # --- restarts --------------------------------------------------------------------------------------------------

    def _settings(self) -> dict[str, str]:
        return {name: self.random.choice(values) for name, values in SETTINGS.items()}

    def _start(self) -> Machine:
        return Machine(self.disk, lambda: self.now_ms, self._settings(), lambda: self.steady_ms)

    def _restart(self) -> None:
        kind = self.random.choice(("kill", "kill", "stop", "rewrite", "reload", "load files"))
        self.tally[kind] += 1
        self.lines.append(f"--- {kind}")
        machine = self.machine
        machine.engine.pauses.end()
        machine.journal.commit()
        if kind == "rewrite":
            self._run([b"BGREWRITEAOF"], client=InProcessClient(machine.engine))
            machine.store.tick()
        expected = take_state(machine.engine)
        if kind in ("reload", "load files"):
            name = b"RELOAD" if kind == "reload" else b"LOADAOF"
            reply = InProcessClient(machine.engine).run(b"DEBUG", name)
            if reply != b"+OK\r\n":
                raise Lost(f"{kind}: {reply!r}")
            self._compare(kind, expected)
            return
        if kind == "stop":
            machine.store.close()
        if self.random.random() < 0.5:
            self._jump(self.random.choice((-DAY, -5 * SECOND, 5 * SECOND, 200 * SECOND, DAY)))
        self.machine = self._start()
        self._compare(kind, expected)
        if self.random.random() < 0.2:
            with_attempts = take_state(self.machine.engine, with_attempts=True)
            self._jump(self.random.choice((-DAY, DAY)))
            self.machine = self._start()
            if (again := take_state(self.machine.engine, with_attempts=True)) != with_attempts:
                raise Lost(f"What is loaded depends on the clock:\n{differences(again, with_attempts)}")

    def _compare(self, kind: str, expected: State) -> None:
        found = take_state(self.machine.engine)
        if found != expected:
            raise Lost(f"After {kind}:\n{differences(found, expected)}")
        if self.machine.log.warnings:
            raise Lost(f"After {kind}, this was said: {self.machine.log.warnings}")
