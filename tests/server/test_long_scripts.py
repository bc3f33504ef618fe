"""A script that does not end: other clients get BUSY, it can be killed, and half of its changes is never there."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.patience import PATIENCE_S
from support.raw_client import RawClient
from support.server_process import ServerProcess

BUSY = b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n"
KILLED = b"-ERR Script killed by user with SCRIPT KILL... script: "
ENDLESS = (
    b"while true do end",
    b"while true do pcall(function() while true do end end) end",
    b"while true do xpcall(function() while true do end end, function() while true do end end) end",
    b"local spin = coroutine.wrap(function() while true do end end) spin()",
    b"while true do redis.pcall('get', 'key') end",
    b"local t = {} t[1] = t t[2] = t return t",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("scripts"), "--lua-time-limit", "50") as server:
        yield server


def await_busy(client: RawClient) -> None:
    """Return once others are refused."""
    deadline = time.monotonic() + PATIENCE_S
    while client.run("PING") != BUSY:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("script", ENDLESS)
def test_an_endless_script_is_told_of_and_can_be_killed(server: ServerProcess, script: bytes) -> None:
    with server.raw() as author, server.raw() as other:
        author.send([b"SET", b"key", b"1"], [b"EVAL", script, b"0"], [b"GET", b"key"])
        await_busy(other)
        with server.raw() as newcomer:
            assert newcomer.run("GET", "key") == BUSY
            assert newcomer.run("SCRIPT", "KILL") == b"+OK\r\n"
        assert author.reply() == b"+OK\r\n"
        assert author.reply().startswith(KILLED)
        assert author.reply() == b"$1\r\n1\r\n"
        assert other.run("PING") == b"+PONG\r\n"
        assert other.run("SCRIPT", "KILL") == b"-NOTBUSY No scripts in execution right now.\r\n"


def test_what_may_be_asked_of_a_busy_server(server: ServerProcess) -> None:
    with server.raw() as author, server.raw() as other:
        author.send([b"EVAL", b"while true do end", b"0"])
        await_busy(other)
        assert other.run("MULTI") == b"+OK\r\n"
        assert other.run("GET", "key") == BUSY
        assert other.run("EXEC") == b"-EXECABORT Transaction discarded because of: " + BUSY[1:]
        assert other.run("SHUTDOWN") == BUSY
        assert other.run("SCRIPT", "LOAD", "return 1") == BUSY
        assert other.run("EVAL", "return 1", "0") == BUSY
        assert other.run("SCRIPT", "KILL") == b"+OK\r\n"
        assert author.reply().startswith(KILLED)


def test_a_transaction_goes_on_behind_a_script_that_was_killed(server: ServerProcess) -> None:
    with server.raw() as author, server.raw() as other:
        author.send([b"MULTI"], [b"SET", b"n", b"2"], [b"EVAL", b"while true do end", b"0"], [b"INCR", b"n"], [b"EXEC"])
        await_busy(other)
        other.run("SCRIPT", "KILL")
        assert [author.reply() for _ in range(4)] == [b"+OK\r\n"] + [b"+QUEUED\r\n"] * 3
        reply = author.reply()
        assert reply.startswith(b"*3\r\n+OK\r\n" + KILLED)
        assert reply.endswith(b":3\r\n")


SLOW = b"""
redis.call('set', 'slow', 1)
redis.call('rpush', 'list', 'from the script')
redis.call('publish', 'news', 'it is')
redis.call('set', 'brief', 1, 'px', 1)
while redis.call('time')[1] - ARGV[1] < 1 do end
redis.call('set', 'slow', 2)
return redis.call('exists', 'brief')
"""


def test_nobody_sees_the_middle_of_a_script_that_writes(server: ServerProcess) -> None:
    with server.raw() as author, server.raw() as other, server.raw() as waiting, server.raw() as listening:
        listening.run("SUBSCRIBE", "news")
        waiting.send([b"BLPOP", b"list", b"0"])
        now = int(time.time())
        author.send([b"EVAL", SLOW, b"0", b"%d" % (now + 1)])
        await_busy(other)
        assert other.run("SCRIPT", "KILL").startswith(b"-UNKILLABLE Sorry the script already executed write commands")
        assert other.run("GET", "slow") == BUSY
        assert author.reply() == b":1\r\n"  # the key that was to live for a millisecond: it is still the same moment
        assert waiting.reply() == b"*2\r\n$4\r\nlist\r\n$15\r\nfrom the script\r\n"
        assert listening.reply() == b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nit is\r\n"
        assert other.run("GET", "slow") == b"$1\r\n2\r\n"
        assert other.run("EXISTS", "brief") == b":0\r\n"


def test_the_author_may_leave_while_its_script_runs(server: ServerProcess) -> None:
    with server.raw() as other:
        with server.raw() as author:
            author.send([b"EVAL", b"while true do end", b"0"])
            await_busy(other)
        assert other.run("SCRIPT", "KILL") == b"+OK\r\n"
        deadline = time.monotonic() + PATIENCE_S
        while other.run("PING") != b"+PONG\r\n":
            assert time.monotonic() < deadline


@pytest.mark.parametrize("way", ["SHUTDOWN NOSAVE", "SIGTERM"])
def test_a_server_that_ends_in_the_middle_of_a_script_keeps_nothing_of_it(tmp_path: Path, way: str) -> None:
    with ServerProcess(tmp_path, "--lua-time-limit", "50") as server, server.raw() as author, server.raw() as other:
        other.run("SET", "before", "1")
        author.send([b"EVAL", b"redis.call('set', 'half', 1) while true do end", b"0"])
        await_busy(other)
        if way == "SIGTERM":
            assert server.stop() == 0
        else:
            other.send([b"SHUTDOWN", b"NOSAVE"])
            assert server.process.wait(20) == 0
    with ServerProcess(tmp_path) as server, server.raw() as client:
        assert client.run("MGET", "before", "half") == b"*2\r\n$1\r\n1\r\n$-1\r\n"


def test_scripts_of_many_clients_run_one_after_the_other(server: ServerProcess) -> None:
    script = "local n = redis.call('get', 'count') or 0 for i = 1, 1000 do end redis.call('set', 'count', n + 1)"

    def work() -> None:
        with server.raw() as client:
            for _ in range(50):
                client.run("EVAL", script, 0)

    with server.raw() as client:
        client.run("SET", "count", 0)
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.run("GET", "count") == b"$3\r\n400\r\n"
