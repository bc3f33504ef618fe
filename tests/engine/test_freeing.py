"""Large values are freed beside the event loop, as the settings say, and only where nobody refers to them any more."""

import ctypes
import threading
import time
from collections import deque
from collections.abc import Callable, Sized
from itertools import pairwise

import pytest

from headrace.core.memory import trim_as_it_frees
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.engine import freeing
from support.in_process import InProcess
from support.patience import PATIENCE_S

MANY = 1000


@pytest.fixture
def engine() -> InProcess:
    engine = InProcess()
    fill(engine)
    return engine


def fill(engine: InProcess) -> None:
    """Give each type of value more elements than are freed at once."""
    engine.run("RPUSH", "list", *range(MANY))
    engine.run("SADD", "set", *range(MANY))
    engine.run("ZADD", "zset", *(word for n in range(MANY) for word in (n, n)))
    engine.run("HSET", "hash", *(word for n in range(MANY) for word in (n, n)))
    for n in range(MANY):
        engine.run("XADD", "stream", f"{n + 1}-0", "f", "v")
    engine.run("SET", "string", "x" * MANY)


LARGE = ["list", "set", "zset", "hash", "stream"]


def await_freed(engine: InProcess) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while engine.engine.freeing.pending:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return engine.engine.freeing.freed


@pytest.mark.parametrize("key", LARGE)
def test_unlink_frees_beside_the_loop(engine: InProcess, key: str) -> None:
    assert engine.run("UNLINK", key) == b":1\r\n"
    assert engine.run("EXISTS", key) == b":0\r\n"
    assert await_freed(engine) == 1
    assert b"lazyfreed_objects:1\r\n" in engine.run("INFO", "memory")
    assert b"lazyfree_pending_objects:0\r\n" in engine.run("INFO", "memory")


@pytest.mark.parametrize("policy", ["KEEPREF", "DELREF", "ACKED"])
def test_a_trim_of_very_many_nodes_frees_beside_the_loop(engine: InProcess, policy: str) -> None:
    engine.run("CONFIG", "SET", "stream-node-max-entries", 1)
    for n in range(2000):
        engine.run("XADD", "nodes", f"{n + 1}-0", "f", "v")
    engine.run("XGROUP", "CREATE", "nodes", "done", "$")
    assert engine.run("XTRIM", "nodes", "MAXLEN", 10, policy) == b":1990\r\n"
    assert await_freed(engine) == 1


def test_what_is_small_is_freed_at_once(engine: InProcess) -> None:
    engine.run("RPUSH", "short", 1, 2, 3)
    assert engine.run("UNLINK", "short", "string") == b":2\r\n"
    assert await_freed(engine) == 0


@pytest.mark.parametrize(
    ("setting", "commands"),
    [
        ("lazyfree-lazy-user-del", ["DEL list"]),
        ("lazyfree-lazy-server-del", ["SET list x"]),
        ("lazyfree-lazy-server-del", ["RENAME string list"]),
        ("lazyfree-lazy-server-del", ["SUNIONSTORE list none", "SET hash x"]),
        ("lazyfree-lazy-user-flush", ["FLUSHALL"]),
        ("lazyfree-lazy-user-flush", ["FLUSHDB"]),
    ],
)
def test_the_settings_say_what_else_is(engine: InProcess, setting: str, commands: list[str]) -> None:
    for command in commands:
        engine.run(*command.split())
    assert await_freed(engine) == 0
    engine.run("FLUSHALL", "SYNC")
    fill(engine)
    engine.run("CONFIG", "SET", setting, "yes")
    for command in commands:
        engine.run(*command.split())
    assert await_freed(engine) >= 1


def test_a_key_that_expires_is_freed_as_its_setting_says(engine: InProcess) -> None:
    engine.run("CONFIG", "SET", "lazyfree-lazy-expire", "yes")
    engine.set_clock(1_000_000)
    engine.run("PEXPIRE", "hash", 100)
    engine.set_clock(1_000_200)
    engine.engine.tick()
    assert await_freed(engine) == 1


@pytest.mark.parametrize(("mode", "least"), [("ASYNC", 5), ("SYNC", 0)])
def test_a_flush_says_itself_how_it_frees(engine: InProcess, mode: str, least: int) -> None:
    engine.run("FLUSHALL", mode)
    assert engine.run("DBSIZE") == b":0\r\n"
    assert await_freed(engine) >= least


@pytest.mark.parametrize("key", LARGE)
def test_a_value_that_moves_is_not_taken_apart(engine: InProcess, key: str) -> None:
    before = engine.run("DUMP", key)
    for setting in ("user-del", "server-del", "expire", "user-flush"):
        engine.run("CONFIG", "SET", f"lazyfree-lazy-{setting}", "yes")
    engine.run("RENAME", key, "elsewhere")
    engine.run("MOVE", "elsewhere", 1)
    await_freed(engine)
    engine.run("SELECT", 1)
    assert engine.run("DUMP", "elsewhere") == before


@pytest.mark.parametrize("kind", [dict.fromkeys, set, deque, list])
def test_others_have_their_turn_between_slices(kind: Callable[[range], Sized], monkeypatch: pytest.MonkeyPatch) -> None:
    container = kind(range(10_000))
    left = [len(container)]
    monkeypatch.setattr("headrace.engine.freeing.time.sleep", lambda _: left.append(len(container)))
    freeing._empty(container)
    assert left[-1] == 0
    assert max(earlier - later for earlier, later in pairwise(left)) <= 256


def test_the_thread_ends_when_there_is_nothing_to_do(engine: InProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freeing, "_IDLE_S", 0.01)
    for _ in range(3):
        engine.run("UNLINK", "list")
        engine.run("RPUSH", "list", *range(MANY))
        await_freed(engine)
        deadline = time.monotonic() + PATIENCE_S
        while any(thread.name == "headrace-freeing" for thread in threading.enumerate()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert engine.engine.freeing.freed == 3


def test_pages_go_back_while_a_stream_is_freed_and_only_by_the_thread_that_frees() -> None:
    calls: list[int] = []

    def note(pad: int) -> int:
        calls.append(pad)
        return 0

    trim = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t)(note)
    here, there = [large_stream()], [large_stream()]

    def free() -> None:
        trim_as_it_frees(ctypes.cast(trim, ctypes.c_void_p).value)
        begun.set()
        here_freed.wait()
        there.clear()
        trim_as_it_frees(None)

    begun, here_freed = threading.Event(), threading.Event()
    thread = threading.Thread(target=free)
    thread.start()
    begun.wait()
    here.clear()
    assert calls == []
    here_freed.set()
    thread.join()
    assert calls


def large_stream() -> Stream:
    """Make one of some 20 MB."""
    stream = Stream()
    for number in range(1, 5001):
        stream.append((b"field", b"v" * 4000), StreamID(number, 0))
    return stream
