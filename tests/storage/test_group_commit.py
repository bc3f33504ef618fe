"""Group commit: what `always` promises of replies, and what the other policies do."""

import errno
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.formats.aof import AofReader, Ending
from headrace.formats.aof_seal import SEAL_BYTES
from support.storage.held_replies import Bench, added, adding, commands

MEGABYTE = 1 << 20


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A journal whose worker writes to a real file."""
    bench = Bench(tmp_path / "incr.aof", background=True)
    yield bench
    bench.journal.close()


# --- order -----------------------------------------------------------------------------------------------------


def test_a_reply_leaves_after_the_sync_that_covers_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "incr.aof", background=False)
    peer = bench.peer("a")
    peer.send(adding(1))
    assert bench.events == []
    bench.settle()
    assert bench.events == ["write", "sync", ("reply", "a", added(1))]


@pytest.mark.parametrize("background", [False, True])
def test_what_a_lone_client_did_is_synced_at_the_end_of_its_turn(tmp_path: Path, background: bool) -> None:
    bench = Bench(tmp_path / "incr.aof", background=background)
    peer = bench.peer("a")
    bench.journal.unscheduled = True
    peer.send(adding(1))
    assert peer.received == b""
    bench.journal.commit_here()
    assert peer.take() == added(1)
    assert not bench.journal.busy
    assert bench.journal.syncs == 1
    bench.journal.unscheduled = True
    peer.send(adding(2))
    bench.journal.commit_here()  # or the worker, where the last sync took long
    peer.send(adding(3))  # in a turn with others: the worker
    bench.finish()
    assert peer.take() == added(2) + added(3)
    assert [argv[2] for argv in commands(bench.text) if argv[0] == b"XADD"] == [b"1-1", b"2-1", b"3-1"]
    bench.journal.close()


def test_a_lone_client_learns_that_the_disk_refuses(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "incr.aof", background=False)
    peer = bench.peer("a")
    bench.disk.sync_errors = [errno.EIO]
    bench.journal.unscheduled = True
    peer.send(adding(1))
    bench.journal.commit_here()
    assert peer.received.startswith(b"-")
    assert bench.journal.incomplete


def test_a_lone_client_waits_for_the_worker_while_that_is_busy(bench: Bench) -> None:
    peer = bench.peer("a")
    peer.send(adding(1))
    bench.settle()
    assert bench.journal.busy
    bench.journal.unscheduled = True
    peer.send(adding(2))
    bench.journal.commit_here()
    bench.finish()
    assert peer.take() == added(1) + added(2)


def test_replies_that_wait_for_the_disk_count_as_unsent(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "incr.aof", background=False)
    peer = bench.peer("a")
    peer.send(adding(1))
    assert peer.connection.client.channel.figures().unsent == len(added(1))
    bench.settle()
    assert peer.connection.client.channel.figures().unsent == 0


def test_one_sync_covers_what_many_clients_sent_and_the_next_batch_runs_meanwhile(bench: Bench) -> None:
    peers = [bench.peer(str(number)) for number in range(1, 11)]
    for number, peer in enumerate(peers, 1):
        peer.send(adding(number))
    bench.settle()
    assert bench.journal.busy
    for number, peer in enumerate(peers, 1):
        peer.send(adding(number + 10))
    bench.settle()
    assert [peer.received for peer in peers] == [b""] * 10
    bench.disk_done()
    assert all(peer.received.startswith(added(number)) for number, peer in enumerate(peers, 1))
    bench.finish()
    assert [peer.take() for peer in peers] == [added(number) + added(number + 10) for number in range(1, 11)]
    assert bench.journal.syncs <= 2
    assert [argv[2] for argv in commands(bench.text) if argv[0] == b"XADD"] == [b"%d-1" % n for n in range(1, 21)]


def test_a_reader_is_not_told_of_a_write_before_it_is_safe(bench: Bench) -> None:
    writer, reader = bench.peer("writer"), bench.peer("reader")
    reader.ask(b"XLEN", b"s")
    assert reader.take() == b":0\r\n"
    writer.send(adding(1))
    reader.ask(b"XLEN", b"s")
    bench.settle()
    reader.ask(b"XRANGE", b"s", b"-", b"+")
    bench.settle()
    assert reader.received == writer.received == b""
    bench.disk_done()
    assert writer.take() == added(1)
    assert reader.take().startswith(b":1\r\n*1\r\n")
    reader.ask(b"XLEN", b"s")
    assert reader.take() == b":1\r\n"


def test_replies_of_one_client_stay_in_order(bench: Bench) -> None:
    peer = bench.peer("a")
    expected = b""
    for number in range(1, 60):
        peer.send(adding(number), [b"ECHO", b"%d" % number])
        expected += added(number) + b"$%d\r\n%d\r\n" % (len(str(number)), number)
        bench.settle()
        if number % 7 == 0:
            bench.disk_done()
            assert expected.startswith(peer.received)
    bench.finish()
    assert peer.received == expected


def test_a_transaction_is_one_in_the_journal_and_its_reply_waits(bench: Bench) -> None:
    peer = bench.peer("a")
    peer.send([b"MULTI"], adding(1), adding(2))
    assert peer.take() == b"+OK\r\n+QUEUED\r\n+QUEUED\r\n"
    peer.ask(b"EXEC")
    bench.settle()
    assert peer.received == b""
    bench.disk_done()
    assert peer.take() == b"*2\r\n" + added(1) + added(2)
    names = [argv[0] for argv in commands(bench.text)]
    assert names == [b"MULTI", b"SELECT", b"XADD", b"XADD", b"EXEC"]


def test_a_pipeline_is_answered_as_a_whole(bench: Bench) -> None:
    peer = bench.peer("a")
    peer.send(*(adding(number) for number in range(1, 101)))
    bench.settle()
    assert peer.received == b""
    bench.disk_done()
    assert peer.take() == b"".join(map(added, range(1, 101)))
    assert bench.journal.syncs == 1


def test_a_blocked_reader_is_told_only_when_the_write_is_safe(bench: Bench) -> None:
    reader, writer = bench.peer("reader"), bench.peer("writer")
    reader.ask(b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$")
    writer.send(adding(7))
    bench.settle()
    assert reader.received == writer.received == b""
    bench.disk_done()
    assert writer.take() == added(7)
    assert b"7-1" in reader.take()


def test_a_blocked_group_reader_is_told_when_its_own_delivery_is_safe(bench: Bench) -> None:
    reader, writer = bench.peer("reader"), bench.peer("writer")
    writer.ask(b"XGROUP", b"CREATE", b"s", b"g", b"$", b"MKSTREAM")
    bench.finish()
    reader.ask(b"XREADGROUP", b"GROUP", b"g", b"c", b"BLOCK", b"0", b"STREAMS", b"s", b">")
    writer.send(adding(7))
    bench.settle()
    assert reader.received == b""
    bench.finish()
    assert b"7-1" in reader.take()
    assert [argv[0] for argv in commands(bench.text)][-5:] == [b"XADD", b"MULTI", b"XCLAIM", b"XGROUP", b"EXEC"]


def test_a_command_that_drains_the_journal_leaves_its_own_reply_to_its_turn(bench: Bench) -> None:
    """Held replies are sent inside CONFIG SET; once, the reply of CONFIG SET itself was then never flushed."""
    bench.engine.config.watch("appendfsync", bench.journal.set_policy)
    peer = bench.peer("a")
    peer.send(adding(1), [b"CONFIG", b"SET", b"appendfsync", b"no"])
    bench.finish()
    assert peer.take() == added(1) + b"+OK\r\n"


def test_a_result_that_was_drained_is_not_waited_for_again(bench: Bench) -> None:
    """The event loop may have seen that the worker is done before something else took the result."""
    peer = bench.peer("a")
    peer.send(adding(1))
    bench.settle()
    assert bench.journal.busy
    bench.journal.drain()
    assert peer.take() == added(1)
    bench.journal.completed()


# --- the other policies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["everysec", "no"])
def test_without_always_a_reply_waits_for_the_write_only(tmp_path: Path, policy: str) -> None:
    bench = Bench(tmp_path / "incr.aof", background=True, policy=policy)
    peer = bench.peer("a")
    peer.send(adding(1))
    bench.settle()
    assert peer.take() == added(1)
    assert not bench.journal.busy
    assert bench.journal.syncs == 0
    assert b"XADD" in bench.text
    bench.journal.close()
    assert bench.journal.syncs == 1


def test_under_everysec_writing_goes_on_while_the_worker_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("headrace.storage.journal.monotonic", lambda: clock[0])
    bench = Bench(tmp_path / "incr.aof", background=True, policy="everysec")
    peer = bench.peer("a")
    peer.send(adding(1))
    bench.settle()
    bench.journal.sync_due()
    assert not bench.journal.busy
    clock[0] += 1
    bench.journal.sync_due()
    assert bench.journal.busy
    peer.take()
    peer.send(adding(2))
    bench.settle()
    assert peer.take() == added(2)
    bench.disk_done()
    assert bench.journal.synced < bench.journal.written == bench.journal.position
    clock[0] += 1
    bench.journal.sync_due()
    bench.disk_done()
    assert bench.journal.synced == bench.journal.position
    bench.journal.close()


def test_changing_to_always_has_what_came_before_on_disk_first(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "incr.aof", background=True, policy="no")
    peer = bench.peer("a")
    peer.send(adding(1))
    bench.settle()
    assert bench.journal.synced == 0
    bench.journal.set_policy("always")
    assert bench.journal.synced == bench.journal.position > 0
    peer.take()
    peer.send(adding(2))
    assert peer.received == b""
    bench.finish()
    assert peer.take() == added(2)
    bench.journal.close()


# --- groups and prepared space -----------------------------------------------------------------------------------


def read_through(text: bytes) -> AofReader:
    reader = AofReader(text)
    while reader.next() is not None:
        pass
    assert reader.ending is Ending.COMPLETE
    return reader


def test_the_worker_takes_together_what_was_given_while_it_synced(bench: Bench) -> None:
    peer = bench.peer("a")
    for number in range(1, 1000):
        peer.send(adding(number))
        bench.settle()
    bench.finish()
    assert peer.take() == b"".join(map(added, range(1, 1000)))
    assert read_through(bench.text).groups == 999
    seals = [(int(size, 16), int(unsynced, 16)) for size, unsynced in re.findall(rb"#HR:(\w+):(\w+):", bench.text)]
    together, syncs = 0, 0
    for size, unsynced in seals:  # those that one sync covers say how much of it stands before them
        if unsynced == 0:
            syncs, together = syncs + 1, 0
        assert unsynced == together
        together += SEAL_BYTES + size
    assert syncs == bench.journal.syncs < 999


def test_a_group_says_how_much_before_it_was_not_synced(tmp_path: Path) -> None:
    bench = Bench(tmp_path / "incr.aof", background=True, policy="everysec")
    peer = bench.peer("a")
    for number in (1, 2, 3):
        peer.send(adding(number))
        bench.settle()
    unsynced = [int(found, 16) for found in re.findall(rb"#HR:\w+:(\w+):", bench.text)]
    ends = [found.start() for found in re.finditer(rb"#HR:", bench.text)]
    assert unsynced == ends
    bench.journal.drain()
    peer.send(adding(4))
    bench.settle()
    assert bench.text.count(b":00000000:") == 2
    bench.journal.close()


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_the_worker_leaves_the_same_file_as_a_journal_without_one(tmp_path: Path, policy: str) -> None:
    """What the simulated disk proves for a journal without a worker therefore holds with one, too."""
    texts = []
    for background in (False, True):
        bench = Bench(tmp_path / f"{background}.aof", background=background, policy=policy)
        bench.journal.room = 3000
        peer = bench.peer("a")
        states = []
        for number in range(1, 30):
            peer.send(adding(number, b"v" * 40 * number))
            bench.finish()
            states.append(bench.text)
        bench.journal.cut_unused()
        texts.append([*states, bench.text])
        bench.journal.close()
    assert texts[0] == texts[1]
    assert texts[0][3].endswith(bytes(1000)) == (policy == "always")
    assert read_through(texts[0][-1]).groups == 29


# --- a slow disk -------------------------------------------------------------------------------------------------


def test_replies_that_wait_are_bounded(bench: Bench) -> None:
    peer = bench.peer("a")
    peer.send(adding(1, b"x" * 1000))
    bench.settle()
    ask = [b"XRANGE", b"s", b"-", b"+"]
    answers = 4000
    peer.send(*[ask] * answers)
    for _ in range(answers):
        bench.settle()
    assert not peer.reading
    assert peer.received == b""
    bench.finish()
    assert peer.reading
    assert peer.take().count(b"x" * 1000) == answers


def test_effects_that_wait_are_bounded_whoever_wants_no_replies(bench: Bench) -> None:
    silent, other = bench.peer("silent"), bench.peer("other")
    silent.ask(b"CLIENT", b"REPLY", b"OFF")
    silent.send(adding(1))
    bench.settle()
    assert bench.journal.busy
    silent.send(*(adding(number, b"x" * MEGABYTE) for number in range(2, 102)))
    bench.settle()
    assert not silent.reading
    assert bench.journal.buffered < 40 * MEGABYTE
    other.ask(b"XLEN", b"s")
    bench.settle()
    assert other.received == b""
    bench.finish()
    assert silent.reading
    assert other.take().startswith(b":")
    other.ask(b"XLEN", b"s")
    assert other.take() == b":101\r\n"
    assert silent.received == b""
    assert len([argv for argv in commands(bench.text) if argv[0] == b"XADD"]) == 101


# --- leaving -----------------------------------------------------------------------------------------------------


def test_quit_is_answered_after_what_was_held_and_then_it_ends(bench: Bench) -> None:
    peer = bench.peer("a")
    peer.send(adding(1), [b"QUIT"])
    bench.settle()
    assert not peer.closing
    bench.disk_done()
    assert bench.events[-2:] == [("reply", "a", added(1) + b"+OK\r\n"), ("close", "a")]


def test_a_client_that_left_is_missed_by_nobody(bench: Bench) -> None:
    gone, other = bench.peer("gone"), bench.peer("other")
    gone.send(adding(1))
    other.send(adding(2))
    bench.settle()
    gone.connection.connection_lost(None)
    bench.finish()
    assert gone.received == b""
    assert other.take() == added(2)


def test_a_client_that_is_killed_gets_nothing_that_was_held(bench: Bench) -> None:
    victim, killer = bench.peer("victim"), bench.peer("killer")
    victim.send(adding(1))
    killer.ask(b"CLIENT", b"KILL", b"ID", b"%d" % victim.connection.client.id)
    bench.finish()
    assert victim.received == b""
    assert killer.take() == b":1\r\n"


def test_client_reply_off_writes_all_the_same(bench: Bench) -> None:
    peer = bench.peer("a")
    peer.send([b"CLIENT", b"REPLY", b"OFF"], adding(1), [b"CLIENT", b"REPLY", b"ON"], adding(2))
    bench.finish()
    assert peer.take() == b"+OK\r\n" + added(2)
    assert b"1-1" in bench.text


def test_a_protocol_error_is_told_after_what_was_held(bench: Bench) -> None:
    peer = bench.peer("a")
    peer.send(adding(1))
    room = peer.connection.get_buffer(16)
    room[:5] = b"*x\r\n\r"[:5]
    peer.connection.buffer_updated(5)
    bench.finish()
    assert peer.received.startswith(added(1) + b"-ERR Protocol error")
    assert peer.closing
