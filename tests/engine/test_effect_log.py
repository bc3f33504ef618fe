"""The effect log: units as subscribers get them, and an offset that a restart does not change."""

import pytest

from headrace.engine.applier import Applier
from headrace.engine.effect_log import CallbackSubscriber, EffectLog
from headrace.formats.command_source import CommandSource
from support.in_process import InProcess, InProcessClient
from support.storage.crash_life import ROOT, Clock, Process
from support.storage.simulated_disk import SimulatedDisk


class Commands(CommandSource):
    """A list of commands as a source."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)

    def next(self) -> list[bytes] | None:
        return self._lines.pop(0).encode().split() if self._lines else None


def units_of(engine: InProcess) -> list[bytes]:
    units: list[bytes] = []
    engine.engine.effects.subscribe(CallbackSubscriber(units.append))
    return units


def test_every_subscriber_gets_the_same_bytes_and_its_first_unit_names_the_database() -> None:
    engine = InProcess()
    first = units_of(engine)
    engine.run("SET", "a", "1")
    second = units_of(engine)
    engine.run("SET", "a", "2")
    engine.run("SET", "a", "3")
    select, one = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n", b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n"
    two, three = one[:-3] + b"2\r\n", one[:-3] + b"3\r\n"
    assert first == [select + one, select + two, three]
    assert second == [select + two, three]
    assert engine.engine.effects.offset == len(b"".join(first))


def test_a_transaction_is_one_unit() -> None:
    engine = InProcess()
    units = units_of(engine)
    for line in ("MULTI", "SET a 1", "SELECT 2", "SET b 1", "EXEC"):
        engine.run(*line.split())
    [unit] = units
    words = [line for line in unit.decode().split("\r\n") if line.isalpha()]
    assert words == ["MULTI", "SELECT", "SET", "a", "SELECT", "SET", "b", "EXEC"]


def test_nobody_is_handed_effects_after_it_unsubscribed() -> None:
    engine = InProcess()
    units: list[bytes] = []
    subscriber = CallbackSubscriber(units.append)
    for _ in range(2):
        engine.engine.effects.subscribe(subscriber)
        engine.engine.effects.subscribe(subscriber)
        engine.run("INCR", "n")
        engine.engine.effects.unsubscribe(subscriber)
        engine.engine.effects.unsubscribe(subscriber)
        engine.run("INCR", "n")
    assert len(units) == 2


def test_what_is_applied_is_no_effect_and_others_are_served_between_two_runs() -> None:
    engine = InProcess()
    engine.take_effects()
    applier = Applier(engine.engine, 1)
    source = Commands("SET a 1", "MULTI", "SET a 2", "EXEC", "CONFIG SET maxmemory 1")
    assert applier.run_many(source, 2) == 2
    assert engine.run("GET", "a") == b"$1\r\n1\r\n"
    engine.run("SET", "b", "1")
    assert applier.run_many(source, 2) == 2
    assert engine.run("GET", "a") == b"$1\r\n2\r\n"
    assert applier.run_many(source, 9) == 1
    assert applier.error is not None
    assert applier.error.startswith(b"ERR 'config|set' does not change data")
    assert engine.take_effects() == [(0, [b"SET", b"b", b"1"])]


def test_what_is_applied_reads_no_clock() -> None:
    """A consumer of a Redis whose effects do not say when it came was seen when its file was read, not later."""
    engine = InProcess()
    clock = [5000]

    def read_clock() -> int:
        clock[0] += 1000
        return clock[0]

    engine.engine.clocks.unix_source = read_clock
    applier = Applier(engine.engine, 77)
    before = clock[0]
    for line in ("XGROUP CREATE s g 0 MKSTREAM", "XGROUP CREATECONSUMER s g alice", "SET k v PXAT 1", "EXPIRE k 10"):
        applier.run(line.encode().split())
    assert clock[0] == before
    assert b"$9\r\nseen-time\r\n:77\r\n" in engine.run("XINFO", "STREAM", "s", "FULL")


@pytest.mark.parametrize("appendonly", ["yes", "no"])
@pytest.mark.parametrize("rewrites", [False, True])
def test_the_offset_is_the_same_after_a_restart(appendonly: str, *, rewrites: bool) -> None:
    disk = SimulatedDisk(ROOT)
    settings = {"appendonly": appendonly}
    expected = 0
    for start in range(4):
        process = Process(disk, Clock(), settings)
        process.start()
        assert process.engine.effects.offset == expected
        process.engine.effects.subscribe(CallbackSubscriber(lambda _: None))
        client = InProcessClient(process.engine)
        for line in ("XADD s * f v", "XGROUP CREATE s g$ 0", "XREADGROUP GROUP g$ c STREAMS s >", "SET k v PX 1"):
            client.run(*line.replace("$", str(start)).split())
            process.commit()
        if rewrites:
            client.run("BGREWRITEAOF")
            process.store.tick()
            client.run("SELECT", start)
            client.run("SET", "behind", "the base")
            process.commit()
        if appendonly == "no":
            client.run("SAVE")
        expected = process.engine.effects.offset
        assert expected > 0
        process.journal.drain()
        disk = disk.restarted()


def test_a_history_is_left_at_an_offset_and_has_a_name_of_its_own() -> None:
    log = EffectLog()
    units: list[bytes] = []
    log.subscribe(CallbackSubscriber(units.append))
    log.write([(0, [b"SET", b"a", b"1"])])
    first, left_at = log.history, log.offset
    log.branch()
    assert log.history != first
    assert log.ancestors == [(first, left_at)]
    assert log.offset == left_at
    log.write([(0, [b"SET", b"a", b"2"])])
    assert units[-1].startswith(b"*2\r\n$6\r\nSELECT")


def test_what_a_master_sent_is_handed_over_as_it_came() -> None:
    log = EffectLog()
    units: list[bytes] = []
    log.subscribe(CallbackSubscriber(units.append))
    log.begin_at(100, b"a" * 40, [(b"b" * 40, 50)])
    log.forward(b"*1\r\n$4\r\nPING\r\n", 3)
    assert units == [b"*1\r\n$4\r\nPING\r\n"]
    assert (log.offset, log.history, log.ancestors, log.selected) == (114, b"a" * 40, [(b"b" * 40, 50)], 3)
    log.skip(b"FT.ADD")
    assert (log.offset, units[1:]) == (120, [])
    log.continue_as(b"c" * 40)
    assert log.ancestors == [(b"a" * 40, 120), (b"b" * 40, 50)]


def test_a_change_that_nobody_took_ends_a_history() -> None:
    log = EffectLog()
    subscriber = CallbackSubscriber(lambda _: None)
    log.subscribe(subscriber)
    log.write([(0, [b"SET", b"a", b"1"])])
    known, offset = log.history, log.offset
    log.unsubscribe(subscriber)
    log.subscribe(subscriber)
    assert log.history != known
    assert log.ancestors == []
    assert log.offset > offset


def test_a_replica_keeps_its_place_when_nobody_takes_what_it_forwards() -> None:
    log = EffectLog()
    log.begin_at(100, b"a" * 40)
    subscriber = CallbackSubscriber(lambda _: None)
    log.subscribe(subscriber)
    log.begin_following()
    log.unsubscribe(subscriber)
    log.forward(b"*1\r\n$4\r\nPING\r\n", 0)
    assert log.continuous
    log.subscribe(subscriber)
    assert (log.history, log.offset) == (b"a" * 40, 114)
    log.unsubscribe(subscriber)
    log.end_following()  # from now on, data changes and nobody counts
    assert not log.continuous


def test_a_history_in_which_nothing_was_written_still_knows_the_database_of_the_one_before() -> None:
    log = EffectLog()
    log.begin_at(100, b"a" * 40, database=3)
    log.branch()
    assert (log.offset, log.selected) == (100, 3)
