"""What is held or waits lasts as long as its rule says, also where somebody sets the clock of the machine meanwhile."""

import pytest

from headrace.engine.applier import Applier
from support.ruled_engine import RuledEngine

HOUR_MS = 3_600_000


class ClockedEngine(RuledEngine):
    """An engine whose Unix time may be set, while its steady clock goes on."""

    skew_ms = 0

    def set_clock(self, now_ms: int) -> None:
        self.engine.clocks.steady_source = lambda: now_ms
        self.engine.clocks.unix_source = lambda: now_ms + self.skew_ms

    def set_by(self, step_ms: int) -> None:
        """Let somebody set the machine's clock: no time passes."""
        self.skew_ms += step_ms


@pytest.fixture
def engine() -> ClockedEngine:
    engine = ClockedEngine()
    engine.ask("XGROUP", "CREATE", "q", "g", "0", "MKSTREAM")
    return engine


def read_one(engine: ClockedEngine, consumer: str = "a") -> bytes:
    """Add an entry and deliver it."""
    added: bytes = engine.ask("XADD", "q", "*", "n", "1")
    assert engine.read(consumer) == [added]
    return added


@pytest.fixture(params=[-HOUR_MS, HOUR_MS, -2000, 2000], ids=["hour back", "hour ahead", "2 s back", "2 s ahead"])
def step_ms(request: pytest.FixtureRequest) -> int:
    step: int = request.param
    return step


def test_visibility_ends_when_it_would_have(engine: ClockedEngine, step_ms: int) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "30s")
    entry = read_one(engine)
    engine.wait(10_000)
    engine.set_by(step_ms)
    assert engine.read("b") == []
    engine.wait(19_000)
    assert engine.read("b") == []
    engine.wait(1_100)
    assert engine.read("b") == [entry]


def test_a_reader_that_waits_gets_it_then(engine: ClockedEngine, step_ms: int) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "30s")
    entry = read_one(engine)
    waiting = engine.waiting("XREADGROUP", "GROUP", "g", "b", "BLOCK", 0, "STREAMS", "q", ">")
    engine.wait(10_000)
    engine.set_by(step_ms)
    engine.wait(19_000)
    assert waiting.waits
    engine.wait(1_100)
    assert entry in waiting.reply()


def test_a_retry_waits_as_long_as_it_would_have(engine: ClockedEngine, step_ms: int) -> None:
    engine.policy("SET", "q", "GROUP", "g", "RETRY", "60s", "60s")
    entry = read_one(engine)
    assert engine.ask("XNACK", "q", "g", "FAIL", "IDS", 1, entry) == 1
    engine.wait(10_000)
    engine.set_by(step_ms)
    engine.wait(49_000)
    assert engine.read("a") == []
    engine.wait(1_100)
    assert engine.read("a") == [entry]


def test_a_failure_after_the_clock_was_set_waits_by_the_new_time(engine: ClockedEngine, step_ms: int) -> None:
    engine.policy("SET", "q", "GROUP", "g", "RETRY", "60s", "60s")
    entry = read_one(engine)
    engine.wait(10_000)
    engine.set_by(step_ms)
    assert engine.ask("XNACK", "q", "g", "FAIL", "IDS", 1, entry) == 1
    engine.wait(59_000)
    assert engine.read("a") == []
    engine.wait(1_100)
    assert engine.read("a") == [entry]


def test_what_is_delivered_after_the_clock_was_set_is_held_for_its_whole_time(
    engine: ClockedEngine, step_ms: int
) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "30s")
    engine.wait(10_000)
    engine.set_by(step_ms)
    entry = read_one(engine)
    engine.wait(29_000)
    assert engine.read("b") == []
    engine.wait(1_100)
    assert engine.read("b") == [entry]


def test_a_letter_is_dead_when_it_would_have_been_without_anybody_reading(engine: ClockedEngine, step_ms: int) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "30s", "MAXDELIVERIES", 1)
    read_one(engine)
    engine.wait(10_000)
    engine.set_by(step_ms)
    engine.wait(19_000)
    assert engine.ask("XLEN", "q:dead") == 0
    engine.wait(1_500)
    assert engine.ask("XLEN", "q:dead") == 1


def test_a_consumer_leaves_when_it_would_have(engine: ClockedEngine, step_ms: int) -> None:
    engine.policy("SET", "q", "GROUP", "g", "CONSUMERTTL", "30s")
    read_one(engine)
    engine.wait(10_000)
    engine.set_by(step_ms)
    engine.wait(19_000)
    assert len(engine.ask("XINFO", "CONSUMERS", "q", "g")) == 1
    engine.wait(1_500)
    assert engine.ask("XINFO", "CONSUMERS", "q", "g") == []


def test_effects_say_the_new_times(engine: ClockedEngine, step_ms: int) -> None:
    engine.policy("SET", "q", "GROUP", "g", "VISIBILITY", "30s", "RETRY", "60s", "60s", "CONSUMERTTL", "1d")
    failed = read_one(engine)
    assert engine.ask("XNACK", "q", "g", "FAIL", "IDS", 1, failed) == 1
    read_one(engine)
    engine.wait(10_000)
    engine.set_by(step_ms)
    engine.wait(1000)
    other = RuledEngine()
    applier = Applier(other.engine, other.now_ms)
    for _, effect in engine.take_effects():
        assert applier.run(effect) is None
    for key in ("q", "headrace:{q}:retries"):
        assert other.ask("DUMP", key) == engine.ask("DUMP", key)
