"""Clients that wait: served by events, first come first served, and released by what happens to their keys."""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
import redis

from support.patience import PATIENCE_S
from support.raw_client import RawClient, port_of

NIL = b"*-1\r\n"
NO_GROUP = b"-NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option\r\n"


class Waiter(RawClient):
    """A connection that sends a command and may be kept waiting for the reply."""

    def __init__(self, server: redis.Redis) -> None:
        super().__init__(port_of(server))
        self._server = server
        self.id = self.number("CLIENT", "ID")

    def block(self, *words: str) -> None:
        """Send a command, and come back when the server has put the client in its waiting room."""
        before = blocked(self._server)
        self.send_words(*words)
        deadline = time.monotonic() + PATIENCE_S
        while blocked(self._server) == before:
            assert time.monotonic() < deadline, "the client does not wait"
            time.sleep(0.001)


def blocked(server: redis.Redis) -> int:
    return int(server.info("clients")["blocked_clients"])


@pytest.fixture
def waiter(headrace_server: redis.Redis) -> Iterator[Waiter]:
    with closing(Waiter(headrace_server)) as made:
        yield made


@pytest.fixture
def second(headrace_server: redis.Redis) -> Iterator[Waiter]:
    with closing(Waiter(headrace_server)) as made:
        yield made


def entry(id: str, value: str) -> bytes:
    return b"*2\r\n$%d\r\n%s\r\n*2\r\n$1\r\nf\r\n$%d\r\n%s\r\n" % (len(id), id.encode(), len(value), value.encode())


def served(*entries: bytes) -> bytes:
    return b"*1\r\n*2\r\n$1\r\ns\r\n*%d\r\n%s" % (len(entries), b"".join(entries))


def test_xread_is_served_by_the_entry_it_waited_for(headrace_server: redis.Redis, waiter: Waiter) -> None:
    waiter.block("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
    headrace_server.xadd("s", {"f": "v"}, "1-0")
    assert waiter.reply() == served(entry("1-0", "v"))


def test_every_xread_gets_the_same_entry(headrace_server: redis.Redis, waiter: Waiter, second: Waiter) -> None:
    waiter.block("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
    second.block("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
    headrace_server.xadd("s", {"f": "v"}, "1-0")
    assert waiter.reply() == second.reply() == served(entry("1-0", "v"))


def test_group_readers_are_served_first_come_first(
    headrace_server: redis.Redis, waiter: Waiter, second: Waiter
) -> None:
    headrace_server.xgroup_create("s", "g", "$", mkstream=True)
    waiter.block("XREADGROUP", "GROUP", "g", "a", "BLOCK", "0", "STREAMS", "s", ">")
    second.block("XREADGROUP", "GROUP", "g", "b", "BLOCK", "0", "STREAMS", "s", ">")
    headrace_server.xadd("s", {"f": "1"}, "1-0")
    headrace_server.xadd("s", {"f": "2"}, "2-0")
    assert waiter.reply() == served(entry("1-0", "1"))
    assert second.reply() == served(entry("2-0", "2"))


def test_a_transaction_wakes_readers_once_with_all_of_it(headrace_server: redis.Redis, waiter: Waiter) -> None:
    waiter.block("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
    with headrace_server.pipeline(transaction=True) as pipe:
        pipe.xadd("s", {"f": "1"}, "1-0")
        pipe.xadd("s", {"f": "2"}, "2-0")
        pipe.execute()
    assert waiter.reply() == served(entry("1-0", "1"), entry("2-0", "2"))


def test_what_a_transaction_adds_and_removes_wakes_nobody(headrace_server: redis.Redis, waiter: Waiter) -> None:
    waiter.block("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
    with headrace_server.pipeline(transaction=True) as pipe:
        pipe.xadd("s", {"f": "1"}, "1-0")
        pipe.delete("s")
        pipe.execute()
    assert waiter.is_silent()
    assert blocked(headrace_server) == 1


@pytest.mark.parametrize("timeout", [1, 20, 150])
def test_a_timeout_is_kept_to_the_millisecond(headrace_server: redis.Redis, waiter: Waiter, timeout: int) -> None:
    began = time.monotonic()
    waiter.send_words("XREAD", "BLOCK", str(timeout), "STREAMS", "s", "$")
    assert waiter.reply() == NIL
    assert timeout <= (time.monotonic() - began) * 1000 + 1
    assert blocked(headrace_server) == 0


def test_a_waiter_that_finds_nothing_keeps_its_deadline(headrace_server: redis.Redis, waiter: Waiter) -> None:
    headrace_server.xgroup_create("s", "g", "$", mkstream=True)
    headrace_server.xgroup_create("s", "other", "$")
    began = time.monotonic()
    waiter.block("XREADGROUP", "GROUP", "g", "a", "BLOCK", "200", "STREAMS", "s", ">")
    time.sleep(0.1)
    headrace_server.xgroup_destroy("s", "other")
    assert waiter.reply() == NIL
    assert time.monotonic() - began > 0.19


def test_inside_a_transaction_nobody_waits(headrace_server: redis.Redis) -> None:
    with headrace_server.pipeline(transaction=True) as pipe:
        pipe.execute_command("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
        assert pipe.execute() in ([None], [[]])


@pytest.mark.parametrize(
    "what", ["DEL s", "FLUSHDB", "FLUSHALL", "RENAME s t", "SWAPDB 0 1", "PEXPIRE s 1", "UNLINK s"]
)
def test_a_key_that_vanishes_releases_group_readers(headrace_server: redis.Redis, waiter: Waiter, what: str) -> None:
    headrace_server.xgroup_create("s", "g", "$", mkstream=True)
    waiter.block("XREADGROUP", "GROUP", "g", "a", "BLOCK", "0", "STREAMS", "s", ">")
    headrace_server.execute_command(*what.split())
    assert waiter.reply() == NO_GROUP


@pytest.mark.parametrize("what", ["DEL s", "FLUSHALL", "RENAME s t", "SET s x"])
def test_a_key_that_vanishes_leaves_plain_readers_waiting(
    headrace_server: redis.Redis, waiter: Waiter, what: str
) -> None:
    headrace_server.xadd("s", {"f": "v"}, "1-0")
    waiter.block("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
    headrace_server.execute_command(*what.split())
    assert waiter.is_silent()
    headrace_server.delete("s")
    headrace_server.xadd("s", {"f": "old"}, "1-0")
    assert waiter.is_silent()
    headrace_server.xadd("s", {"f": "new"}, "2-0")
    assert waiter.reply() == served(entry("2-0", "new"))


def test_a_key_of_another_type_releases_group_readers(headrace_server: redis.Redis, waiter: Waiter) -> None:
    headrace_server.xgroup_create("s", "g", "$", mkstream=True)
    waiter.block("XREADGROUP", "GROUP", "g", "a", "BLOCK", "0", "STREAMS", "s", ">")
    headrace_server.set("s", "x")
    assert waiter.reply() == b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"


def test_a_destroyed_group_releases_its_readers(headrace_server: redis.Redis, waiter: Waiter) -> None:
    headrace_server.xgroup_create("s", "g", "$", mkstream=True)
    waiter.block("XREADGROUP", "GROUP", "g", "a", "BLOCK", "0", "STREAMS", "s", ">")
    headrace_server.xgroup_destroy("s", "g")
    assert waiter.reply() == NO_GROUP


def test_a_stream_renamed_onto_the_key_serves_readers(headrace_server: redis.Redis, waiter: Waiter) -> None:
    waiter.block("XREAD", "BLOCK", "0", "STREAMS", "s", "0")
    headrace_server.xadd("t", {"f": "v"}, "1-0")
    headrace_server.rename("t", "s")
    assert waiter.reply() == served(entry("1-0", "v"))


@pytest.mark.parametrize(
    ("how", "reply"),
    [((), NIL), (("TIMEOUT",), NIL), (("ERROR",), b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n")],
)
def test_client_unblock_releases_a_reader(
    headrace_server: redis.Redis, waiter: Waiter, how: tuple[str, ...], reply: bytes
) -> None:
    waiter.block("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
    assert headrace_server.execute_command("CLIENT", "UNBLOCK", waiter.id, *how) == 1
    assert waiter.reply() == reply
    assert headrace_server.execute_command("CLIENT", "UNBLOCK", waiter.id, *how) == 0


def test_a_reader_that_disconnects_is_forgotten(headrace_server: redis.Redis, waiter: Waiter) -> None:
    waiter.block("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
    waiter.close()
    deadline = time.monotonic() + PATIENCE_S
    while blocked(headrace_server):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    assert headrace_server.info("clients")["total_blocking_keys"] == 0
    headrace_server.xadd("s", {"f": "v"})


def test_requests_behind_a_waiting_one_run_after_it(headrace_server: redis.Redis, waiter: Waiter) -> None:
    waiter.block("XREAD", "BLOCK", "0", "STREAMS", "s", "$")
    waiter.send_words("PING")
    assert waiter.is_silent()
    headrace_server.xadd("s", {"f": "v"}, "1-0")
    reply = waiter.reply()
    while not reply.endswith(b"+PONG\r\n"):
        reply += waiter.reply()
    assert reply == served(entry("1-0", "v")) + b"+PONG\r\n"


def test_a_claiming_reader_is_woken_when_an_entry_has_been_idle_long_enough(
    headrace_server: redis.Redis, waiter: Waiter
) -> None:
    headrace_server.xadd("s", {"f": "v"}, "1-0")
    headrace_server.xgroup_create("s", "g", "0")
    headrace_server.xreadgroup("g", "a", {"s": ">"})
    began = time.monotonic()
    waiter.block("XREADGROUP", "GROUP", "g", "b", "BLOCK", "0", "CLAIM", "150", "STREAMS", "s", ">")
    reply = waiter.reply()
    assert time.monotonic() - began > 0.1
    assert reply.startswith(b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*4\r\n$3\r\n1-0\r\n")


def test_a_released_entry_wakes_a_claiming_reader(headrace_server: redis.Redis, waiter: Waiter) -> None:
    headrace_server.xadd("s", {"f": "v"}, "1-0")
    headrace_server.xgroup_create("s", "g", "0")
    headrace_server.xreadgroup("g", "a", {"s": ">"})
    waiter.block("XREADGROUP", "GROUP", "g", "b", "BLOCK", "0", "CLAIM", "100000", "STREAMS", "s", ">")
    headrace_server.execute_command("XNACK", "s", "g", "FAIL", "IDS", 1, "1-0")
    assert waiter.reply().startswith(b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*4\r\n$3\r\n1-0\r\n")


def test_a_served_retry_counts_as_one_call(headrace_server: redis.Redis, waiter: Waiter) -> None:
    headrace_server.config_resetstat()
    headrace_server.xgroup_create("s", "g", "$", mkstream=True)
    headrace_server.xgroup_create("s", "other", "$")
    waiter.block("XREADGROUP", "GROUP", "g", "a", "BLOCK", "0", "STREAMS", "s", ">")
    headrace_server.xgroup_destroy("s", "other")
    headrace_server.xgroup_destroy("s", "g")
    assert waiter.reply() == NO_GROUP
    stats = headrace_server.info("commandstats")["cmdstat_xreadgroup"]
    assert (stats["calls"], stats["failed_calls"], stats["rejected_calls"]) == (1, 1, 0)
    assert headrace_server.info("errorstats")["errorstat_NOGROUP"]["count"] == 1
