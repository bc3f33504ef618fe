"""What happens to keys while clients wait for them: lists and sorted sets served in turn, readers of streams beside."""

import threading
import time

import pytest
import redis

from headrace.engine.blocking.waking import run_due
from support.in_process import InProcess
from support.patience import PATIENCE_S

NOON = 1_700_000_000_000
NIL = b"*-1\r\n"


@pytest.fixture
def engine() -> InProcess:
    engine = InProcess()
    engine.set_clock(NOON)
    return engine


def popped(key: str, element: str) -> bytes:
    return f"*2\r\n${len(key)}\r\n{key}\r\n${len(element)}\r\n{element}\r\n".encode()


# --- lists -----------------------------------------------------------------------------------------------------


def test_those_who_wait_for_a_list_are_served_first_come_first(engine: InProcess) -> None:
    clients = [engine.waiting_client("BLPOP", "list", "0") for _ in range(4)]
    engine.run("RPUSH", "list", "a", "b")
    assert [client.reply() for client in clients] == [popped("list", "a"), popped("list", "b"), b"", b""]
    engine.run("RPUSH", "list", "c")
    assert [client.reply() for client in clients] == [b"", b"", popped("list", "c"), b""]
    assert engine.run("EXISTS", "list") == b":0\r\n"


def test_the_first_key_that_has_something_is_popped(engine: InProcess) -> None:
    engine.run("RPUSH", "b", "1", "2")
    engine.run("RPUSH", "c", "3")
    assert engine.run("BLPOP", "a", "b", "c", "0") == popped("b", "1")
    assert engine.run("BRPOP", "a", "b", "c", "0") == popped("b", "2")


def test_a_served_pop_is_repeated_as_a_pop_that_does_not_wait(engine: InProcess) -> None:
    engine.waiting_client("BRPOP", "list", "0")
    engine.run("RPUSH", "list", "a", "b")
    assert engine.take_effects() == [(0, [b"RPUSH", b"list", b"a", b"b"]), (0, [b"RPOP", b"list"])]


def test_a_transaction_serves_waiting_clients_when_it_is_over(engine: InProcess) -> None:
    client = engine.waiting_client("BLPOP", "list", "0")
    engine.run("MULTI")
    engine.run("RPUSH", "list", "a")
    engine.run("DEL", "list")
    engine.run("RPUSH", "list", "b")
    engine.run("EXEC")
    assert client.reply() == popped("list", "b")


def test_waiting_for_a_list_ends_at_its_time_and_not_before(engine: InProcess) -> None:
    client = engine.waiting_client("BLPOP", "list", "0.0501")
    engine.set_clock(NOON + 50)
    run_due(engine.engine)
    assert client.reply() == b""
    engine.set_clock(NOON + 52)
    run_due(engine.engine)
    assert client.reply() == NIL


@pytest.mark.parametrize(
    ("timeout", "refusal"),
    [
        ("x", b"timeout is not a float or out of range"),
        ("nan", b"timeout is not a float or out of range"),
        ("-0.1", b"timeout is negative"),
        ("inf", b"timeout is out of range"),
        ("1e300", b"timeout is out of range"),
        ("9223372036854775", b"timeout is out of range"),
    ],
)
def test_a_timeout_that_is_none_is_refused(engine: InProcess, timeout: str, refusal: bytes) -> None:
    assert engine.run("BLPOP", "list", timeout) == b"-ERR %s\r\n" % refusal


@pytest.mark.parametrize("way", ["RENAME", "COPY", "MOVE", "SWAPDB", "RESTORE"])
def test_a_list_that_comes_to_be_by_any_means_serves_who_waits(engine: InProcess, way: str) -> None:
    engine.run("SELECT", 1)
    engine.run("RPUSH", "source", "a")
    payload = engine.run("DUMP", "source").partition(b"\r\n")[2][:-2]
    engine.run("RPUSH", "list", "a")
    engine.run("SELECT", 0)
    engine.run("RPUSH", "source", "a")
    client = engine.waiting_client("BLPOP", "list", "0")
    if way == "RENAME":
        engine.run("RENAME", "source", "list")
    elif way == "COPY":
        engine.run("COPY", "source", "list")
    elif way == "MOVE":
        engine.run("SELECT", 1)
        engine.run("MOVE", "list", 0)
    elif way == "SWAPDB":
        engine.run("SWAPDB", 0, 1)
    else:
        engine.run("RESTORE", "list", 0, payload)
    assert client.reply() == popped("list", "a")


def test_what_moves_on_serves_who_waits_where_it_arrives(engine: InProcess) -> None:
    last = engine.waiting_client("BLPOP", "c", "0")
    second = engine.waiting_client("BRPOPLPUSH", "b", "c", "0")
    first = engine.waiting_client("BLMOVE", "a", "b", "LEFT", "RIGHT", "0")
    engine.run("RPUSH", "a", "x")
    assert [first.reply(), second.reply(), last.reply()] == [b"$1\r\nx\r\n"] * 2 + [popped("c", "x")]
    assert engine.take_effects() == [
        (0, [b"RPUSH", b"a", b"x"]),
        (0, [b"LMOVE", b"a", b"b", b"LEFT", b"RIGHT"]),
        (0, [b"RPOPLPUSH", b"b", b"c"]),
        (0, [b"LPOP", b"c"]),
    ]
    assert engine.run("EXISTS", "a", "b", "c") == b":0\r\n"


def test_a_move_to_a_key_of_another_type_is_refused_when_it_could_happen(engine: InProcess) -> None:
    engine.run("SET", "text", "")
    client = engine.waiting_client("BLMOVE", "a", "text", "LEFT", "LEFT", "0")
    engine.run("RPUSH", "a", "x")
    assert client.reply().startswith(b"-WRONGTYPE")
    assert engine.run("LLEN", "a") == b":1\r\n"


def test_several_elements_are_taken_of_the_list_that_comes_first(engine: InProcess) -> None:
    client = engine.waiting_client("BLMPOP", "0", "2", "a", "b", "LEFT", "COUNT", "2")
    engine.run("RPUSH", "b", "1", "2", "3")
    assert client.reply() == b"*2\r\n$1\r\nb\r\n*2\r\n$1\r\n1\r\n$1\r\n2\r\n"
    assert engine.take_effects()[-1] == (0, [b"LPOP", b"b", b"2"])


# --- sorted sets -----------------------------------------------------------------------------------------------


def test_those_who_wait_for_a_sorted_set_are_served_first_come_first(engine: InProcess) -> None:
    lowest = engine.waiting_client("BZPOPMIN", "other", "zset", "0")
    highest = engine.waiting_client("BZPOPMAX", "zset", "0")
    several = engine.waiting_client("BZMPOP", "0", "1", "zset", "MAX", "COUNT", "2")
    engine.run("ZADD", "zset", 1, "a", 2, "b", 3, "c", 4, "d")
    assert lowest.reply() == b"*3\r\n$4\r\nzset\r\n$1\r\na\r\n$1\r\n1\r\n"
    assert highest.reply() == b"*3\r\n$4\r\nzset\r\n$1\r\nd\r\n$1\r\n4\r\n"
    assert several.reply() == (b"*2\r\n$4\r\nzset\r\n*2\r\n*2\r\n$1\r\nc\r\n$1\r\n3\r\n*2\r\n$1\r\nb\r\n$1\r\n2\r\n")
    assert [effect for _, effect in engine.take_effects()[1:]] == [
        [b"ZPOPMIN", b"zset"],
        [b"ZPOPMAX", b"zset"],
        [b"ZPOPMAX", b"zset", b"2"],
    ]
    assert engine.run("EXISTS", "zset") == b":0\r\n"


@pytest.mark.parametrize(
    "command",
    [
        "ZADD zset 1 a",
        "ZADD zset INCR 1 a",
        "ZINCRBY zset 1 a",
        "ZUNIONSTORE zset 1 source",
        "ZINTERSTORE zset 1 source",
        "ZDIFFSTORE zset 1 source",
        "ZRANGESTORE zset source 0 -1",
        "COPY source zset",
        "RENAME source zset",
        "RESTORE zset 0",
    ],
)
def test_a_sorted_set_that_comes_to_be_by_any_means_serves_who_waits(engine: InProcess, command: str) -> None:
    engine.run("ZADD", "source", 1, "a")
    payload = engine.run("DUMP", "source").partition(b"\r\n")[2][:-2]
    client = engine.waiting_client("BZPOPMIN", "zset", "0")
    engine.run(*command.split(), *([payload] if command.startswith("RESTORE") else []))
    assert client.reply() == b"*3\r\n$4\r\nzset\r\n$1\r\na\r\n$1\r\n1\r\n"


def test_waiting_for_a_sorted_set_ends_at_its_time(engine: InProcess) -> None:
    client = engine.waiting_client("BZMPOP", "0.05", "1", "zset", "MIN")
    engine.set_clock(NOON + 51)
    run_due(engine.engine)
    assert client.reply() == NIL


def test_a_list_in_the_place_of_a_sorted_set_serves_only_who_waits_for_a_list(engine: InProcess) -> None:
    scored, listed = engine.waiting_client("BZPOPMIN", "key", "0"), engine.waiting_client("BLPOP", "key", "0")
    engine.run("RPUSH", "key", "a")
    assert (scored.reply(), listed.reply()) == (b"", popped("key", "a"))


# --- lists and streams -----------------------------------------------------------------------------------------


def test_each_waits_for_its_own_type_of_the_same_key(engine: InProcess) -> None:
    popping = engine.waiting_client("BLPOP", "key", "0")
    reading = engine.waiting_client("XREAD", "BLOCK", "0", "STREAMS", "key", "0")
    engine.run("XADD", "key", "1-1", "f", "v")
    assert reading.reply().startswith(b"*1\r\n*2\r\n$3\r\nkey\r\n")
    assert popping.reply() == b""
    engine.run("DEL", "key")
    engine.run("RPUSH", "key", "a")
    assert popping.reply() == popped("key", "a")


def test_a_string_in_the_place_of_a_list_serves_nobody(engine: InProcess) -> None:
    client = engine.waiting_client("BLPOP", "key", "0")
    engine.run("SET", "key", "text")
    assert client.waits
    assert engine.run("BLPOP", "key", "0").startswith(b"-WRONGTYPE")


VANISHING = ["DEL key", "UNLINK key", "EXPIRE key 0", "RENAME key other", "MOVE key 1", "SWAPDB 0 1", "FLUSHALL"]
RETYPING = ["SET key text", "RENAME text key", "COPY text key REPLACE"]


@pytest.mark.parametrize("event", [*VANISHING, *RETYPING, "time"])
def test_group_readers_learn_that_their_stream_is_gone_and_plain_readers_wait_on(engine: InProcess, event: str) -> None:
    engine.run("XGROUP", "CREATE", "key", "group", "$", "MKSTREAM")
    engine.run("SET", "text", "")
    engine.run("PEXPIRE", "key", 100)
    grouped = engine.waiting_client("XREADGROUP", "GROUP", "group", "alice", "BLOCK", "0", "STREAMS", "key", ">")
    plain = engine.waiting_client("XREAD", "BLOCK", "0", "STREAMS", "key", "$")
    if event == "time":
        engine.set_clock(NOON + 101)
        engine.engine.tick()
    else:
        engine.run(*event.split())
    assert grouped.reply().startswith(b"-WRONGTYPE" if event in RETYPING else b"-NOGROUP")
    assert plain.waits


def test_a_restored_stream_serves_group_readers(engine: InProcess) -> None:
    engine.run("XGROUP", "CREATE", "source", "group", "0", "MKSTREAM")
    engine.run("XADD", "source", "1-1", "f", "v")
    payload = engine.run("DUMP", "source").partition(b"\r\n")[2][:-2]
    engine.run("XGROUP", "CREATE", "key", "group", "$", "MKSTREAM")
    grouped = engine.waiting_client("XREADGROUP", "GROUP", "group", "alice", "BLOCK", "0", "STREAMS", "key", ">")
    engine.run("RESTORE", "key", 0, payload, "REPLACE")
    assert b"$3\r\n1-1\r\n" in grouped.reply()


# --- through sockets -------------------------------------------------------------------------------------------


def test_a_push_of_one_connection_serves_another_that_waits(headrace_server: redis.Redis) -> None:
    threading.Timer(0.1, lambda: headrace_server.lpush("list", "a")).start()
    began = time.monotonic()
    assert headrace_server.blpop(["other", "list"], timeout=0) == (b"list", b"a")
    assert time.monotonic() - began > 0.05


def test_a_key_expires_in_time_without_being_looked_at(headrace_server: redis.Redis) -> None:
    headrace_server.set("key", "value", px=150)
    time.sleep(0.1)
    assert headrace_server.dbsize() == 1
    deadline = time.monotonic() + PATIENCE_S
    while headrace_server.dbsize():
        assert time.monotonic() < deadline
        time.sleep(0.01)
