"""Keys beside streams: whoever watches a kind hears of every change, by whatever means."""

import pytest

from headrace.engine.database import Database
from headrace.engine.side_keys import side_key
from support.in_process import InProcess

KEY = side_key(b"orders", b"planned")


class Watcher:
    """Notes what a database has of the watched kind."""

    def __init__(self) -> None:
        self.known: dict[int, dict[bytes, object]] = {}

    def changed(self, db: Database, side: bytes, key: bytes) -> None:
        assert side == side_key(key, b"planned")
        value = db.values.get(side)
        held = self.known.setdefault(db.number, {})
        if value is None:
            held.pop(key, None)
        else:
            held[key] = list(value)

    def cleared(self, db: Database) -> None:
        self.known.pop(db.number, None)

    def swapped(self, db: Database, other: Database) -> None:
        self.known[db.number], self.known[other.number] = (
            self.known.get(other.number, {}),
            self.known.get(db.number, {}),
        )


@pytest.fixture
def server() -> InProcess:
    return InProcess()


@pytest.fixture
def watcher(server: InProcess) -> Watcher:
    watcher = Watcher()
    server.engine.side_keys.watch(b"planned", watcher)
    return watcher


def test_every_change_of_a_sorted_set_is_heard(server: InProcess, watcher: Watcher) -> None:
    server.run("ZADD", KEY, 1, "a")
    assert watcher.known[0] == {b"orders": [b"a"]}
    server.run("ZADD", KEY, "NX", 2, "b", 3, "c", 4, "d")
    assert watcher.known[0] == {b"orders": [b"a", b"b", b"c", b"d"]}
    server.run("ZINCRBY", KEY, 10, "a")
    server.run("ZREM", KEY, "d")
    assert watcher.known[0] == {b"orders": [b"b", b"c", b"a"]}
    server.run("ZPOPMIN", KEY)
    server.run("ZREMRANGEBYRANK", KEY, -1, -1)
    assert watcher.known[0] == {b"orders": [b"c"]}
    server.run("EVAL", "return redis.call('ZADD', KEYS[1], 9, 'z')", 1, KEY)
    assert watcher.known[0] == {b"orders": [b"c", b"z"]}
    server.run("ZREM", KEY, "c", "z")
    assert watcher.known[0] == {}


def test_keys_that_move_come_and_go_are_heard(server: InProcess, watcher: Watcher) -> None:
    other = side_key(b"bills", b"planned")
    server.run("ZADD", KEY, 1, "a")
    server.run("RENAME", KEY, other)
    assert watcher.known[0] == {b"bills": [b"a"]}
    server.run("COPY", other, KEY)
    assert watcher.known[0] == {b"bills": [b"a"], b"orders": [b"a"]}
    server.run("MOVE", KEY, 3)
    assert (watcher.known[0], watcher.known[3]) == ({b"bills": [b"a"]}, {b"orders": [b"a"]})
    server.run("SWAPDB", 0, 3)
    assert (watcher.known[3], watcher.known[0]) == ({b"bills": [b"a"]}, {b"orders": [b"a"]})
    server.run("ZUNIONSTORE", other, 1, KEY)
    assert watcher.known[0] == {b"bills": [b"a"], b"orders": [b"a"]}
    server.run("SET", KEY, "xy")
    assert watcher.known[0] == {b"bills": [b"a"], b"orders": [*b"xy"]}
    server.run("UNLINK", KEY)
    assert watcher.known[0] == {b"bills": [b"a"]}
    server.run("FLUSHALL")
    assert watcher.known == {}


def test_a_key_that_expires_is_heard(server: InProcess, watcher: Watcher) -> None:
    server.set_clock(1_000_000)
    server.run("ZADD", KEY, 1, "a")
    server.run("PEXPIRE", KEY, 5000)
    server.set_clock(1_010_000)
    server.engine.tick()
    assert watcher.known[0] == {}


def test_other_kinds_and_other_keys_are_not_reported(server: InProcess, watcher: Watcher) -> None:
    for key in ("headrace:{orders}:batches", "headrace:{orders}", "headrace:{", "headrace:", "orders"):
        server.run("ZADD", key, 1, "a")
    assert watcher.known == {}
