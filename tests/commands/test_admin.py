"""Administration: its answers are Redis's, and what is slow is noted as Redis notes it."""

import time
from collections.abc import Iterator

import pytest
import redis

from support.in_process import InProcess
from support.patience import PATIENCE_S
from support.raw_client import RawClient, port_of

SAME_ANSWERS = [
    "SLOWLOG",
    "SLOWLOG NOSUCH",
    "SLOWLOG GET x",
    "SLOWLOG GET -2",
    "SLOWLOG GET 1 2",
    "SLOWLOG LEN x",
    "SLOWLOG RESET",
    "LATENCY",
    "LATENCY NOSUCH",
    "LATENCY HISTORY",
    "LATENCY HISTORY nosuch",
    "LATENCY LATEST",
    "LATENCY RESET nosuch another",
    "LATENCY GRAPH nosuch",
    "LATENCY DOCTOR",
    "LATENCY DOCTOR x",
    "LATENCY HISTOGRAM nosuch",
    "MODULE",
    "MODULE NOSUCH",
    "MODULE LIST",
    "MODULE LIST x",
    "MEMORY STATS x",
    "MEMORY MALLOC-STATS x",
    "TIME x",
    "LASTSAVE x",
    "DEBUG",
    "DEBUG NOSUCH",
    "DEBUG SLEEP",
    "DEBUG SLEEP 0",
    "DEBUG SLEEP x",
    "DEBUG SLEEP 0 0",
    "DEBUG OBJECT nosuch",
    "DEBUG SET-ACTIVE-EXPIRE 1",
    "DEBUG SET-ACTIVE-EXPIRE",
    "SHUTDOWN NONSENSE",
    "SHUTDOWN ABORT",
    "SHUTDOWN ABORT NOW",
    "SHUTDOWN SAVE NOSAVE",
    "FUNCTION",
    "FUNCTION NOSUCH",
    "FUNCTION FLUSH",
    "FUNCTION FLUSH ASYNC",
    "FUNCTION FLUSH NONSENSE",
    "FUNCTION FLUSH SYNC x",
    "SCRIPT NOSUCH",
    "SCRIPT FLUSH",
    "SCRIPT FLUSH SYNC",
    "SCRIPT FLUSH NONSENSE",
    "SCRIPT FLUSH SYNC x",
    "WAIT 1",
    "WAIT x 0",
    "WAIT 0 x",
    "WAIT 0 -1",
    "WAIT -1 0",
    "WAIT 0 0",
    "WAIT 1 10",
    "REPLICAOF NO ONE",
    "REPLICAOF NO",
    "SLAVEOF no one",
    "ROLE",
    "ROLE x",
    "CLUSTER",
    "CLUSTER NOSUCH",
    "CLUSTER INFO",
    "CLUSTER SLOTS",
    "CLUSTER KEYSLOT",
    "CLUSTER KEYSLOT k",
    "READONLY",
    "READWRITE",
    "MULTI",
    "SHUTDOWN",
    "EXEC",
]


@pytest.fixture
def wire(headrace_server: redis.Redis) -> Iterator[RawClient]:
    with RawClient.of(headrace_server) as connection:
        connection.run("SLOWLOG", "RESET")
        connection.run("LATENCY", "RESET")
        yield connection


@pytest.mark.parametrize("protocol", [2, 3])
def test_answers_are_those_of_redis(headrace_server: redis.Redis, redis_server: redis.Redis, protocol: int) -> None:
    with RawClient.of(headrace_server, protocol) as ours, RawClient.of(redis_server, protocol) as theirs:
        ours.run("LATENCY", "RESET")
        for request in SAME_ANSWERS:
            assert ours.run(*request.split()) == theirs.run(*request.split()), request


@pytest.mark.parametrize("protocol", [2, 3])
def test_memory_is_told_in_the_figures_of_redis(
    headrace_server: redis.Redis, redis_server: redis.Redis, protocol: int
) -> None:
    told = []
    for server in (headrace_server, redis_server):
        server.set("k", "v", ex=1000)
        with redis.Redis(port=port_of(server), protocol=protocol, decode_responses=True) as client:
            stats = client.memory_stats()
            told.append({name: type(figure) for name, figure in stats.items()} | {"db.0": list(stats["db.0"])})
            assert stats["total.allocated"] > 0
            assert stats["keys.count"] == 1
    assert told[0] == told[1]


def test_the_allocator_tells_nothing(wire: RawClient) -> None:
    assert b"Stats not supported for the current allocator" in wire.run("MEMORY", "MALLOC-STATS")


def test_time_is_the_time(headrace_server: redis.Redis) -> None:
    seconds, microseconds = headrace_server.time()
    assert abs(seconds + microseconds / 1e6 - time.time()) < 1


def test_lastsave_is_in_the_past(wire: RawClient) -> None:
    assert time.time() - 3600 < wire.number("LASTSAVE") <= time.time()


def test_wait_waits_for_replicas_that_never_come(wire: RawClient) -> None:
    began = time.monotonic()
    assert wire.run("WAIT", "1", "100") == b":0\r\n"
    assert time.monotonic() - began > 0.098


def test_wait_can_be_ended(headrace_server: redis.Redis, wire: RawClient) -> None:
    client_id = str(wire.number("CLIENT", "ID"))
    wire.send_words("WAIT", "1", "0")
    deadline = time.monotonic() + PATIENCE_S
    while not headrace_server.execute_command("CLIENT UNBLOCK", client_id):
        assert time.monotonic() < deadline
    assert wire.reply() == b":0\r\n"


# --- the slow log --------------------------------------------------------------------------------------------------


def test_the_slow_log_keeps_what_redis_keeps(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    shown = []
    for server in (headrace_server, redis_server):
        server.config_set("slowlog-log-slower-than", 0)
        with RawClient.of(server) as wire:
            wire.run("CLIENT", "SETNAME", "slow")
            wire.run("SLOWLOG", "RESET")
            wire.run("XADD", "k", "1-1", "field", "x" * 200)
            wire.run("XDEL", "k", *(f"{number}-1" for number in range(40)))
            for request in ("MULTI", "XLEN k", "EXEC", "XLEN"):
                wire.run(*request.split())
        logged = [(entry["command"], entry["client_name"]) for entry in server.slowlog_get(128)]
        server.config_set("slowlog-log-slower-than", 10000)
        shown.append([entry for entry in logged if entry[1] == b"slow"])
    assert shown[0] == shown[1]
    assert len(shown[0]) == 5


def test_the_slow_log_gives_the_newest_ten_unless_asked_otherwise(
    headrace_server: redis.Redis, wire: RawClient
) -> None:
    headrace_server.config_set("slowlog-log-slower-than", 0)
    for _ in range(20):
        wire.run("PING")
    headrace_server.config_set("slowlog-log-slower-than", -1)
    wire.run("PING")
    kept = wire.number("SLOWLOG", "LEN")
    assert kept >= 20
    assert wire.run("SLOWLOG", "GET").startswith(b"*10\r\n")
    assert wire.run("SLOWLOG", "GET", "3").startswith(b"*3\r\n")
    assert wire.run("SLOWLOG", "GET", "-1").startswith(b"*%d\r\n" % kept)
    assert wire.number("SLOWLOG", "LEN") == kept


def test_the_slow_log_is_bounded(headrace_server: redis.Redis, wire: RawClient) -> None:
    headrace_server.config_set("slowlog-max-len", 5)
    headrace_server.config_set("slowlog-log-slower-than", 0)
    for _ in range(20):
        wire.run("PING")
    assert wire.number("SLOWLOG", "LEN") == 5


# --- latency -------------------------------------------------------------------------------------------------------


def test_spikes_are_noted_once_somebody_watches(headrace_server: redis.Redis, wire: RawClient) -> None:
    wire.run("DEBUG", "SLEEP", "0.02")
    assert headrace_server.execute_command("LATENCY LATEST") == []
    headrace_server.config_set("latency-monitor-threshold", 10)
    assert b"no latency spike was observed" in wire.run("LATENCY", "DOCTOR")
    wire.run("DEBUG", "SLEEP", "0.04")
    wire.run("DEBUG", "SLEEP", "0.02")
    [[name, second, latest, worst]] = headrace_server.execute_command("LATENCY LATEST")
    assert name == b"command"
    assert abs(second - time.time()) < 5
    assert 20 <= latest <= worst
    assert 40 <= worst < 100
    history = headrace_server.execute_command("LATENCY HISTORY", "command")
    assert [second, latest] == history[-1]
    assert b"1. command: " in wire.run("LATENCY", "DOCTOR")
    assert wire.run("LATENCY", "RESET", "nosuch", "command", "command") == b":1\r\n"
    assert wire.run("LATENCY", "LATEST") == b"*0\r\n"


def test_a_graph_of_spikes_is_that_of_redis(headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
    drawn = []
    for server in (headrace_server, redis_server):
        server.config_set("latency-monitor-threshold", 1)
        server.execute_command("LATENCY RESET")
        for milliseconds in (10, 100):
            time.sleep(1.01 - time.time() % 1)
            server.execute_command("DEBUG SLEEP", milliseconds / 1000)
        graph = server.execute_command("LATENCY GRAPH", "command").splitlines()
        server.config_set("latency-monitor-threshold", 0)
        drawn.append(graph[1:])
    assert drawn[0] == drawn[1]


def test_a_histogram_counts_calls_by_how_long_they_took(headrace_server: redis.Redis, wire: RawClient) -> None:
    headrace_server.config_resetstat()
    for _ in range(10):
        wire.run("XLEN", "k")
    wire.run("DEBUG", "SLEEP", "0.01")
    with RawClient.of(headrace_server, 3) as newer:
        assert newer.run("LATENCY", "HISTOGRAM", "debug") == (
            b"%1\r\n$5\r\ndebug\r\n%2\r\n$5\r\ncalls\r\n:1\r\n$14\r\nhistogram_usec\r\n%1\r\n:16908\r\n:1\r\n"
        )
    flat = headrace_server.execute_command("LATENCY HISTOGRAM", "xlen", "client")
    by_name = dict(zip(flat[::2], flat[1::2], strict=True))
    assert by_name[b"xlen"][:2] == [b"calls", 10]
    steps = by_name[b"xlen"][3]
    assert steps[::2] == sorted(steps[::2])
    assert steps[-1] == 10


# --- DEBUG and SHUTDOWN --------------------------------------------------------------------------------------------


def test_debug_is_refused_where_the_configuration_does_not_allow_it() -> None:
    server = InProcess()
    refusal = (
        b'-ERR DEBUG command not allowed. If the enable-debug-command option is set to "local", you can run it from a '
        b"local connection, otherwise you need to set this option in the configuration file, and then restart the "
        b"server.\r\n"
    )
    assert server.run("DEBUG", "SLEEP", "0") == refusal
    server.run("MULTI")
    assert server.run("DEBUG", "SLEEP", "0") == refusal
    assert server.run("EXEC").startswith(b"-EXECABORT")


def test_shutdown_asks_the_host() -> None:
    server = InProcess()
    assert server.run("SHUTDOWN") == b"-ERR Errors trying to SHUTDOWN. Check logs.\r\n"
    asked: list[tuple[bool | None, bool, bool]] = []

    class Host:
        remaining_ms = None

        def begin(self, save: bool | None, *, now: bool, force: bool) -> bool:
            asked.append((save, now, force))
            return True

        def abort(self) -> bool:
            return False

    server.engine.hooks.server_end = Host()
    for request in ("SHUTDOWN", "SHUTDOWN NOSAVE", "shutdown save now force"):
        assert server.run(*request.split()) == b""
    assert asked == [(None, False, False), (False, False, False), (True, True, True)]
    assert server.client.closing


def test_lolwut_replies_a_picture_and_the_version() -> None:
    engine = InProcess()
    for words in (["LOLWUT"], ["LOLWUT", "VERSION", "5"], ["LOLWUT", "5", "6", "7", "8"]):
        assert engine.run(*words).endswith(b"Redis ver. 8.10.0\n\r\n")
    assert engine.run("LOLWUT", "VERSION", "x") == b"-ERR value is not an integer or out of range\r\n"
