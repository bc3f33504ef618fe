"""A journal on a disk that refuses: which clients are told, what is kept, and what makes the file whole again."""

import os
import select
from collections.abc import Iterator
from errno import EINVAL, EIO, ENOMEM, ENOSPC
from pathlib import Path

import pytest

from headrace.core import memory
from support.storage.held_replies import Bench, Peer, added, adding, commands


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """A journal that writes through the disk, which can be told to refuse."""
    return Bench(tmp_path / "incr.aof", background=False)


@pytest.fixture
def worker_bench(tmp_path: Path) -> Iterator[Bench]:
    """A journal whose worker writes, below the disk."""
    bench = Bench(tmp_path / "incr.aof", background=True)
    yield bench
    bench.journal.close()


def added_ids(bench: Bench) -> list[bytes]:
    return [argv[2] for argv in commands(bench.text) if argv[0] == b"XADD"]


def assert_disowned(peer: Peer, error: int) -> None:
    assert peer.take() == (
        b"-MISCONF The disk refused what was written (%s): whether this write lasts is not known.\r\n"
        % os.strerror(error).encode()
    )
    assert peer.closing


# --- writes ------------------------------------------------------------------------------------------------------


def test_a_short_write_then_a_full_disk_then_room(bench: Bench) -> None:
    """What was half written is cut before it is written again."""
    first, second = bench.peer("first"), bench.peer("second")
    first.send(adding(1))
    bench.settle()
    assert first.take() == added(1)
    bench.disk.takes, bench.disk.write_errors = 10, [ENOSPC, ENOSPC]
    first.send(adding(2))
    bench.settle()
    assert bench.failures == [(ENOSPC, False)]
    assert_disowned(first, ENOSPC)
    assert len(bench.text) == bench.journal.size + 10
    assert bench.journal.failing
    assert not bench.journal.incomplete

    second.send(adding(3), [b"XLEN", b"s"])
    bench.settle()
    assert second.take() == b"-MISCONF refused\r\n:2\r\n"

    assert not bench.journal.retry()
    assert bench.journal.retry()
    assert not bench.journal.failing
    assert bench.journal.synced == bench.journal.position
    assert added_ids(bench) == [b"1-1", b"2-1"]
    bench.engine.refusals.writes = None
    second.send(adding(3))
    bench.settle()
    assert second.take() == added(3)
    assert added_ids(bench) == [b"1-1", b"2-1", b"3-1"]


def test_the_worker_reports_a_full_disk_and_everything_is_brought_out_later(worker_bench: Bench) -> None:
    bench = worker_bench
    held = [bench.peer(name) for name in ("a", "b", "reader")]
    real = bench.journal.file
    assert real is not None
    kept, full = os.dup(real), os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, real)
    os.close(full)
    held[0].send(adding(1))
    bench.settle()
    held[1].send(adding(2))
    held[2].ask(b"XLEN", b"s")
    bench.settle()
    bench.disk_done()
    assert bench.failures == [(ENOSPC, False)]
    for peer in held:
        assert_disowned(peer, ENOSPC)
    assert not bench.journal.retry()
    assert not bench.journal.incomplete
    os.dup2(kept, real)
    os.close(kept)
    assert bench.journal.retry()
    assert added_ids(bench) == [b"1-1", b"2-1"]


def test_a_new_file_gets_nothing_that_the_one_before_it_refused(worker_bench: Bench, tmp_path: Path) -> None:
    bench = worker_bench
    peer = bench.peer("a")
    real = bench.journal.file
    assert real is not None
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, real)
    os.close(full)
    peer.send(adding(1))
    bench.settle()
    select.select([bench.journal.fileno], [], [])  # it was refused, and nobody has heard of it
    bench.path = tmp_path / "next.aof"
    bench.journal.attach(bench.disk.create(bench.path), 0)
    bench.peer("b").send(adding(2))
    bench.finish()
    assert added_ids(bench) == [b"2-1"]


def test_a_write_that_fails_while_the_worker_syncs_keeps_its_effects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr("headrace.storage.journal.monotonic", lambda: clock[0])
    bench = Bench(tmp_path / "incr.aof", background=True, policy="everysec")
    peer, other = bench.peer("a"), bench.peer("b")
    peer.send(adding(1))
    bench.settle()
    peer.take()
    clock[0] += 1
    bench.journal.sync_due()
    assert bench.journal.busy
    real = bench.journal.file
    assert real is not None
    kept, full = os.dup(real), os.open("/dev/full", os.O_WRONLY)
    select.select([bench.journal.fileno], [], [])  # it is synced, and nobody has taken the result yet
    os.dup2(full, real)
    os.close(full)
    peer.send(adding(2))
    bench.settle()
    assert bench.journal.failing
    assert_disowned(peer, ENOSPC)
    assert not bench.journal.retry(), "a sync goes on"
    bench.disk_done()
    os.dup2(kept, real)
    os.close(kept)
    assert not bench.journal.incomplete
    assert bench.journal.retry()
    bench.engine.refusals.writes = None
    other.send(adding(3))
    bench.settle()
    assert other.take() == added(3)
    assert added_ids(bench) == [b"1-1", b"2-1", b"3-1"]
    bench.journal.close()


# --- syncs -------------------------------------------------------------------------------------------------------


def test_after_a_failed_sync_only_a_new_file_will_do(bench: Bench, tmp_path: Path) -> None:
    peer, other = bench.peer("a"), bench.peer("b")
    bench.disk.sync_errors = [EIO]
    peer.send(adding(1))
    bench.settle()
    assert bench.failures == [(EIO, True)]
    assert_disowned(peer, EIO)
    assert bench.journal.incomplete
    assert bench.journal.synced == 0

    # Effects that come all the same, such as expiries, are in the base to come.
    before = bench.text
    bench.engine.effects.write([(0, [b"DEL", b"expired"])])
    bench.settle()
    assert bench.text == before

    bench.path = tmp_path / "incr.2.aof"
    bench.journal.attach(bench.disk.create(bench.path), 0)
    assert not bench.journal.failing
    assert not bench.journal.incomplete
    bench.engine.refusals.writes = None
    other.send(adding(2))
    bench.settle()
    assert other.take() == added(2)
    assert added_ids(bench) == [b"2-1"]


def test_the_worker_reports_a_failed_sync(worker_bench: Bench) -> None:
    bench = worker_bench
    peer = bench.peer("a")
    nowhere = os.open("/dev/null", os.O_WRONLY)  # takes everything, and cannot be synced
    real = bench.journal.detach()
    bench.journal.attach(nowhere, 0)
    peer.send(adding(1))
    bench.settle()
    bench.disk_done()
    assert bench.failures == [(EINVAL, True)]
    assert_disowned(peer, EINVAL)
    assert bench.journal.incomplete
    bench.journal.attach(real, 0)
    os.close(nowhere)


def test_a_retry_whose_sync_fails_needs_a_new_file(bench: Bench) -> None:
    peer = bench.peer("a")
    bench.disk.write_errors = [ENOSPC]
    peer.send(adding(1))
    bench.settle()
    assert bench.journal.failing
    bench.disk.sync_errors = [EIO]
    assert not bench.journal.retry()
    assert bench.journal.incomplete


@pytest.mark.parametrize("policy", ["everysec", "no"])
def test_without_always_a_write_that_the_disk_refuses_is_not_answered_ok(tmp_path: Path, policy: str) -> None:
    bench = Bench(tmp_path / "incr.aof", background=False, policy=policy)
    peer = bench.peer("a")
    bench.disk.write_errors = [ENOSPC]
    peer.send(adding(1))
    bench.settle()
    assert_disowned(peer, ENOSPC)
    assert bench.journal.retry()
    assert added_ids(bench) == [b"1-1"]


def test_a_turn_whose_own_command_finds_the_disk_refusing_is_not_answered_ok(bench: Bench) -> None:
    """CONFIG SET and BGREWRITEAOF drain the journal before the replies of their turn are handed over."""
    bench.engine.config.watch("appendfsync", bench.journal.set_policy)
    peer = bench.peer("a")
    bench.disk.write_errors = [ENOSPC]
    peer.send(adding(1), [b"CONFIG", b"SET", b"appendfsync", b"no"], adding(2))
    bench.settle()
    assert_disowned(peer, ENOSPC)
    assert bench.journal.retry()
    assert added_ids(bench) == [b"1-1"]


def test_a_transaction_that_was_queued_in_good_times_is_refused_in_bad(bench: Bench) -> None:
    peer, other = bench.peer("a"), bench.peer("b")
    peer.send([b"MULTI"], adding(1))
    peer.take()
    bench.disk.write_errors = [ENOSPC]
    other.send(adding(5))
    bench.settle()
    peer.ask(b"EXEC")
    assert peer.take() == b"-EXECABORT Transaction discarded because of: MISCONF refused\r\n"
    peer.send([b"MULTI"], [b"XLEN", b"s"], [b"EXEC"])
    assert peer.take().endswith(b"*1\r\n:1\r\n")


def test_requests_that_waited_for_a_slow_disk_are_refused_when_it_fails(worker_bench: Bench) -> None:
    bench = worker_bench
    silent = bench.peer("silent")
    real = bench.journal.file
    assert real is not None
    kept, full = os.dup(real), os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, real)
    os.close(full)
    silent.ask(b"CLIENT", b"REPLY", b"OFF")
    silent.send(adding(1))
    bench.settle()
    silent.send(*(adding(number, b"x" * (1 << 20)) for number in range(2, 52)))
    assert not silent.reading
    bench.disk_done()
    bench.settle()
    assert silent.reading
    length = len(bench.engine.databases[0].values[b"s"])
    assert 30 < length < 40
    os.dup2(kept, real)
    os.close(kept)
    assert bench.journal.retry()
    assert len(added_ids(bench)) == length


# --- memory ------------------------------------------------------------------------------------------------------


def test_an_effect_for_which_there_is_no_memory_is_not_answered_ok(bench: Bench, tmp_path: Path) -> None:
    peer, late, other = bench.peer("a"), bench.peer("late"), bench.peer("b")
    late.ask(b"PING")
    assert late.take() == b"+PONG\r\n"
    peer.send(adding(1))
    bench.settle()
    assert peer.take() == added(1)
    big = [b"SET", b"k", b"x" * 100_000]
    memory.fail_after(0)
    try:
        peer.send(big)
        late.ask(b"GET", b"k")
        assert peer.received == late.received == b""
        bench.settle()
    finally:
        memory.fail_never()
    assert bench.failures == [(ENOMEM, False)]
    assert_disowned(peer, ENOMEM)
    assert_disowned(late, ENOMEM)
    assert bench.journal.incomplete
    assert added_ids(bench) == [b"1-1"]

    bench.path = tmp_path / "incr.2.aof"
    bench.journal.attach(bench.disk.create(bench.path), 0)
    bench.engine.refusals.writes = None
    other.send([b"SELECT", b"3"], adding(2))
    bench.settle()
    assert other.take() == b"+OK\r\n" + added(2)
    assert commands(bench.text)[0] == [b"SELECT", b"3"]


@pytest.mark.parametrize("allowed", range(4))
def test_a_transaction_for_which_memory_ends_in_the_middle_leaves_nothing_of_it(bench: Bench, allowed: int) -> None:
    peer = bench.peer("a")
    memory.fail_after(allowed)
    try:
        bench.engine.effects.write([(0, [b"SET", b"k", b"x" * (20_000 << number)]) for number in range(4)])
    finally:
        memory.fail_never()
    bench.settle()
    assert bench.failures == [(ENOMEM, False)]
    assert bench.text == b""
    bench.journal.attach(bench.journal.file, 0)
    bench.engine.refusals.writes = None
    peer.send(adding(1))
    bench.settle()
    assert peer.take() == added(1)
    assert added_ids(bench) == [b"1-1"]
