"""`headrace serve` as a process: how it starts, which clients it serves, what it survives, and how it ends."""

import os
import re
import signal
import socket
import stat
import time
from pathlib import Path

import pytest
import redis

import headrace
from headrace.server.protection import DENIED, is_denied
from support.patience import PATIENCE_S
from support.ports import free_port
from support.raw_client import RawClient, encode
from support.server_process import READY, ServerProcess, run_to_its_end

WITHOUT_UVLOOP = ("-c", "import sys; sys.modules['uvloop'] = None; from headrace.cli.main import main; main()")


# --- the start -----------------------------------------------------------------------------------------------------


def refused(directory: Path, *arguments: str) -> str:
    """Start a server that cannot start; return its one line on stderr."""
    ended = run_to_its_end("serve", *arguments, directory=directory)
    assert ended.returncode == 1
    (line,) = ended.stderr.decode().splitlines()
    assert line.startswith("headrace: ")
    return line


def test_it_says_version_pid_and_port_when_it_is_ready(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        said = f"Headrace {headrace.__version__}, pid {server.process.pid}, port {server.port}. {READY}"
        assert re.fullmatch(rf"\d+:M \d\d \w+ \d{{4}} [\d:.]+ \* {re.escape(said)}\n", server.log)


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with ServerProcess(tmp_path) as server:
        assert f"Cannot listen on 127.0.0.1:{server.port}: Address already in use" in refused(
            tmp_path / "other", "--port", str(server.port)
        )


def test_an_address_of_another_machine_is_told(tmp_path: Path) -> None:
    port = str(free_port())
    assert f"Cannot listen on 1.2.3.4:{port}: Cannot assign requested address." in refused(
        tmp_path, "--port", port, "--bind", "1.2.3.4"
    )
    assert "None of the addresses" in refused(tmp_path, "--port", port, "--bind", "-1.2.3.4")
    assert "Cannot listen on no.such.invalid" in refused(tmp_path, "--port", port, "--bind", "no.such.invalid")


def test_an_address_that_may_be_missing_is_not_minded(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--bind", "127.0.0.1", "-1.2.3.4", "-::1") as server:
        assert server.client().ping()


def test_a_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    assert "'dir /nosuch' on the command line is refused: No such file or directory." in refused(
        tmp_path, "--dir", "/nosuch"
    )
    assert "The directory /proc cannot be written to" in refused(tmp_path, "--dir", "/proc")


def test_a_log_or_a_unix_socket_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    port = str(free_port())
    assert "The log file /nosuch/log cannot be opened" in refused(tmp_path, "--logfile", "/nosuch/log")
    assert "on the unix socket /nosuch/s" in refused(tmp_path, "--port", port, "--unixsocket", "/nosuch/s")
    (tmp_path / "file").write_text("precious")
    assert "unix socket file" in refused(tmp_path, "--port", port, "--unixsocket", "file")
    assert (tmp_path / "file").read_text() == "precious"


def test_it_needs_somewhere_to_listen(tmp_path: Path) -> None:
    assert "There is nowhere to listen" in refused(tmp_path, "--port", "0")


def test_the_command_has_a_version_and_help(tmp_path: Path) -> None:
    assert run_to_its_end("--version", directory=tmp_path).stdout.decode() == f"headrace {headrace.__version__}\n"
    shown = run_to_its_end("serve", "--help", directory=tmp_path).stdout.decode()
    assert "--maxmemory" in shown
    assert "headrace serve --port 7000" in shown


def test_a_configuration_on_standard_input_is_read(tmp_path: Path) -> None:
    ended = run_to_its_end("serve", "-", directory=tmp_path, stdin=b"port 0\n")
    assert b"There is nowhere to listen" in ended.stderr


def test_the_log_goes_to_a_file_from_its_level_on_and_the_pid_to_another(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--loglevel", "verbose", "--pidfile", "pid", "--dir", str(tmp_path)) as server:
        assert server.client().ping()
        server.await_log("Accepted 127.0.0.1:")
        assert (tmp_path / "pid").read_text() == f"{server.process.pid}\n"
        server.stop()
        assert not (tmp_path / "pid").exists()


def test_a_unix_socket_has_its_permissions_and_goes_with_the_server(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    with ServerProcess(tmp_path, "--unixsocket", str(path), "--unixsocketperm", "700") as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        client = redis.Redis(unix_socket_path=str(path), decode_responses=True)
        assert client.ping()
        assert client.client_info()["laddr"] == f"{path}:0"
        client.close()
        assert server.stop() == 0
    assert not path.exists()


def test_it_serves_without_uvloop_too(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, launcher=WITHOUT_UVLOOP) as server:
        client = server.client()
        pipe = client.pipeline(transaction=False)
        for i in range(2000):
            pipe.xadd("s", {"i": i})
        pipe.execute()
        assert client.xlen("s") == 2000
        assert client.xread({"s": "$"}, block=20) == []
        assert server.stop() == 0


# --- who is served -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "protected", "password", "denied"),
    [
        (("10.0.0.7", 1), True, b"", True),
        (("10.0.0.7", 1), False, b"", False),
        (("10.0.0.7", 1), True, b"x", False),
        (("fe80::1", 1, 0, 0), True, b"", True),
        (("127.0.0.1", 1), True, b"", False),
        (("127.8.8.8", 1), True, b"", False),
        (("::1", 1, 0, 0), True, b"", False),
        (("::ffff:127.0.0.1", 1, 0, 0), True, b"", False),
        ("", True, b"", False),
    ],
)
def test_protected_mode_without_a_password_serves_only_this_machine(
    peer: object, protected: bool, password: bytes, denied: bool
) -> None:
    assert is_denied(peer, protected=protected, password=bool(password)) is denied


def test_a_denied_peer_is_told_in_the_words_of_redis() -> None:
    binary = Path("/usr/bin/redis-check-rdb").resolve()
    if not binary.exists():
        pytest.skip("there is no redis-server to compare with")
    assert DENIED.rstrip(b"\r\n") in binary.read_bytes()


def other_address() -> str | None:
    """Return an address of this machine that is not the loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        host: str = probe.getsockname()[0]
    return None if host.startswith("127.") else host


def test_a_peer_from_elsewhere_is_denied_until_there_is_a_password(tmp_path: Path) -> None:
    address = other_address()
    if address is None:
        pytest.skip("this machine has no address but the loopback")
    with ServerProcess(tmp_path, "--bind", "127.0.0.1", address) as server:
        stranger = RawClient(server.port, host=address)
        assert stranger.reply() == DENIED
        assert stranger.is_closed()
        server.client().config_set("requirepass", "x")
        stranger = RawClient(server.port, host=address)
        assert stranger.run("PING") == b"-NOAUTH Authentication required.\r\n"
        stranger.close()


def test_more_than_maxclients_are_turned_away(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--maxclients", "3") as server:
        clients = [RawClient(server.port) for _ in range(3)]
        assert all(client.run("PING") == b"+PONG\r\n" for client in clients)
        turned_away = RawClient(server.port)
        assert turned_away.reply() == b"-ERR max number of clients reached\r\n"
        assert turned_away.is_closed()
        assert b"rejected_connections:1\r\n" in clients[0].run("INFO", "stats")
        clients.pop().close()
        deadline = time.monotonic() + PATIENCE_S
        while b"connected_clients:2\r\n" not in clients[0].run("INFO", "clients"):
            assert time.monotonic() < deadline
        assert RawClient(server.port).run("PING") == b"+PONG\r\n"


def test_maxclients_can_change_within_what_the_system_allows(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--maxclients", "100") as server:
        client = server.client()
        client.config_set("maxclients", 200)
        with pytest.raises(redis.ResponseError, match=r"The operating system is not able to handle .*, try with \d+"):
            client.config_set("maxclients", 2**32 - 1)
        assert client.config_get("maxclients") == {"maxclients": "200"}


def test_an_idle_client_is_disconnected_after_the_timeout_but_not_one_that_waits(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--timeout", "1") as server:
        idle, waiting = RawClient(server.port), RawClient(server.port)
        assert idle.run("PING") == b"+PONG\r\n"
        waiting.send(b"XREAD BLOCK 0 STREAMS s $".split())
        began = time.monotonic()
        assert idle.is_closed()
        assert time.monotonic() - began > 0.9
        server.client().xadd("s", {"a": "b"}, id="1-1")
        assert b"1-1" in waiting.reply()


def test_connections_are_kept_alive(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--tcp-keepalive", "60") as server, server.raw() as client:
        client.run("PING")
        assert timer_of(server.port) == "02", "the kernel has a keepalive timer for the connection"


def timer_of(port: int) -> str:
    """Return the kind of timer that the kernel has for an established connection to a local port."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, _, timer, *_ = line.split()
        if local.endswith(f":{port:04X}") and state == "01":
            return timer.split(":")[0]
    return "no connection"


# --- what is borne -------------------------------------------------------------------------------------------------


def fill(client: redis.Redis, megabytes: int) -> None:
    for _ in range(megabytes):
        client.xadd("big", {"f": b"x" * (1 << 20)})


def slowest_ping(client: redis.Redis, seconds: float) -> float:
    slowest = 0.0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        began = time.monotonic()
        client.ping()
        slowest = max(slowest, time.monotonic() - began)
    return slowest


def ask_and_not_read(port: int, requests: int) -> socket.socket:
    """Ask for far more than a socket can hold, and leave it there."""
    lazy = socket.socket()
    lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    lazy.connect(("127.0.0.1", port))
    lazy.sendall(encode([b"XRANGE", b"big", b"-", b"+"]) * requests)
    return lazy


def test_who_does_not_read_is_disconnected_at_the_hard_limit_and_harms_nobody(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--client-output-buffer-limit", "normal", "32mb", "0", "0") as server:
        client = server.client()
        fill(client, 8)
        lazy = ask_and_not_read(server.port, 500)
        slowest = slowest_ping(client, 1)
        assert client.info("stats")["client_output_buffer_limit_disconnections"] == 1
        assert client.info("clients")["connected_clients"] == 1
        assert client.info("memory")["used_memory_peak"] < 250 << 20, "4 GB were asked for"
        assert slowest < 0.5
        assert "scheduled to be closed ASAP for overcoming of output buffer limits" in server.log
        lazy.close()


def test_who_reads_too_slowly_for_too_long_is_disconnected_at_the_soft_limit(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--client-output-buffer-limit", "normal", "0", "1mb", "1") as server:
        client = server.client()
        fill(client, 8)
        lazy = ask_and_not_read(server.port, 2)
        time.sleep(0.4)
        assert client.info("clients")["connected_clients"] == 2
        server.await_log("overcoming of output buffer limits")
        assert client.info("clients")["connected_clients"] == 1
        lazy.close()


def test_who_reads_gets_replies_far_over_the_limit(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--client-output-buffer-limit", "normal", "32mb", "0", "0") as server:
        client = server.client()
        fill(client, 8)
        with server.raw() as reader:
            for _ in range(20):
                reader.send([b"XRANGE", b"big", b"-", b"+"])
                assert len(reader.reply()) > 8 << 20


def test_a_request_without_end_is_cut_off_at_the_query_limit(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--client-query-buffer-limit", "1mb") as server, server.raw() as client:
        client.send_raw(b"*2\r\n$4\r\nECHO\r\n$4000000\r\n")
        with pytest.raises(ConnectionError):  # noqa: PT012 — whether a write or the read notices is the kernel's choice
            for _ in range(4):
                client.send_raw(b"x" * 1_000_000)
                time.sleep(0.05)
            client.reply()
        assert server.client().info("stats")["client_query_buffer_limit_disconnections"] == 1
        server.await_log("Closing client that reached max query buffer length")


def test_over_maxmemory_writes_are_refused_while_reads_and_trims_go_on(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        client = server.client()
        fill(client, 64)
        used = int(client.info("memory")["used_memory"])
        client.config_set("maxmemory", used - (32 << 20))
        with pytest.raises(redis.OutOfMemoryError, match="command not allowed when used memory > 'maxmemory'"):
            client.xadd("big", {"f": "x"})
        assert client.xlen("big") == 64
        client.xtrim("big", maxlen=1, approximate=False)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                client.xadd("big", {"f": "x"})
                break
            except redis.OutOfMemoryError:
                assert time.monotonic() < deadline, "writes are still refused after the memory was freed"
                time.sleep(0.05)


def test_a_wait_ends_on_time_and_never_early(tmp_path: Path) -> None:
    """On a busy machine some waits end late; with a coarse clock, or a chore that polls, every wait would."""
    with ServerProcess(tmp_path) as server, server.raw() as client:
        for timeout_ms in (1, 5, 20, 37, 100):
            late_ms, deadline = 1000.0, time.monotonic() + PATIENCE_S
            while late_ms > 10:
                assert time.monotonic() < deadline, f"{timeout_ms} ms are always {late_ms} ms more"
                began = time.monotonic()
                assert client.run("XREAD", "BLOCK", timeout_ms, "STREAMS", "s", "$") == b"*-1\r\n"
                late_ms = (time.monotonic() - began) * 1000 - timeout_ms
                assert late_ms >= -0.5


# --- the end -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with ServerProcess(tmp_path) as server:
        client = RawClient(server.port)
        assert client.run("PING") == b"+PONG\r\n"
        assert server.stop(number) == 0
        assert client.is_closed()
        assert "ready to exit, bye bye" in server.log
        assert "Traceback" not in server.log


def test_what_was_received_is_answered_before_the_end(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        client = server.client()
        fill(client, 8)
        with server.raw() as reader:
            reader.send(*[[b"XRANGE", b"big", b"-", b"+"]] * 4, [b"PING"])
            assert len(reader.reply()) > 8 << 20
            os.kill(server.process.pid, signal.SIGTERM)
            assert [len(reader.reply()) > 8 << 20 for _ in range(3)] == [True] * 3
            assert reader.reply() == b"+PONG\r\n"
            assert reader.is_closed()
        assert server.process.wait(10) == 0


def test_a_second_interrupt_does_not_wait_for_a_slow_reader(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        fill(server.client(), 8)
        lazy = ask_and_not_read(server.port, 10)
        time.sleep(0.2)
        os.kill(server.process.pid, signal.SIGINT)
        server.await_log("Received SIGINT")
        time.sleep(0.2)
        assert server.process.poll() is None
        began = time.monotonic()
        assert server.stop(signal.SIGINT) == 0
        assert time.monotonic() - began < 2
        lazy.close()


def test_shutdown_ends_it_like_a_signal(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        client = RawClient(server.port)
        client.send([b"SHUTDOWN", b"NOSAVE"])
        assert client.is_closed()
        assert server.process.wait(10) == 0


def test_a_client_that_closes_after_its_requests_still_gets_the_replies(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as piped:
            piped.settimeout(5)
            piped.sendall(b"PING\r\nXADD s 1-1 f v\r\nECHO bye\r\n")
            piped.shutdown(socket.SHUT_WR)
            received = b""
            while data := piped.recv(4096):
                received += data
        assert received == b"+PONG\r\n$3\r\n1-1\r\n$3\r\nbye\r\n"
