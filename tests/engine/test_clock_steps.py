"""Somebody sets the machine's clock, back or ahead, for a moment or for good: it changes no wait.

Unix time is in the data (IDs, delivery times, when keys expire) and follows the clock; waits, pauses, ages and rates
are measured by a clock that nobody sets.
"""

import pytest

from headrace.core.packed import Packed
from headrace.engine.blocking.waking import run_due
from support.in_process import InProcess

NOON = 1_700_000_000_000
DAY_MS = 86_400_000
STEPS_MS = [-60_000, 60_000, -DAY_MS, DAY_MS]


class SetClock(InProcess):
    """An engine whose two clocks are moved one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.unix_now = NOON
        self.steady_now = self.engine.clocks.steady_started_ms
        self.engine.clocks.unix_source = lambda: self.unix_now
        self.engine.clocks.steady_source = lambda: self.steady_now
        self.engine.tick()

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, and the host do what it does then."""
        self.unix_now += milliseconds
        self.steady_now += milliseconds
        self.engine.tick()
        run_due(self.engine)

    def step(self, milliseconds: int) -> None:
        """Set the machine's clock."""
        self.unix_now += milliseconds
        self.engine.tick()
        run_due(self.engine)


@pytest.fixture
def engine() -> SetClock:
    engine = SetClock()
    engine.run("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    return engine


BLOCKING = [
    ("BLPOP", "l", "0.1"),
    ("BRPOP", "l", "0.1"),
    ("BLMOVE", "l", "m", "LEFT", "LEFT", "0.1"),
    ("BRPOPLPUSH", "l", "m", "0.1"),
    ("BLMPOP", "0.1", 1, "l", "LEFT"),
    ("BZPOPMIN", "z", "0.1"),
    ("BZPOPMAX", "z", "0.1"),
    ("BZMPOP", "0.1", 1, "z", "MIN"),
    ("XREAD", "BLOCK", 100, "STREAMS", "s", "$"),
    ("XREADGROUP", "GROUP", "g", "c", "BLOCK", 100, "STREAMS", "s", ">"),
    ("XREADGROUP", "GROUP", "g", "c", "BLOCK", 100, "CLAIM", 1000, "STREAMS", "s", ">"),
    ("WAIT", 1, 100),
    ("WAITAOF", 0, 1, 100),
]


@pytest.mark.parametrize("step_ms", STEPS_MS)
@pytest.mark.parametrize("words", BLOCKING, ids=lambda words: " ".join(map(str, words)))
def test_a_wait_lasts_as_long_as_was_asked_for(engine: SetClock, words: tuple[str | int, ...], step_ms: int) -> None:
    client = engine.waiting_client(*words)
    engine.pass_time(50)
    engine.step(step_ms)
    engine.pass_time(49)
    assert client.waits
    engine.pass_time(2)
    assert not client.waits
    assert client.reply()


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_a_step_for_a_moment_stalls_nobody_not_even_who_comes_then(engine: SetClock, step_ms: int) -> None:
    """A step of 60 seconds back for a moment let no blocking call end until the clock was back where it had been."""
    before = engine.waiting_client("BLPOP", "l", "0.2")
    engine.step(step_ms)
    during = engine.waiting_client("BLPOP", "l", "0.2")
    engine.pass_time(100)
    engine.step(-step_ms)
    after = engine.waiting_client("BLPOP", "l", "0.2")
    engine.pass_time(101)
    assert [client.waits for client in (before, during, after)] == [False, False, True]
    engine.pass_time(100)
    assert not after.waits


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_who_guesses_passwords_waits_as_long_as_ever(engine: SetClock, step_ms: int) -> None:
    engine.run("ACL", "SETUSER", "u", "on", ">secret", "+@all")
    guesser = engine.connect()
    guesser.run("AUTH", "u", "1")
    guesser.run("AUTH", "u", "2")
    if guesser.waits:
        engine.step(step_ms)
        engine.pass_time(1)
        assert guesser.waits
        engine.pass_time(5_000)
        assert not guesser.waits


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_a_pause_lasts_as_long_as_was_asked_for(engine: SetClock, step_ms: int) -> None:
    engine.run("CLIENT", "PAUSE", 100, "WRITE")
    writer = engine.connect()
    assert writer.run("SET", "k", "v") == b""
    engine.step(step_ms)
    engine.pass_time(99)
    assert writer.reply() == b""
    engine.pass_time(2)
    assert writer.reply() == b"+OK\r\n"


# --- idle times, which are Unix time ---------------------------------------------------------------------------


def test_who_waits_for_idle_entries_is_served_when_a_step_makes_them_idle(engine: SetClock) -> None:
    engine.run("XADD", "s", "1-0", "f", "v")
    engine.run("XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">")
    client = engine.waiting_client("XREADGROUP", "GROUP", "g", "b", "BLOCK", 0, "CLAIM", 30_000, "STREAMS", "s", ">")
    engine.pass_time(100)
    assert client.waits
    engine.step(60_000)
    assert not client.waits
    assert b"1-0" in client.reply()


def test_who_waits_for_idle_entries_is_not_served_early_nor_forgotten_after_a_step_back(engine: SetClock) -> None:
    engine.run("XADD", "s", "1-0", "f", "v")
    engine.run("XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">")
    client = engine.waiting_client("XREADGROUP", "GROUP", "g", "b", "BLOCK", 0, "CLAIM", 1_000, "STREAMS", "s", ">")
    engine.step(-60_000)
    engine.pass_time(1_001)
    assert client.waits  # the delivery lies ahead of the clock: it is not idle at all
    engine.step(60_000)
    assert not client.waits
    assert b"1-0" in client.reply()


def test_who_waits_for_idle_entries_is_served_in_the_end_where_the_clock_stays_back(engine: SetClock) -> None:
    engine.run("XADD", "s", "1-0", "f", "v")
    engine.run("XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">")
    client = engine.waiting_client("XREADGROUP", "GROUP", "g", "b", "BLOCK", 0, "CLAIM", 1_000, "STREAMS", "s", ">")
    engine.step(-60_000)
    engine.pass_time(60_999)
    assert client.waits
    engine.pass_time(2)
    assert not client.waits


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_idle_times_are_never_negative(engine: SetClock, step_ms: int) -> None:
    engine.run("XADD", "s", "1-0", "f", "v")
    engine.run("XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">")
    engine.step(step_ms)
    shown = engine.run("XPENDING", "s", "g", "-", "+", 10) + engine.run("XINFO", "CONSUMERS", "s", "g")
    assert b":-" not in shown.replace(b":-1\r\n", b"")


# --- IDs and keys ----------------------------------------------------------------------------------------------


def test_ids_never_go_back(engine: SetClock) -> None:
    ids = []
    for step_ms in (0, -60_000, -DAY_MS, 60_000, 2 * DAY_MS, -1):
        engine.step(step_ms)
        text = engine.run("XADD", "s", "*", "f", "v").split(b"\r\n")[1]
        ids.append(tuple(map(int, text.split(b"-"))))
    assert ids == sorted(set(ids))


def test_a_key_expires_by_unix_time(engine: SetClock) -> None:
    engine.run("SET", "k", "v", "EX", 10)
    engine.step(-60_000)
    assert engine.run("PTTL", "k") == b":70000\r\n"
    engine.step(69_000)
    assert engine.run("PTTL", "k") == b":1000\r\n"
    engine.step(2_000)
    assert engine.run("EXISTS", "k") == b":0\r\n"


# --- ages and rates --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_ages_do_not_follow_the_clock(engine: SetClock, step_ms: int) -> None:
    idle = engine.connect()
    engine.run("SET", "k", "v")
    engine.pass_time(7_000)
    engine.step(step_ms)
    assert engine.run("OBJECT", "IDLETIME", "k") == b":7\r\n"
    line = next(
        line for line in engine.run("CLIENT", "LIST").decode().splitlines() if line.startswith(f"id={idle.client.id} ")
    )
    assert " age=7 idle=7 " in line
    assert engine.run("CLIENT", "KILL", "MAXAGE", 8) == b":0\r\n"
    assert b"uptime_in_seconds:7\r\n" in engine.run("INFO", "server")


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_rates_do_not_follow_the_clock(engine: SetClock, step_ms: int) -> None:
    for tenth in range(20):
        for _ in range(10):
            engine.run("PING")
        if tenth == 10:
            engine.step(step_ms)
        engine.pass_time(100)
    assert b"instantaneous_ops_per_sec:100\r\n" in engine.run("INFO", "stats")


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_what_is_staged_stays_as_long_as_it_may(engine: SetClock, step_ms: int) -> None:
    staging = engine.engine.staging
    ttl_ms = 1000 * engine.engine.config["headrace-stage-ttl"]
    staging.add((0, b"s", b"q", 1), 0, Packed(b""), None, engine.steady_now)
    engine.step(step_ms)
    engine.pass_time(ttl_ms)
    assert len(staging.batches) == 1
    engine.pass_time(1)
    assert not staging.batches
