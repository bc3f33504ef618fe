"""A rewrite opens its increment, and its base becomes the base, beside the event loop, while clients go on writing."""

from collections.abc import Callable, Iterator
from errno import EIO
from functools import partial
from random import Random

import pytest

from headrace.storage.beside import DiskSteps, Steps
from support.in_process import InProcessClient
from support.storage.crash_life import ROOT, Clock, Process, time_of
from support.storage.simulated_disk import SimulatedDisk

MANIFEST = ROOT / "appendonlydir" / "appendonly.aof.manifest"


class Begun:
    """A process that was asked for a rewrite; a thread has not done its jobs yet."""

    def __init__(self, policy: str = "always") -> None:
        self.clock = Clock()
        self.disk = SimulatedDisk(ROOT)
        self.process = Process(self.disk, self.clock, {"appendfsync": policy})
        self.process.defer_jobs()
        self.process.start()
        self.client = InProcessClient(self.process.engine)
        self.run("SET", "before", "1")
        self.process.journal.cut_unused()
        self.noted = len(self.disk.operations)
        assert self.client.run("BGREWRITEAOF").startswith(b"+Background append only file rewriting started")

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
        return self.started_on(self.disk.restarted())

    def end_rewrite(self) -> None:
        while self.goes_on:
            self.process.let_thread_work()
            self.process.let_worker_work()
            self.process.store.tick()

    def after_power_cut(self) -> InProcessClient:
        """What a process finds that starts on what the disk has now; this one lives on."""
        return self.started_on(self.disk.power_cut(Random(1)))

    def started_on(self, disk: SimulatedDisk) -> InProcessClient:
        process = Process(disk, self.clock, {"appendfsync": "always"})
        process.start()
        assert process.log.warnings == []
        return InProcessClient(process.engine)


class Rewritten(Begun):
    """A process whose child has written a new base; a thread has not done what follows yet."""

    def __init__(self) -> None:
        super().__init__()
        self.process.let_thread_work()
        self.noted = len(self.disk.operations)
        self.process.store.tick()


@pytest.fixture
def begun() -> Iterator[Begun]:
    life = Begun()
    with time_of(life.clock):
        yield life


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


ONE = OLD[:2]


def test_the_event_loop_does_nothing_to_the_disk_when_a_rewrite_begins(begun: Begun) -> None:
    """It waited for three syncs at the beginning of each rewrite, and all clients with it."""
    assert begun.disk.operations[begun.noted :] == []
    assert begun.goes_on
    assert begun.client.run("BGREWRITEAOF").startswith(b"-ERR Background append only file rewriting already")
    assert begun.run("SET", "meanwhile", "1") == b"+OK\r\n"
    assert begun.named == ONE
    assert begun.after_power_cut().run("MGET", "before", "meanwhile") == b"*2\r\n$1\r\n1\r\n$1\r\n1\r\n"
    begun.process.let_thread_work()
    assert begun.named == OLD
    assert begun.goes_on
    assert begun.run("SET", "later", "1") == b"+OK\r\n"
    assert begun.after_kill().run("MGET", "before", "meanwhile", "later") == b"*3" + b"\r\n$1\r\n1" * 3 + b"\r\n"


@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_nothing_is_in_the_new_increment_before_all_of_the_old_one_is_on_disk(policy: str) -> None:
    begun = Begun(policy)
    with time_of(begun.clock):
        begun.client.run("SET", "last", "1")  # neither written nor synced when the increment changes
        begun.process.let_thread_work()
        assert begun.process.journal.changes_file
        begun.client.run("SET", "first", "1")
        begun.process.commit()
        begun.process.store.tick()
        begun.process.store.tick()  # the child is ready, and its base must wait
        old, new = (bytes(begun.disk.read(MANIFEST.with_name(each.split()[0]))) for each in begun.named[1:])
        assert b"first" not in old + new
        assert begun.named == OLD
        assert begun.after_power_cut().run("MGET", "before", "first") == b"*2\r\n$1\r\n1\r\n$-1\r\n"
        begun.process.let_worker_work()
        assert not begun.process.journal.changes_file
        assert begun.run("SET", "second", "1") == b"+OK\r\n"
        old, new = (bytes(begun.disk.read(MANIFEST.with_name(each.split()[0]))) for each in begun.named[1:])
        assert b"last" in old
        assert b"first" not in old
        assert b"last" not in new
        assert new.index(b"first") < new.index(b"second")
        begun.process.store.tick()
        while begun.process.jobs:
            begun.process.let_thread_work()
        assert begun.named == NEW
        assert begun.after_kill().run("MGET", "before", "last", "first") == b"*3" + b"\r\n$1\r\n1" * 3 + b"\r\n"


def test_a_disk_that_refuses_the_last_of_the_old_increment_ends_the_rewrite(begun: Begun) -> None:
    """What was taken meanwhile goes on in the increment of before, and nothing is lost."""
    assert begun.client.run("SET", "last", "1") == b"+OK\r\n"
    begun.process.let_thread_work()
    assert begun.client.run("SET", "first", "1") == b"+OK\r\n"

    def refuse() -> None:
        if begun.disk.attempted.startswith(("write", "place")):
            raise OSError(EIO, "refused")

    begun.disk.before_change = refuse
    begun.process.let_worker_work()
    assert begun.process.journal.failing
    assert not begun.process.journal.changes_file
    assert not begun.goes_on
    begun.disk.before_change = lambda: None
    assert b"aof_last_bgrewrite_status:err" in begun.client.run("INFO", "persistence")
    begun.clock.now_ms += 1000
    begun.process.store.tick()
    assert not begun.process.journal.failing
    assert begun.run("SET", "after", "1") == b"+OK\r\n"
    everything = b"*4" + b"\r\n$1\r\n1" * 4 + b"\r\n"
    assert begun.after_power_cut().run("MGET", "before", "last", "first", "after") == everything
    assert begun.client.run("BGREWRITEAOF").startswith(b"+Background append only file rewriting started")
    begun.end_rewrite()
    assert [name.split()[1] for name in begun.named] == ["b", "i"]
    assert begun.after_kill().run("MGET", "before", "last", "first", "after") == everything


def test_a_snapshot_that_begins_meanwhile_is_waited_for(begun: Begun) -> None:
    assert begun.client.run("BGSAVE") == b"+Background saving started\r\n"
    begun.process.let_thread_work()
    assert begun.named == OLD
    assert b"rdb_bgsave_in_progress:1" in begun.client.run("INFO", "persistence")
    assert begun.run("SET", "meanwhile", "1") == b"+OK\r\n"
    for _ in range(3):
        begun.process.store.tick()
    while begun.process.jobs:
        begun.process.let_thread_work()
    assert begun.named == NEW
    assert begun.after_kill().run("MGET", "before", "meanwhile") == b"*2\r\n$1\r\n1\r\n$1\r\n1\r\n"


@pytest.mark.parametrize("jobs", [0, 1])
def test_what_must_not_wait_ends_a_rewrite_that_begins(begun: Begun, jobs: int) -> None:
    for _ in range(jobs):
        begun.client.run("SET", "last", "1")
        begun.process.let_thread_work()
    assert begun.run("CONFIG", "SET", "appendonly", "no") == b"+OK\r\n"
    assert not begun.goes_on
    while begun.process.jobs:  # the thread is late, and does nothing twice
        begun.process.let_thread_work()
    assert not begun.goes_on
    assert begun.disk.open_files == 1  # the lock
    assert begun.run("CONFIG", "SET", "appendonly", "yes") == b"+OK\r\n"
    assert begun.after_kill().run("MGET", "before", "last") == b"*2\r\n$1\r\n1\r\n" + (
        b"$1\r\n1\r\n" if jobs else b"$-1\r\n"
    )


def test_a_disk_that_refuses_the_increment_leaves_what_the_manifest_named(begun: Begun) -> None:
    def refuse() -> None:
        if "manifest" in begun.disk.attempted:
            raise OSError(EIO, "refused")

    begun.disk.before_change = refuse
    begun.process.let_thread_work()
    assert begun.named == ONE
    assert not begun.goes_on
    assert b"aof_last_bgrewrite_status:err" in begun.client.run("INFO", "persistence")
    begun.disk.before_change = lambda: None
    assert begun.run("SET", "later", "1") == b"+OK\r\n"
    assert begun.after_kill().run("MGET", "before", "later") == b"*2\r\n$1\r\n1\r\n$1\r\n1\r\n"


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
    rewritten.end_rewrite()
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
