"""redis-cli and redis-benchmark, the tools that operators have at hand."""

import os
import pty
import re
import shutil
import subprocess
import time

import pytest
import redis

from support.patience import PATIENCE_S
from support.raw_client import encode

needs_tools = pytest.mark.skipif(
    not (shutil.which("redis-cli") and shutil.which("redis-benchmark")),
    reason="there are no redis-cli and redis-benchmark: apt-get install redis-tools brings them",
)
pytestmark = needs_tools


def port_of(server: redis.Redis) -> str:
    return str(server.connection_pool.connection_kwargs["port"])


class Terminal:
    """redis-cli as a person sees it: on a terminal, line by line."""

    def __init__(self, port: str, *options: str) -> None:
        self._terminal, theirs = pty.openpty()
        quiet = {"TERM": "dumb", "FAKETTY": "1", "REDISCLI_HISTFILE": "/dev/null", "REDISCLI_RCFILE": "/dev/null"}
        self._process = subprocess.Popen(
            ["redis-cli", "-p", port, *options], stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | quiet
        )
        os.close(theirs)
        self._read()

    def type(self, line: str) -> str:
        """Type a line and return what is shown before the next prompt."""
        os.write(self._terminal, line.encode() + b"\n")
        shown = self._read()
        return shown.split("\n", 1)[1] if "\n" in shown else shown

    def _read(self) -> str:
        shown, deadline = "", time.monotonic() + PATIENCE_S
        while not re.search(r"127\.0\.0\.1:\d+(\[\d+\])?(\(TX\))?> $", shown):
            assert time.monotonic() < deadline, f"no prompt after {shown!r}"
            shown += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", os.read(self._terminal, 65536).decode())
        return shown[: shown.rindex("127.0.0.1:")]

    def close(self) -> None:
        os.write(self._terminal, b"quit\n")
        assert self._process.wait(20) == 0
        os.close(self._terminal)


LINES = (
    'xadd s 1-0 temperature 21 unit "degrees C"',
    "XADD s 2-0 temperature 22",
    "xrange s - +",
    "xread count 1 streams s t 0 0",
    "xgroup create s g 0",
    "xreadgroup group g alice count 1 streams s >",
    "xpending s g",
    "xadd s 1-0 f v",
    "xadd s",
    "nonsense a b",
    "xrange none - +",
    "multi",
    "xlen s",
    "exec",
    "type s",
    "select 3",
    "dbsize",
)


@pytest.mark.parametrize("options", [(), ("-3",)])
def test_an_interactive_session_looks_as_with_redis(
    headrace_server: redis.Redis, redis_server: redis.Redis, options: tuple[str, ...]
) -> None:
    shown = []
    for server in (headrace_server, redis_server):
        terminal = Terminal(port_of(server), *options)
        shown.append([terminal.type(line) for line in LINES])
        terminal.close()
    assert shown[0] == shown[1]
    assert "temperature" in shown[0][2]


def test_the_interactive_help_knows_the_commands(headrace_server: redis.Redis) -> None:
    terminal = Terminal(port_of(headrace_server))
    assert "IDMP" in terminal.type("help xadd")
    assert "XNACK" in terminal.type("help xnack").upper()
    terminal.close()


def test_a_pipe_inserts_a_mass_of_entries(headrace_server: redis.Redis) -> None:
    entries = b"".join(encode([b"XADD", b"s", b"%d-0" % ms, b"f", b"%d" % ms]) for ms in range(1, 20_001))
    command = ["redis-cli", "-p", port_of(headrace_server), "--pipe"]
    run = subprocess.run(command, input=entries, capture_output=True, check=True, timeout=60)
    assert b"errors: 0, replies: 20000" in run.stdout
    assert headrace_server.xlen("s") == 20_000


def test_lines_from_standard_input_are_answered_one_by_one(headrace_server: redis.Redis) -> None:
    run = subprocess.run(
        ["redis-cli", "-p", port_of(headrace_server)],
        input=b"xadd s 1-0 f v\nxlen s\nxrange s - +\nbad\n",
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
    )
    assert run.stdout.split(b"\n")[:5] == [b"1-0", b"1", b"1-0", b"f", b"v"]
    assert b"ERR unknown command 'bad'" in run.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("-t", "ping,set,get,lpush,lpop,sadd"),
        ("XADD", "mystream", "*", "myfield", "__data__"),  # what -t xadd sends from 7.2 on
        ("-P", "8", "XADD", "s", "MAXLEN", "~", "1000", "*", "field", "__rand_int__"),
        ("XRANGE", "s", "-", "+", "COUNT", "10"),
        ("XREADGROUP", "GROUP", "g", "c", "COUNT", "10", "STREAMS", "s", ">"),
    ],
)
def test_the_benchmark_runs_clean(headrace_server: redis.Redis, arguments: tuple[str, ...]) -> None:
    headrace_server.xgroup_create("s", "g", mkstream=True)
    run = subprocess.run(
        ["redis-benchmark", "-p", port_of(headrace_server), "-n", "2000", "-c", "20", "-q", *arguments],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    assert "requests per second" in run.stdout
    assert not re.search("error|warning", run.stdout + run.stderr, re.IGNORECASE), run.stdout + run.stderr
