"""A disk that refuses at any operation loses nothing that was acknowledged. See refused_life.

HEADRACE_LONG=1      every operation of many lives, in every way
HEADRACE_SEED=n      the life of that seed
"""

from collections import Counter
from collections.abc import Iterator
from errno import EDQUOT, EIO, ENOSPC

import pytest

from support.campaign import LONG, SEED
from support.in_process import InProcessClient
from support.storage.crash_life import ROOT, Clock, Process, time_of
from support.storage.refused_life import Refusal, RefusedLife
from support.storage.simulated_disk import SimulatedDisk

SEEDS = range(4) if SEED is None else (SEED,)
SEEDS_OF_CAMPAIGN = range(60) if SEED is None else (SEED,)
STEPS = 40
POLICIES = ("always", "everysec", "always", "no")
ERRORS = (ENOSPC, EIO, EDQUOT)
WAYS = ((1, False), (1, True), (3, False), (40, True))  # how many operations are refused, after half a write or not


def live(seed: int, refusal: Refusal | None) -> RefusedLife:
    life = RefusedLife(f"{seed}", refusal, POLICIES[seed % len(POLICIES)])
    try:
        with time_of(life.clock):
            life.live(STEPS)
    except Exception as error:
        error.add_note(f"HEADRACE_SEED={seed} replays this, with {refusal}")
        raise
    return life


def refusals(operations: int, seed: int, *, every: bool) -> Iterator[Refusal]:
    """Choose each operation once or, in a campaign, in every way; else one in four, others for each seed."""
    for first in range(1 + (0 if every else seed), operations + 1, 1 if every else 4):
        for way in range(len(WAYS)) if every else ((first // 4 + seed) % len(WAYS),):
            count, half = WAYS[way]
            yield Refusal(first, count, ERRORS[(first + way) % len(ERRORS)], half)


def live_refused(seeds: range | tuple[int], *, every: bool) -> Counter[str]:
    tally = Counter[str]()
    for seed in seeds:
        for refusal in refusals(live(seed, None).operation, seed, every=every):
            life = live(seed, refusal)
            tally += life.tally
            tally["lives"] += 1
            tally["refused journals"] += life.failed
            for operation in life.refused:
                tally[operation.split()[0]] += 1
    return tally


def assert_everything_was_refused(tally: Counter[str]) -> None:
    for operation in ("create", "write", "sync", "rename", "truncate", "unlink", "make"):
        assert tally[operation], f"nothing that begins with {operation!r} was refused"
    for situation in ("refused journals", "starts that were refused"):
        assert tally[situation] >= 10, f"{situation}: {tally[situation]}"


@pytest.mark.skipif(LONG, reason="the campaign has it")
def test_a_disk_that_refuses_some_operation_loses_nothing_that_was_acknowledged() -> None:
    assert_everything_was_refused(live_refused(SEEDS, every=SEED is not None))


@pytest.mark.skipif(not LONG, reason="a campaign: HEADRACE_LONG=1")
def test_a_campaign_of_refused_operations() -> None:
    assert_everything_was_refused(live_refused(SEEDS_OF_CAMPAIGN, every=True))


# --- what such lives have found --------------------------------------------------------------------------------------


class Refusing:
    """A process on a disk that refuses the operations which begin with a word, and its first client."""

    def __init__(self, word: str) -> None:
        self.clock = Clock()
        self.disk = SimulatedDisk(ROOT)
        self.process = self._started(self.disk)
        self.client = InProcessClient(self.process.engine)
        self._word = word

    def refuse(self, error: int) -> None:
        def before_change() -> None:
            if self.disk.attempted.startswith(self._word):
                raise OSError(error, "refused")

        self.disk.before_change = before_change

    def accept(self) -> None:
        self.disk.before_change = lambda: None

    def run(self, *words: str) -> bytes:
        return self.process.run(self.client, *words)

    def pass_time(self, ms: int) -> None:
        self.clock.now_ms += ms
        self.process.engine.tick()

    def killed(self) -> InProcessClient:
        """A client of the next process."""
        process = self._started(self.disk.restarted())
        process.engine.tick()
        assert process.log.warnings == []
        return InProcessClient(process.engine)

    def _started(self, disk: SimulatedDisk) -> Process:
        process = Process(disk, self.clock, {"appendfsync": "always"})
        process.start()
        return process


@pytest.fixture
def refusing(request: pytest.FixtureRequest) -> Iterator[Refusing]:
    life = Refusing(request.param)
    with time_of(life.clock):
        yield life


@pytest.mark.parametrize("refusing", ["sync"], indirect=True)
def test_a_key_that_expires_while_the_journal_is_mended_stays_expired(refusing: Refusing) -> None:
    """Otherwise the next write to it, which was acknowledged, is repeated on the value that had expired."""
    refusing.run("SET", "k", "old", "PX", "1000")
    refusing.refuse(EIO)
    refusing.run("XADD", "s", "*", "f", "v")
    refusing.accept()
    refusing.pass_time(600)
    refusing.process.store.tick()  # a base is written, which has the key
    refusing.pass_time(600)
    assert refusing.run("EXISTS", "k") == b":0\r\n"
    refusing.process.store.tick()
    assert not refusing.process.journal.failing
    refusing.run("XADD", "k", "1-1", "f", "v")
    client = refusing.killed()
    assert client.run("XRANGE", "k", "-", "+") == b"*1\r\n*2\r\n$3\r\n1-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n"
    assert client.run("PTTL", "k") == b":-1\r\n"


@pytest.mark.parametrize("refusing", ["truncate"], indirect=True)
def test_a_policy_that_the_disk_does_not_let_change_is_refused_in_words(refusing: Refusing) -> None:
    refusing.run("XADD", "s", "1-1", "f", "v")
    refusing.refuse(EIO)
    reply = refusing.run("CONFIG", "SET", "appendfsync", "everysec")
    assert reply.startswith(b"-ERR CONFIG SET failed (possibly related to argument 'appendfsync')")
    assert reply.endswith(b"cannot be changed for it: refused\r\n")
    assert refusing.run("CONFIG", "GET", "appendfsync").endswith(b"always\r\n")
    refusing.run("XADD", "s", "2-1", "f", "v")
    refusing.accept()
    assert refusing.run("CONFIG", "SET", "appendfsync", "everysec") == b"+OK\r\n"
    refusing.run("XADD", "s", "3-1", "f", "v")
    assert refusing.killed().run("XLEN", "s") == b":3\r\n"


@pytest.mark.parametrize("refusing", ["write"], indirect=True)
def test_what_the_disk_refuses_at_the_end_is_tried_once_more(refusing: Refusing) -> None:
    refusing.client.run("XADD", "s", "1-1", "f", "v")
    refusing.refuse(ENOSPC)
    refusing.process.journal.on_failure = lambda *_: refusing.accept()
    refusing.process.store.close()
    assert refusing.killed().run("XLEN", "s") == b":1\r\n"
