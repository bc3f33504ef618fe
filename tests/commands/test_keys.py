"""Keys of every type: scanning while they come and go, expiring to the millisecond, watching, idling."""

import random

import pytest

from support.in_process import InProcess

NOON = 1_700_000_000_000


@pytest.fixture
def engine() -> InProcess:
    engine = InProcess()
    engine.set_clock(NOON)
    engine.engine.tick()
    return engine


# --- looking a key up --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "type_then"),
    [
        ("DEL looked-at", b"none"),
        ("SET looked-at text", b"string"),
        ("RENAME other looked-at", b"string"),
        ("RENAME looked-at elsewhere", b"none"),
        ("SWAPDB 0 1", b"none"),
        ("MOVE looked-at 1", b"none"),
        ("COPY other looked-at REPLACE", b"string"),
        ("FLUSHDB", b"none"),
        ("FLUSHALL", b"none"),
        ("PEXPIREAT looked-at 1", b"none"),
    ],
)
def test_a_key_that_was_just_looked_at_is_seen_as_it_now_is(engine: InProcess, change: str, type_then: bytes) -> None:
    engine.run("SET", "other", "text")
    engine.run("XADD", "looked-at", "1-1", "field", "value")
    assert engine.run("TYPE", "looked-at") == b"+stream\r\n"
    engine.run(*change.split())
    assert engine.run("TYPE", "looked-at") == b"+%s\r\n" % type_then


def test_a_key_that_was_just_missed_is_found_once_it_is_there(engine: InProcess) -> None:
    assert engine.run("XLEN", "s") == b":0\r\n"
    engine.run("XADD", "s", "1-1", "field", "value")
    assert engine.run("XLEN", "s") == b":1\r\n"


# --- scanning --------------------------------------------------------------------------------------------------


def scan_step(engine: InProcess, cursor: bytes, count: int) -> tuple[bytes, list[bytes]]:
    _, _, following, _, *keys = engine.run("SCAN", cursor, "COUNT", count).split(b"\r\n")[:-1]
    return following, keys[1::2]


@pytest.mark.parametrize("count", [1, 7, 100])
def test_a_scan_gives_every_key_that_was_there_all_the_time_while_others_come_and_go(
    engine: InProcess, count: int
) -> None:
    chance = random.Random(count)
    staying = {b"stays-%d" % number for number in range(200)}
    passing = [b"passes-%d" % number for number in range(400)]
    for key in chance.sample([*staying, *passing[:200]], 400):
        engine.run("SET", key, "")
    seen: set[bytes] = set()
    cursor = b"0"
    while True:
        cursor, keys = scan_step(engine, cursor, count)
        seen.update(keys)
        if cursor == b"0":
            break
        for _ in range(5):
            engine.run(chance.choice(("DEL", "SADD", "RENAME")), *chance.sample(passing, 2))
    assert staying <= seen


def test_a_scan_gives_no_key_twice_while_nothing_changes(engine: InProcess) -> None:
    for number in range(1000):
        engine.run("SET", number, "")
    cursor, keys = scan_step(engine, b"0", 10)
    while cursor != b"0":
        cursor, more = scan_step(engine, cursor, 10)
        keys += more
    assert sorted(keys) == sorted(b"%d" % number for number in range(1000))


def test_a_scan_passes_quickly_over_keys_that_are_gone(engine: InProcess) -> None:
    for number in range(10_000):
        engine.run("SET", number, "")
    for number in range(9_999):
        engine.run("DEL", number)
    cursor, keys = scan_step(engine, b"0", 10)
    steps = 1
    while cursor != b"0":
        cursor, more = scan_step(engine, cursor, 10)
        keys += more
        steps += 1
    assert keys == [b"9999"]
    assert steps <= 100


# --- expiring --------------------------------------------------------------------------------------------------


def test_a_key_lives_through_the_millisecond_it_expires_at_and_no_longer(engine: InProcess) -> None:
    engine.run("SET", "key", "value", "PX", 100)
    engine.set_clock(NOON + 100)
    assert engine.run("PTTL", "key") == b":0\r\n"
    assert engine.run("GET", "key") == b"$5\r\nvalue\r\n"
    engine.set_clock(NOON + 101)
    engine.take_effects()
    assert engine.run("GET", "key") == b"$-1\r\n"
    assert engine.take_effects() == [(0, [b"DEL", b"key"])]


def test_keys_that_nobody_looks_at_expire_at_the_next_tick(engine: InProcess) -> None:
    for number in range(100):
        engine.run("SET", number, "", "PX", 100 + number)
    engine.run("PERSIST", 0)
    engine.run("PEXPIRE", 1, 100_000)
    engine.take_effects()
    engine.set_clock(NOON + 151)
    engine.engine.tick()
    assert engine.run("DBSIZE") == b":51\r\n"
    assert engine.take_effects() == [(0, [b"DEL", b"%d" % number]) for number in range(2, 51)]


def test_an_expired_key_is_neither_listed_nor_scanned(engine: InProcess) -> None:
    engine.run("SET", "old", "", "PX", 100)
    engine.run("SET", "new", "")
    engine.set_clock(NOON + 101)
    assert engine.run("KEYS", "*") == b"*1\r\n$3\r\nnew\r\n"
    assert scan_step(engine, b"0", 10) == (b"0", [b"new"])


def test_seconds_to_live_are_rounded_to_the_nearest(engine: InProcess) -> None:
    engine.run("SET", "key", "")
    for milliseconds, seconds in ((1499, 1), (1500, 2), (499, 0)):
        engine.run("PEXPIRE", "key", milliseconds)
        assert engine.run("TTL", "key") == b":%d\r\n" % seconds


def test_a_value_takes_its_expiry_along(engine: InProcess) -> None:
    engine.run("SET", "a", "", "PX", 5000)
    engine.run("RENAME", "a", "b")
    engine.run("COPY", "b", "c")
    engine.run("MOVE", "b", 1)
    assert engine.run("PTTL", "c") == b":5000\r\n"
    engine.run("SELECT", 1)
    assert engine.run("PTTL", "b") == b":5000\r\n"
    engine.set_clock(NOON + 5001)
    engine.engine.tick()
    assert engine.run("DBSIZE") == b":0\r\n"


def test_a_key_restored_to_live_longer_than_time_itself_lives(engine: InProcess) -> None:
    engine.run("SET", "key", "value")
    payload = engine.run("DUMP", "key").partition(b"\r\n")[2][:-2]
    assert engine.run("RESTORE", "copy", 2**63 - 1, payload) == b"+OK\r\n"
    assert engine.run("GET", "copy") == b"$5\r\nvalue\r\n"


# --- watching --------------------------------------------------------------------------------------------------

CHANGES = [
    ("DEL key",),
    ("EXPIRE key 100",),
    ("EXPIRE key -1",),
    ("EXPIRE key 100", "PERSIST key"),
    ("RENAME key elsewhere",),
    ("RENAME other key",),
    ("COPY other key REPLACE",),
    ("MOVE key 1",),
    ("SWAPDB 0 1",),
    ("FLUSHDB",),
    ("FLUSHALL",),
    ("SET key value",),
    ("RPUSH key element",),
    ("LPOP key",),
]
NO_CHANGES = [
    ("DEL missing",),
    ("TOUCH key",),
    ("TTL key",),
    ("PERSIST key",),
    ("EXPIRE key 100 XX",),
    ("RENAMENX other key",),
    ("COPY other key",),
    ("COPY key elsewhere",),
    ("SWAPDB 1 2",),
    ("LRANGE key 0 -1",),
    ("SET key value NX",),
]


@pytest.mark.parametrize(
    ("commands", "fails"), [*((each, True) for each in CHANGES), *((each, False) for each in NO_CHANGES)]
)
def test_a_transaction_fails_where_its_watched_key_was_changed(
    engine: InProcess, commands: tuple[str, ...], fails: bool
) -> None:
    engine.run("RPUSH", "key", "a", "b")
    engine.run("SET", "other", "")
    *before, command = commands
    for each in before:
        engine.run(*each.split())
    watcher = engine.connect()
    watcher.run("WATCH", "key")
    engine.run(*command.split())
    watcher.run("MULTI")
    assert watcher.run("EXEC") == (b"*-1\r\n" if fails else b"*0\r\n")


# --- idling ----------------------------------------------------------------------------------------------------


def idle_seconds(engine: InProcess, key: str) -> int:
    return int(engine.run("OBJECT", "IDLETIME", key)[1:])


def test_a_key_idles_until_a_command_looks_at_its_value(engine: InProcess) -> None:
    engine.run("SET", "key", "value")
    engine.set_clock(NOON + 60_000)
    engine.engine.tick()
    for command in ("TTL", "TYPE", "EXISTS"):
        engine.run(command, "key")
        assert idle_seconds(engine, "key") == 60
    engine.run("GET", "key")
    assert idle_seconds(engine, "key") == 0


def test_only_touch_ends_idling_for_a_client_that_set_no_touch(engine: InProcess) -> None:
    engine.run("SET", "key", "value")
    engine.set_clock(NOON + 60_000)
    engine.engine.tick()
    reader = engine.connect()
    reader.client.no_touch = True
    reader.run("GET", "key")
    assert idle_seconds(engine, "key") == 60
    reader.run("TOUCH", "key")
    assert idle_seconds(engine, "key") == 0


def test_restore_says_for_how_long_a_key_has_been_idle(engine: InProcess) -> None:
    engine.run("SET", "key", "value")
    payload = engine.run("DUMP", "key").partition(b"\r\n")[2][:-2]
    engine.run("RESTORE", "copy", 0, payload, "IDLETIME", 1000)
    assert idle_seconds(engine, "copy") == 1000


# --- memory ----------------------------------------------------------------------------------------------------


def test_memory_usage_grows_with_the_value(engine: InProcess) -> None:
    sizes = []
    for number in (1, 100, 10_000):
        engine.run("DEL", "list")
        engine.run("RPUSH", "list", *(f"element {n}" for n in range(number)))
        sizes.append(int(engine.run("MEMORY", "USAGE", "list", "SAMPLES", 0)[1:]))
    assert sizes == sorted(sizes)
    assert sizes[-1] > 100_000
