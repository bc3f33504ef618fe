"""Being started and watched by others: the background, systemd, upstart, logrotate, signals."""

import errno
import os
import signal
import socket
import subprocess
import sys
import syslog
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis

from headrace.server import listeners
from headrace.server.log import Log
from support.patience import PATIENCE_S
from support.ports import free_port
from support.server_process import LAUNCHER, READY, ServerProcess, run_to_its_end


@contextmanager
def notify_socket(monkeypatch: pytest.MonkeyPatch, address: str) -> Iterator[socket.socket]:
    """Listen as systemd does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + address[1:] if address.startswith("@") else address)
        listener.settimeout(PATIENCE_S)
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        yield listener


def await_file(path: Path, text: str) -> str:
    """Return a file's content once it holds a text."""
    deadline = time.monotonic() + PATIENCE_S
    while not path.exists() or text not in path.read_text():
        assert time.monotonic() < deadline, path.read_text() if path.exists() else f"{path} is not there"
        time.sleep(0.01)
    return path.read_text()


def await_end(pid: int) -> None:
    """Return once a process that is no child of ours has ended."""
    deadline = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"{pid} does not end"
        time.sleep(0.01)


# --- the background ------------------------------------------------------------------------------------------------


def test_in_the_background_it_serves_when_the_command_returns(tmp_path: Path) -> None:
    port = free_port()
    flags = ("--daemonize", "yes", "--port", str(port), "--pidfile", "pid", "--logfile", "log")
    ended = run_to_its_end("serve", *flags, directory=tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    pid = int((tmp_path / "pid").read_text())
    try:
        assert os.getsid(pid) == pid, "the terminal's signals do not reach it"
        await_file(tmp_path / "log", READY)
        client = redis.Redis(port=port)
        assert client.info("server")["process_id"] == pid
        with suppress(redis.ConnectionError):
            client.shutdown(nosave=True)
        await_end(pid)
        assert not (tmp_path / "pid").exists()
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_what_keeps_it_from_the_background_is_said_at_the_terminal_and_in_the_log(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        flags = ("--daemonize", "yes", "--port", str(port), "--bind", "127.0.0.1", "--logfile", "log")
        ended = run_to_its_end("serve", *flags, directory=tmp_path)
    sentence = f"Cannot listen on 127.0.0.1:{port}: Address already in use"
    assert ended.returncode == 1
    assert ended.stderr.decode().startswith(f"headrace: {sentence}")
    assert sentence in (tmp_path / "log").read_text()


def test_a_start_that_fails_while_it_loads_is_explained_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "dump.rdb").write_bytes(b"this is no snapshot")
    flags = ("--port", str(free_port()), "--logfile", "log", "--appendonly", "no")
    ended = run_to_its_end("serve", *flags, directory=tmp_path)
    assert ended.returncode == 1
    [sentence] = ended.stderr.decode().splitlines()
    assert sentence.removeprefix("headrace: ") in (tmp_path / "log").read_text()


# --- systemd and upstart -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("abstract", [False, True], ids=["a path", "an abstract name"])
def test_systemd_is_told_when_it_is_ready_and_when_it_stops(
    abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"@headrace-{os.getpid()}" if abstract else str(tmp_path / "notify")
    # As Debian's unit starts it; a server that systemd watches stays in the foreground.
    flags = ("--supervised", "systemd", "--daemonize", "yes")
    with notify_socket(monkeypatch, address) as systemd, ServerProcess(tmp_path, *flags) as server:
        said: list[str] = []
        while not said or "READY=1" not in said[-1]:
            said.append(systemd.recv(1000).decode())
        assert said[-1] == "STATUS=Ready to accept connections\nREADY=1"
        assert server.client().ping()
        assert server.stop() == 0
        assert systemd.recv(1000) == b"STOPPING=1"


def test_the_watchdog_of_systemd_hears_of_it_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    listening = notify_socket(monkeypatch, str(tmp_path / "notify"))
    with listening as systemd, ServerProcess(tmp_path, "--supervised", "systemd"):
        said = [systemd.recv(1000) for _ in range(8)]
        assert said.count(b"WATCHDOG=1") >= 5


def test_the_watchdog_of_another_process_hears_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "1000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    with (
        notify_socket(monkeypatch, str(tmp_path / "notify")) as systemd,
        ServerProcess(tmp_path, "--supervised", "systemd") as server,
    ):
        assert server.client().ping()
        server.stop()
        systemd.settimeout(0)
        said = []
        with suppress(BlockingIOError):
            while True:
                said.append(systemd.recv(1000))
        assert said
        assert b"WATCHDOG=1" not in said


def test_while_it_loads_systemd_is_asked_for_more_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ServerProcess(tmp_path) as server:
        server.client().xadd("s", {"a": 1})
        server.stop()
    listening = notify_socket(monkeypatch, str(tmp_path / "notify"))
    with listening as systemd, ServerProcess(tmp_path, "--supervised", "auto"):
        assert systemd.recv(1000).decode().endswith("EXTEND_TIMEOUT_USEC=30000000")


def test_without_anyone_who_supervises_it_serves_and_says_so(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--supervised", "systemd") as server:
        assert "supervised systemd: nobody of that kind has started this process" in server.log
        assert server.client().ping()


def test_for_upstart_it_stops_when_it_is_ready_and_goes_on_when_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPSTART_JOB", "headrace")
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, *LAUNCHER, "serve", "--supervised", "auto", "--port", str(port), "--logfile", "log"],
        cwd=tmp_path,
    )
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert READY in (tmp_path / "log").read_text()
        process.send_signal(signal.SIGCONT)
        assert redis.Redis(port=port).ping()
    finally:
        process.kill()
        process.wait(PATIENCE_S)


# --- the log -------------------------------------------------------------------------------------------------------


def test_after_logrotate_the_next_line_begins_a_new_file(tmp_path: Path) -> None:
    port = free_port()
    flags = ["--port", str(port), "--logfile", "log", "--appendonly", "no"]
    process = subprocess.Popen([sys.executable, *LAUNCHER, "serve", *flags], cwd=tmp_path)
    try:
        await_file(tmp_path / "log", READY)
        (tmp_path / "log").rename(tmp_path / "log.1")
        for number in (signal.SIGHUP, signal.SIGUSR1):  # what a `postrotate` may send
            process.send_signal(number)
        redis.Redis(port=port).config_set("maxmemory-samples", 6)
        assert "maxmemory-samples" in await_file(tmp_path / "log", "\n")
        assert "maxmemory-samples" not in (tmp_path / "log.1").read_text()
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def test_lines_go_to_syslog_where_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[object, ...]] = []
    monkeypatch.setattr(syslog, "openlog", lambda *opened: sent.append(opened))
    monkeypatch.setattr(syslog, "syslog", lambda *line: sent.append(line))
    log = Log("", "notice")
    log.use_syslog("streams", "local3")
    log.verbose("nobody reads this")
    log.warning("the disk is full")
    options = syslog.LOG_PID | syslog.LOG_NDELAY | syslog.LOG_NOWAIT
    assert sent == [("streams", options, syslog.LOG_LOCAL3), (syslog.LOG_WARNING, "the disk is full")]


def test_a_log_that_cannot_be_written_does_not_end_the_server(tmp_path: Path) -> None:
    place = tmp_path / "logs"
    place.mkdir()
    log = Log(str(place / "log"), "notice")
    (place / "log").unlink()
    place.rmdir()
    log.warning("nobody reads this")


def test_the_log_says_how_a_rewrite_of_the_configuration_went(tmp_path: Path) -> None:
    place = tmp_path / "etc"
    place.mkdir()
    file = place / "headrace.conf"
    file.write_text("hz 10\n")
    with ServerProcess(tmp_path, str(file)) as server:
        client = server.client()
        client.config_rewrite()
        server.await_log(f"CONFIG REWRITE has written {file}")
        file.unlink()
        with pytest.raises(redis.ResponseError, match="Rewriting config file: No such file or directory"):
            client.config_rewrite()
        server.await_log(f"CONFIG REWRITE of {file} failed: No such file or directory")


def test_a_port_that_is_not_allowed_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "not allowed")

    monkeypatch.setattr(listeners, "_listen", refuse)
    with pytest.raises(listeners.CannotListen, match="Permission denied; a port below 1024 needs root"):
        listeners.open_tcp(("127.0.0.1",), 80, 10)


# --- the pid file, and signals -------------------------------------------------------------------------------------


def test_a_pid_file_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--pidfile", "no/such/directory/pid") as server:
        assert f"Failed to write PID file {tmp_path}/no/such/directory/pid: No such file or directory" in server.log
        assert server.client().ping()
        assert server.stop() == 0


@pytest.mark.parametrize(("flags", "saved"), [("save", True), ("nosave", False), ("default", False)])
def test_a_signal_saves_as_its_setting_says(flags: str, saved: bool, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--appendonly", "no", "--shutdown-on-sigterm", flags) as server:
        server.client().set("a", 1)
        assert server.stop() == 0
    assert (tmp_path / "dump.rdb").exists() == saved


def test_a_signal_while_it_loads_ends_it_and_nothing_is_lost(tmp_path: Path) -> None:
    entries = 100_000
    commands = b"".join(
        b"*5\r\n$4\r\nXADD\r\n$1\r\ns\r\n$8\r\n%06d-1\r\n$1\r\na\r\n$1\r\n1\r\n" % n for n in range(1, entries + 1)
    )
    (tmp_path / "appendonly.aof").write_bytes(commands)
    server = ServerProcess(tmp_path)
    try:
        reply = b""
        while not reply:
            with suppress(OSError), server.raw() as client:
                reply = client.run("PING")
        assert server.stop() == 0, server.log
    finally:
        server.process.kill()
        server.process.wait(PATIENCE_S)
    with ServerProcess(tmp_path) as server:
        assert server.client().xlen("s") == entries
