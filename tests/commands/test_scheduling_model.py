"""Schedules against a plain model: a list of messages, sorted by time and ticket; the clock jumps by hours."""

from dataclasses import dataclass, field

from hypothesis import settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.engine.applier import Applier
from support.campaign import BRIEF, LONG
from support.timed_server import NOON, TimedServer, as_map

KEYS = (b"q", b"p")
DELAYS_MS = strategies.sampled_from([0, 1, 500, 5_000, 60_000, 3_600_000, 26 * 3_600_000])
JUMPS_MS = strategies.sampled_from([0, 1, 250, 5_000, 61_000, 3_600_000, 50 * 3_600_000])
STEPS_MS = strategies.sampled_from([-30 * 3_600_000, -3_600_000, -1_000, 1_000, 3_600_000, 30 * 3_600_000])


@dataclass
class Planned:
    """A message that waits."""

    due: int
    ticket: bytes
    value: bytes
    every: int = 0


@dataclass
class Model:
    """What every key has scheduled, and what its stream holds; None: the key holds no stream."""

    planned: dict[bytes, list[Planned]] = field(default_factory=lambda: {key: [] for key in KEYS})
    streams: dict[bytes, list[bytes] | None] = field(default_factory=lambda: {key: [] for key in KEYS})

    def advance(self, now: int) -> None:
        """Append what is due by now: a message once, however many of its times were missed."""
        for key, planned in self.planned.items():
            stream = self.streams[key]
            if stream is None:
                continue
            for each in sorted(planned, key=lambda each: (each.due, each.ticket)):
                if each.due > now:
                    continue
                stream.append(each.value)
                if each.every:
                    while each.due <= now:
                        each.due += each.every
                else:
                    planned.remove(each)


class Schedules(RuleBasedStateMachine):
    """Does the same to an engine and to the model."""

    @initialize()
    def start(self) -> None:
        self.server = TimedServer()
        self.model = Model()
        self.number = 0
        self.steady = self.unix = NOON
        self.is_replica = False
        self.set_clocks()

    def set_clocks(self) -> None:
        steady, unix = self.steady, self.unix
        self.server.engine.clocks.steady_source = lambda: steady
        self.server.engine.clocks.unix_source = lambda: unix

    def run_due(self) -> None:
        self.set_clocks()
        self.server.engine.tick()
        self.server.run_all_due()
        if not self.is_replica:
            self.model.advance(self.unix)

    @precondition(lambda self: not self.is_replica)
    @rule(
        key=strategies.sampled_from(KEYS),
        delay=DELAYS_MS,
        every=strategies.sampled_from([0, 0, 0, 400, 3_600_000]),
        absolute=strategies.booleans(),
    )
    def schedule(self, key: bytes, delay: int, every: int, absolute: bool) -> None:
        if self.model.streams[key] is None:
            return
        self.number += 1
        value = b"%d" % self.number
        when = ("AT", self.unix + delay) if absolute else ("DELAY", delay)
        ticket = self.server.ask("HEADRACE", "SCHEDULE", key, *when, "EVERY", every, "n", value)
        self.model.planned[key].append(Planned(self.unix + delay, ticket, value, every))

    @precondition(lambda self: not self.is_replica)
    @rule(key=strategies.sampled_from(KEYS), choice=strategies.integers(0, 1000))
    def unschedule(self, key: bytes, choice: int) -> None:
        planned = self.model.planned[key]
        ticket = planned.pop(choice % len(planned)).ticket if planned else b"none"
        found = self.server.ask("HEADRACE", "UNSCHEDULE", key, ticket)
        assert found == (ticket != b"none")

    @rule(ms=JUMPS_MS)
    def pass_time(self, ms: int) -> None:
        self.steady += ms
        self.unix += ms
        self.run_due()

    @rule(ms=STEPS_MS)
    def set_machine_clock(self, ms: int) -> None:
        self.unix = max(self.unix + ms, NOON)
        self.run_due()

    @precondition(lambda self: not self.is_replica)
    @rule(key=strategies.sampled_from(KEYS))
    def hold_and_release(self, key: bytes) -> None:
        """Let the key hold a text for a while: nothing goes out, and nothing is lost."""
        former = self.model.streams[key]
        self.model.streams[key] = None
        self.server.run("SET", key, "text")
        self.steady += 7_200_000
        self.unix += 7_200_000
        self.run_due()
        self.server.run("DEL", key)
        self.model.streams[key] = [] if former is not None else None
        self.steady += 1_001
        self.unix += 1_001
        self.run_due()

    @precondition(lambda self: not self.is_replica)
    @rule(kind=strategies.sampled_from(["SWAPDB", "RENAME", "FLUSHALL", "RESTART"]))
    def move_everything(self, kind: str) -> None:
        if kind == "SWAPDB":
            self.server.run("SWAPDB", 0, 1)
            self.server.run("SELECT", 1)
            self.server.run("SWAPDB", 1, 0)
            self.server.run("SELECT", 0)
        elif kind == "RENAME":
            for name in (b"headrace:{%s}:scheduled", b"headrace:{%s}:messages", b"%s"):
                for former, new in ((b"q", b"r"), (b"p", b"q"), (b"r", b"p")):
                    self.server.run("RENAME", name % former, name % new)
            planned, streams = self.model.planned, self.model.streams
            planned[b"q"], planned[b"p"] = planned[b"p"], planned[b"q"]
            streams[b"q"], streams[b"p"] = streams[b"p"], streams[b"q"]
        elif kind == "FLUSHALL":
            self.server.run("FLUSHALL")
            self.model = Model()
        else:
            self.restart()

    def restart(self) -> None:
        """Load all values into an engine that knows nothing, and go on with that."""
        other = TimedServer()
        applier = Applier(other.engine, self.unix)
        for db in self.server.engine.databases:
            for key in db.values:
                payload = self.server.ask("DUMP", key)
                assert applier.run([b"RESTORE", key, b"0", payload]) is None
        self.server = other
        self.run_due()

    @precondition(lambda self: not self.is_replica)
    @rule()
    def follow_a_master(self) -> None:
        self.server.engine.begin_following()
        self.is_replica = True

    @precondition(lambda self: self.is_replica)
    @rule()
    def be_promoted(self) -> None:
        self.server.engine.end_following()
        self.is_replica = False
        self.run_due()

    @invariant()
    def same(self) -> None:
        if not hasattr(self, "model"):
            return
        for key in KEYS:
            assert self.server.stream(key.decode()) == self.model.streams[key]
            rows = [as_map(row) for row in self.server.ask("HEADRACE", "SCHEDULED", key)]
            expected = sorted(self.model.planned[key], key=lambda each: (each.due, each.ticket))
            assert [(row[b"due"], row[b"ticket"], row[b"every"], row[b"fields"]) for row in rows] == [
                (each.due, each.ticket, each.every, [b"n", each.value]) for each in expected
            ]
            sizes = (
                self.server.ask("ZCARD", b"headrace:{%s}:scheduled" % key),
                self.server.ask("HLEN", b"headrace:{%s}:messages" % key),
            )
            assert sizes == (len(expected), len(expected))


TestSchedules = Schedules.TestCase
TestSchedules.settings = settings(
    max_examples=5 if BRIEF else 2000 if LONG else 25, stateful_step_count=40, deadline=None
)
