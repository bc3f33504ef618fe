"""Rewriting append-only files that nobody writes to."""

from support.in_process import InProcessClient
from support.storage.crash_life import ROOT, Clock, Process
from support.storage.simulated_disk import SimulatedDisk


def test_no_rewrite_is_scheduled_while_effects_are_not_written() -> None:
    """Once it began a journal that no effect reached, when a snapshot was being written as it was asked for."""
    process = Process(SimulatedDisk(ROOT), Clock(), {})
    process.start()
    client = InProcessClient(process.engine)
    client.run("CONFIG", "SET", "appendonly", "no")
    client.run("BGSAVE")
    assert client.run("BGREWRITEAOF").startswith(b"-ERR There are no append only files")
    process.store.tick()
    process.store.tick()
    assert not process.store.appends


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
