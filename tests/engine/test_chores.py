"""What is done by time is done when it is due, whatever the clocks do, and costs nothing until then."""

from collections.abc import Iterator

import pytest

from headrace.engine.chores import PAUSE_MS, Chores
from support.in_process import InProcess

NOON = 1_700_000_000_000


@pytest.fixture
def engine() -> InProcess:
    engine = InProcess()
    engine.set_clock(NOON)
    engine.engine.tick()
    return engine


def keys(engine: InProcess) -> int:
    return len(engine.engine.databases[0])


# --- the registry ----------------------------------------------------------------------------------------------------


def run_due(chores: Chores, now_ms: int) -> None:
    for chore in chores.take_due(now_ms):
        chore.take_turn(now_ms)  # type: ignore[attr-defined]


def test_a_chore_has_its_turn_when_it_is_due_and_not_more_often_than_it_may() -> None:
    chores, alarms, turns = Chores(), list[int](), list[int]()
    chores.set_alarm = alarms.append
    answers: Iterator[int | None] = iter((1000, 1001, None))

    def run() -> int | None:
        turns.append(1)
        return next(answers)

    chore = chores.register(run, in_unix_time=False)
    run_due(chores, 500)
    chore.expect(900)
    chore.expect(800)
    chore.expect(850)  # the earliest counts
    run_due(chores, 799)
    assert not turns
    run_due(chores, 800)  # it is due again at 1000 …
    run_due(chores, 1000)  # … and then at 1001, which is too soon
    run_due(chores, 1001)
    assert len(turns) == 2
    run_due(chores, 1000 + PAUSE_MS)
    run_due(chores, 9999)
    assert len(turns) == 3
    assert alarms[:2] == [900, 800]
    assert len(chores.timers) == 0


def test_what_is_due_in_unix_time_follows_a_clock_that_is_set() -> None:
    chores, turns = Chores(), list[int]()
    chores.set_lead(10_000, 0)

    def run() -> int | None:
        turns.append(1)
        return None if len(turns) > 1 else 15_000

    chores.register(run, in_unix_time=True).expect(15_000)
    run_due(chores, 4_999)
    assert not turns
    chores.set_lead(10_500, 4_000)  # Unix time is ahead now: everything that is planned is planned again
    run_due(chores, 4_000)
    assert len(turns) == 1
    run_due(chores, 4_499)
    run_due(chores, 4_500)
    assert len(turns) == 2


def test_the_end_of_time_is_the_end_of_every_clock() -> None:
    chores = Chores()
    chores.set_lead(-10_000, 0)  # the machine runs for longer than its clock has been counting
    assert chores.steady(2**63 - 1) == 2**63 - 1


# --- the engine's ----------------------------------------------------------------------------------------------------


def test_keys_expire_at_their_time_and_nothing_looks_at_those_that_are_not_due(engine: InProcess) -> None:
    for number in range(1000):
        engine.run("SET", f"later{number}", "v", "PX", 1_000_000 + number)
    engine.run("SET", "soon", "v", "PX", 500)
    chores = engine.engine.chores
    taken: list[object] = []

    def take_due(now_ms: int) -> list[object]:
        due = Chores.take_due(chores, now_ms)
        taken.extend(due)
        return due

    chores.take_due = take_due  # type: ignore[method-assign]
    assert engine.engine.databases[0].next_due() == NOON + 501
    for passed in range(0, 501, 100):
        engine.set_clock(NOON + passed)
        engine.engine.tick()
    assert keys(engine) == 1001
    assert not taken
    engine.set_clock(NOON + 501)
    engine.engine.tick()
    assert keys(engine) == 1000
    assert len(engine.engine.chores.timers) == 1


def test_a_key_expires_when_the_machines_clock_is_set_ahead(engine: InProcess) -> None:
    engine.run("SET", "key", "v", "PX", 1_000_000)
    engine.set_unix_time(NOON + 1_000_001)
    engine.engine.tick()
    assert keys(engine) == 0


def test_a_clock_that_goes_a_little_faster_makes_no_key_late(engine: InProcess) -> None:
    engine.run("SET", "key", "v", "PX", 100_000)
    for passed in range(0, 100_000, 1000):
        engine.engine.clocks.unix_source = lambda passed=passed: NOON + passed + passed // 100
        engine.engine.clocks.steady_source = lambda passed=passed: NOON + passed
        engine.engine.tick()
        assert keys(engine) == (passed + passed // 100 <= 100_000)


def test_many_keys_that_are_due_together_go_in_turns(engine: InProcess) -> None:
    for number in range(2500):
        engine.run("SET", f"key{number}", "v", "PX", 10)
    left = []
    for turn in range(1, 4):
        engine.set_clock(NOON + turn * PAUSE_MS)
        engine.engine.tick()
        left.append(keys(engine))
    assert left == [1500, 500, 0]


def test_databases_that_are_swapped_keep_their_times(engine: InProcess) -> None:
    engine.run("SET", "key", "v", "PX", 500)
    engine.run("SWAPDB", 0, 5)
    engine.set_clock(NOON + 501)
    engine.engine.tick()
    assert len(engine.engine.databases[5]) == 0


def test_a_key_that_lives_to_the_end_of_time_is_never_due(engine: InProcess) -> None:
    """One more than its time has more than 64 bits: it was due at once, and SWAPDB failed when it had swapped."""
    engine.run("SET", "key", "v")
    payload = engine.run("DUMP", "key").partition(b"\r\n")[2][:-2]
    assert engine.run("RESTORE", "forever", 2**63 - 1, payload) == b"+OK\r\n"
    assert engine.engine.databases[0].next_due() == 2**63 - 1
    assert engine.engine.chores.timers.first_due == 2**63 - 1
    assert engine.run("SWAPDB", 0, 5) == b"+OK\r\n"
    engine.set_clock(NOON + 501)
    engine.engine.tick()
    assert len(engine.engine.databases[5]) == 2


def test_messages_of_producers_are_forgotten_at_their_time(engine: InProcess) -> None:
    engine.run("XADD", "s", "IDMP", "p", "1", "*", "f", "v")
    engine.set_clock(NOON + 50_000)
    engine.run("XADD", "s", "IDMP", "p", "2", "*", "f", "v")
    engine.run("RENAME", "s", "t")
    producers = engine.engine.databases[0].values[b"t"].producers
    for passed, remembered in ((99_999, 2), (100_000, 1), (149_999, 1), (150_100, 0)):
        engine.set_clock(NOON + passed)
        engine.engine.tick()
        assert producers.remembered == remembered
    assert not engine.engine.databases[0].producing
    assert len(engine.engine.chores.timers) == 0


def test_what_may_not_expire_now_expires_when_it_may(engine: InProcess) -> None:
    engine.run("SET", "key", "v", "PX", 500)
    engine.run("CLIENT", "PAUSE", 10_000, "WRITE")
    for passed, there in ((1000, 1), (9_000, 1), (10_001, 1), (10_200, 0)):
        engine.set_clock(NOON + passed)
        engine.engine.tick()
        if passed < 10_000 or there == 0:
            assert keys(engine) == there


def test_a_message_is_remembered_to_the_end_of_time(engine: InProcess) -> None:
    """Where an ID was beyond 2^63 ms, XADD failed when it had added the entry, and the journal had nothing of it."""
    last = 2**64 - 1
    engine.run("XADD", "s", f"{last}-1", "f", "v")
    assert engine.run("XADD", "s", "IDMP", "p", "1", "*", "f", "v") == b"$22\r\n%d-2\r\n" % last
    assert engine.engine.databases[0].next_due() == 2**63 - 1
    assert engine.run("SWAPDB", 0, 5) == b"+OK\r\n"
    engine.set_clock(NOON + 501)
    engine.engine.tick()
    assert len(engine.engine.databases[5]) == 1
