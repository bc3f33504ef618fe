"""Libraries of functions are kept: by the journal, by snapshots, by rewrites, and a redis-server finds them in ours."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest
import redis

from support.function_samples import library
from support.patience import PATIENCE_S
from support.ports import free_port
from support.server_process import ServerProcess, run_to_its_end
from support.starting import wait_for

JOURNALED = ("--appendonly", "yes", "--appendfsync", "always")
BUSY = b"-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.\r\n"


def test_a_library_outlives_a_kill_a_rewrite_and_a_reload(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, *JOURNALED) as server, server.raw() as client:
        client.run("FUNCTION", "LOAD", library("plain"))
        client.run("FUNCTION", "LOAD", library("counts"))
        client.run("FUNCTION", "DELETE", "plain")
        server.process.kill()
        server.process.wait(PATIENCE_S)
    with ServerProcess(tmp_path, *JOURNALED, "--enable-debug-command", "yes") as server, server.raw() as client:
        assert client.run("FCALL", "counts", "0") == b":1\r\n"
        assert client.run("FCALL", "plain", "0") == b"-ERR Function not found\r\n"
        client.run("BGREWRITEAOF")
        server.await_log("rewrite")
        client.run("FUNCTION", "LOAD", library("tail"))
        assert client.run("DEBUG", "RELOAD") == b"+OK\r\n"
        assert client.run("FCALL", "tail", "1", "n") == b":1\r\n"
        server.process.kill()
        server.process.wait(PATIENCE_S)
    with ServerProcess(tmp_path, *JOURNALED) as server, server.raw() as client:
        assert client.run("FCALL", "counts", "0") == b":1\r\n"
        assert client.run("FCALL", "tail", "1", "n") == b":2\r\n"
    assert run_to_its_end("check", str(tmp_path), directory=tmp_path).returncode == 0


@pytest.mark.skipif(
    shutil.which("redis-server") is None,
    reason="there is no redis-server to exchange files with: apt-get install redis-server brings one",
)
def test_a_snapshot_with_libraries_goes_to_a_redis_server_and_back(tmp_path: Path) -> None:
    ours = ("--rdb-compatibility-version", "7.0", "--save", "", "--appendonly", "no")
    with ServerProcess(tmp_path, *ours) as server, server.raw() as client:
        client.run("FUNCTION", "LOAD", library("tail"))
        client.run("FCALL", "tail", "1", "n")
        assert client.run("SAVE") == b"+OK\r\n"
    port = free_port()
    with (tmp_path / "redis.log").open("wb") as log:
        process = subprocess.Popen(["redis-server", "--port", str(port), "--dir", tmp_path, "--save", ""], stdout=log)
    try:
        with redis.Redis(port=port) as theirs:
            wait_for(process, theirs)
            assert theirs.execute_command("FCALL", "tail", 1, "n") == 2
            theirs.execute_command("FUNCTION", "LOAD", library("counts"))
            theirs.save()
    finally:
        process.kill()
        process.wait(PATIENCE_S)
    with ServerProcess(tmp_path, *ours) as server, server.raw() as client:
        assert client.run("FCALL", "tail", "1", "n") == b":3\r\n"
        assert client.run("FCALL", "counts", "0") == b":1\r\n"


def test_a_function_that_does_not_end_is_told_of_and_killed(tmp_path: Path) -> None:
    endless = "#!lua name=e\nredis.register_function('endless', function() while true do end end)"
    with ServerProcess(tmp_path, "--lua-time-limit", "50") as server, server.raw() as author, server.raw() as other:
        author.run("FUNCTION", "LOAD", endless)
        author.send_words("FCALL", "endless", "0")
        deadline = time.monotonic() + PATIENCE_S
        while other.run("PING") != BUSY:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert b"$14\r\nrunning_script\r\n*6\r\n$4\r\nname\r\n$7\r\nendless" in other.run("FUNCTION", "STATS")
        assert other.run("SCRIPT", "KILL") == BUSY
        assert other.run("FUNCTION", "KILL") == b"+OK\r\n"
        assert author.reply().startswith(b"-ERR Script killed by user with SCRIPT KILL... script: endless, on")
        assert other.run("FUNCTION", "KILL") == b"-NOTBUSY No scripts in execution right now.\r\n"
