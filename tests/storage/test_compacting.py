"""Segments that are mostly dead are copied while streams change, and nothing of the data does."""

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from headrace.storage.segments.names import DIRECTORY
from support.in_process import InProcessClient
from support.storage.crash_life import ROOT, Clock, Process, time_of
from support.storage.data_picture import Pictures, describe_difference, take_pictures
from support.storage.simulated_disk import ProcessEnded, SimulatedDisk

KEYS = [f"stream:{number}" for number in range(6)]
SETTINGS = {
    "appendfsync": "always",
    "maxmemory": "100000",
    "maxmemory-policy": "offload",
    "stream-node-max-entries": "10",
}
FILLING = "v" * 300


@pytest.fixture
def clock() -> Iterator[Clock]:
    clock = Clock()
    with time_of(clock):
        yield clock


class Host:
    """A process that has little memory."""

    def __init__(self, clock: Clock, disk: SimulatedDisk) -> None:
        self.clock = clock
        self.disk = disk
        self.process = Process(disk, clock, SETTINGS)
        self.process.start()
        self.store = self.process.store
        self.client = InProcessClient(self.process.engine)

    def run(self, *words: str | int) -> bytes:
        """Run a command, and have its effects on disk."""
        return self.process.run(self.client, *words)

    def add(self, key: str, entries: int) -> None:
        for number in range(entries):
            self.client.run("XADD", key, "*", "n", number, "v", FILLING)
        self.run("PING")

    def tick(self) -> None:
        self.clock.now_ms += 1_000
        self.store.tick()

    @property
    def compacted(self) -> int:
        return self.store.offloading.compacted_bytes

    def pictures(self) -> Pictures:
        return take_pictures(self.process.engine)

    def files(self) -> list[str]:
        return self.disk.list(ROOT / DIRECTORY)


def assert_equal(found: Pictures, expected: Pictures) -> None:
    assert found == expected, describe_difference(found, expected)


def test_what_is_alive_of_a_mostly_dead_segment_is_copied_and_the_segment_goes(clock: Clock) -> None:
    host = Host(clock, SimulatedDisk(ROOT))
    for key in KEYS:
        host.add(key, 300)
    host.tick()
    (old,) = host.files()
    expected = host.pictures()
    for key in KEYS[1:5]:
        host.run("DEL", key)
        del expected[0, key.encode()]
    host.tick()
    (new,) = host.files()
    assert new != old
    assert host.compacted == host.store.segments.kept_bytes > 0
    assert_equal(host.pictures(), expected)
    assert_equal(Host(clock, host.disk.restarted()).pictures(), expected)


def test_a_segment_that_the_base_names_stays_until_another_base(clock: Clock) -> None:
    host = Host(clock, SimulatedDisk(ROOT))
    for key in KEYS:
        host.add(key, 300)
    host.tick()
    host.run("BGREWRITEAOF")
    host.tick()
    (old,) = host.files()
    host.run("DEL", *KEYS[1:5])
    expected = host.pictures()
    host.tick()
    assert len(host.files()) == 2
    host = Host(clock, host.disk.restarted())  # which removes what no base names, and copies again
    assert host.files() == [old]
    assert_equal(host.pictures(), expected)
    host.tick()
    assert len(host.files()) == 2
    host.run("BGREWRITEAOF")
    host.tick()
    host.tick()
    assert len(host.files()) == 1
    assert old not in host.files()
    assert_equal(Host(clock, host.disk.restarted()).pictures(), expected)


def test_a_disk_that_refuses_changes_nothing_and_is_tried_again(clock: Clock) -> None:
    host = Host(clock, SimulatedDisk(ROOT))
    for key in KEYS:
        host.add(key, 300)
    host.tick()
    host.run("DEL", *KEYS[1:5])
    expected = host.pictures()
    host.disk.before_change = refuse
    host.tick()
    host.disk.before_change = lambda: None
    assert host.compacted == 0
    assert_equal(host.pictures(), expected)
    host.tick()
    assert host.compacted == 0
    clock.now_ms += 60_000
    host.tick()
    assert host.compacted > 0
    assert_equal(host.pictures(), expected)


def refuse() -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("seed", range(5))
def test_random_histories_with_power_cuts_keep_every_entry(seed: int, clock: Clock) -> None:
    random = Random(seed)
    host = Host(clock, SimulatedDisk(ROOT))
    tally = Counter[str]()
    expected = host.pictures()
    for _ in range(200):
        left = random.choice((5, 20, 100, 10**9))

        def count_down() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise ProcessEnded

        host.disk.before_change = count_down
        before = host.compacted
        try:
            happened = change_or_tick(host, random)
        except ProcessEnded:
            after = host.pictures()
            host = Host(clock, host.disk.power_cut(random))
            assert host.pictures() in (expected, after), describe_difference(host.pictures(), expected)
            tally["power cuts"] += 1
        else:
            tally[happened] += 1
            tally["compactions"] += host.compacted > before
            if happened == "ticks":
                assert_equal(host.pictures(), expected)
        expected = host.pictures()
    assert tally["power cuts"] >= 5
    assert tally["compactions"] >= 2
    host.disk.before_change = lambda: None
    assert_equal(Host(clock, host.disk.restarted()).pictures(), expected)


def change_or_tick(host: Host, random: Random) -> str:
    """Do one thing that is one effect, or let time pass."""
    key = random.choice(KEYS)
    roll = random.random()
    if roll < 0.35:
        host.tick()
        return "ticks"
    if roll < 0.6:
        fields = [part for number in range(random.randint(1, 200)) for part in (f"f{number}", FILLING)]
        script = "for n = 1, #ARGV, 2 do redis.call('XADD', KEYS[1], '*', ARGV[n], ARGV[n + 1]) end"
        host.run("EVAL", script, 1, key, *fields)
    elif roll < 0.7:
        host.run("XTRIM", key, "MAXLEN", random.randint(0, 200))
    elif roll < 0.8:
        length = int(host.client.run("XLEN", key)[1:])
        entries = host.client.run("XRANGE", key, "-", "+", "COUNT", length).split(b"\r\n")
        ids = [word.decode() for word in entries if word.count(b"-") == 1 and word.replace(b"-", b"").isdigit()]
        if ids:
            host.run("XDEL", key, *random.sample(ids, random.randint(1, len(ids))))
    elif roll < 0.87:
        host.run("DEL", key)
    elif roll < 0.92:
        host.run("COPY", key, random.choice(KEYS), "REPLACE")
    else:
        host.run("BGREWRITEAOF")
    return "changes"
