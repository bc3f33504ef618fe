"""Rewriting append-only files that nobody writes to."""

from support.in_process import InProcessClient
from support.storage.crash_life import ROOT, Clock, Process
from support.storage.simulated_disk import SimulatedDisk


def test_a_scheduled_rewrite_begins_no_journal_while_effects_are_not_written() -> None:
    """Regression: asked for during a snapshot, it began a journal that no effect reached."""
    process = Process(SimulatedDisk(ROOT), Clock(), {})
    process.start()
    client = InProcessClient(process.engine)
    client.run("CONFIG", "SET", "appendonly", "no")
    client.run("BGSAVE")
    assert client.run("BGREWRITEAOF") == b"+Background append only file rewriting scheduled\r\n"
    client.run("SET", "later", "is in the base")
    process.store.tick()
    process.store.tick()
    assert not process.store.appends
    assert process.store.journal.file is None


def test_older_files_do_not_count_beside_a_base_that_is_written_alone() -> None:
    """A start without appendonly does not read their manifest; once the next start took them for forgotten."""
    disk = SimulatedDisk(ROOT)
    first = Process(disk, Clock(), {})
    first.start()
    InProcessClient(first.engine).run("SET", "first", "1")
    first.store.journal.drain()
    second = Process(disk.restarted(), Clock(), {"appendonly": "no"})
    second.start()
    client = InProcessClient(second.engine)
    client.run("SET", "second", "2")
    assert client.run("BGREWRITEAOF") == b"+Background append only file rewriting started\r\n"
    second.store.tick()
    third = Process(second.disk.restarted(), Clock(), {})
    third.start()
    assert InProcessClient(third.engine).run("KEYS", "*") == b"*1\r\n$6\r\nsecond\r\n"


def test_a_scheduled_rewrite_is_forgotten_when_effects_are_no_longer_written() -> None:
    process = Process(SimulatedDisk(ROOT), Clock(), {})
    process.start()
    client = InProcessClient(process.engine)
    client.run("BGSAVE")
    assert client.run("BGREWRITEAOF") == b"+Background append only file rewriting scheduled\r\n"
    client.run("CONFIG", "SET", "appendonly", "no")
    process.store.tick()
    process.store.tick()
    assert not process.store.appends
