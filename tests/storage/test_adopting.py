"""A base that was written becomes the base beside the event loop, while clients go on writing."""

from collections.abc import Callable, Iterator
from errno import EIO
from functools import partial

import pytest

from headrace.storage.beside import DiskSteps, Steps
from support.in_process import InProcessClient
from support.storage.crash_life import ROOT, Clock, Process, time_of
from support.storage.simulated_disk import SimulatedDisk

MANIFEST = ROOT / "appendonlydir" / "appendonly.aof.manifest"


class Rewritten:
    """A process whose child has written a new base; a thread has not done its jobs yet."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.disk = SimulatedDisk(ROOT)
        self.process = Process(self.disk, self.clock, {"appendfsync": "always"})
        self.process.defer_jobs()
        self.process.start()
        self.client = InProcessClient(self.process.engine)
        self.run("SET", "before", "1")
        assert self.client.run("BGREWRITEAOF").startswith(b"+Background append only file rewriting started")
        self.noted = len(self.disk.operations)
        self.process.store.tick()

    def run(self, *words: str) -> bytes:
        return self.process.run(self.client, *words)

    @property
    def named(self) -> list[str]:
        """The files that the manifest on disk names, and of which kind."""
        lines = bytes(self.disk.read(MANIFEST)).decode().split("\n")
        return [f"{line.split()[1]} {line.split()[5]}" for line in lines if line.startswith("file")]

    @property
    def goes_on(self) -> bool:
        return b"aof_rewrite_in_progress:1" in self.client.run("INFO", "persistence")

    def after_kill(self) -> InProcessClient:
        process = Process(self.disk.restarted(), self.clock, {"appendfsync": "always"})
        process.start()
        assert process.warnings.sentences == []
        return InProcessClient(process.engine)


@pytest.fixture
def rewritten() -> Iterator[Rewritten]:
    life = Rewritten()
    with time_of(life.clock):
        yield life


OLD = [
    "appendonly.aof.1.base.rdb b",
    "appendonly.aof.1.incr.aof i",
    "appendonly.aof.2.incr.aof i",
]
NEW = ["appendonly.aof.2.base.rdb b", "appendonly.aof.2.incr.aof i"]


def test_the_event_loop_does_nothing_to_the_disk_when_a_base_is_adopted(rewritten: Rewritten) -> None:
    """It waited for six syncs at the end of each rewrite, and all clients with it."""
    assert rewritten.disk.operations[rewritten.noted :] == []
    assert rewritten.goes_on
    assert rewritten.client.run("BGREWRITEAOF").startswith(b"-ERR Background append only file rewriting already")
    assert rewritten.named == OLD
    rewritten.process.let_thread_work()
    noted = len(rewritten.disk.operations)
    assert rewritten.named[0] == NEW[0]
    assert rewritten.goes_on
    assert rewritten.run("SET", "meanwhile", "1") == b"+OK\r\n"
    assert not [each for each in rewritten.disk.operations[noted:] if "manifest" in each or "unlink" in each]
    rewritten.process.let_thread_work()
    assert rewritten.named == NEW
    assert not rewritten.goes_on
    assert rewritten.after_kill().run("MGET", "before", "meanwhile") == b"*2\r\n$1\r\n1\r\n$1\r\n1\r\n"


@pytest.mark.parametrize("jobs", [0, 1])
def test_what_must_not_wait_ends_the_adoption_first(rewritten: Rewritten, jobs: int) -> None:
    for _ in range(jobs):
        rewritten.process.let_thread_work()
    assert rewritten.run("CONFIG", "SET", "appendonly", "no") == b"+OK\r\n"
    assert rewritten.named == NEW
    assert not rewritten.goes_on
    while rewritten.process.jobs:  # the thread is late, and does nothing twice
        rewritten.process.let_thread_work()
    assert rewritten.run("CONFIG", "SET", "appendonly", "yes") == b"+OK\r\n"
    assert rewritten.after_kill().run("GET", "before") == b"$1\r\n1\r\n"


@pytest.mark.parametrize("jobs", [0, 1])
def test_a_disk_that_refuses_leaves_what_the_manifest_named(rewritten: Rewritten, jobs: int) -> None:
    for _ in range(jobs):
        rewritten.process.let_thread_work()
    named = rewritten.named

    def refuse() -> None:
        if "manifest" in rewritten.disk.attempted:
            raise OSError(EIO, "refused")

    rewritten.disk.before_change = refuse
    rewritten.process.let_thread_work()
    assert rewritten.named == named
    assert not rewritten.goes_on
    status = b"aof_last_bgrewrite_status:ok" if jobs else b"aof_last_bgrewrite_status:err"
    assert status in rewritten.client.run("INFO", "persistence")
    rewritten.disk.before_change = lambda: None
    assert rewritten.run("SET", "later", "1") == b"+OK\r\n"
    assert rewritten.client.run("BGREWRITEAOF").startswith(b"+Background append only file rewriting started")
    rewritten.process.store.tick()
    while rewritten.process.jobs:
        rewritten.process.let_thread_work()
    assert rewritten.named[0].endswith(".base.rdb b")
    assert not [each for each in rewritten.named if each.endswith(" h")]
    assert rewritten.after_kill().run("MGET", "before", "later") == b"*2\r\n$1\r\n1\r\n$1\r\n1\r\n"


def test_a_job_that_was_finished_by_who_could_not_wait_is_followed_once() -> None:
    done: list[str] = []
    later: list[Callable[[], None]] = []

    def steps() -> Steps:
        yield partial(done.append, "first")
        yield partial(done.append, "second")

    def beside(job: Callable[[], object], follow: Callable[[object], None]) -> None:
        later.append(lambda: follow(job()))

    adopting = DiskSteps(steps(), beside, lambda error: done.append(f"end {error}"))
    adopting.start()
    adopting.finish()
    for thread in later:  # the thread that was to do the first is late
        thread()
    assert done == ["first", "second", "end None"]
