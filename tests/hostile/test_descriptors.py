"""Descriptors and processes used up: the server has those that it needs itself, or it says what is missing."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from support.patience import PATIENCE_S
from support.ports import free_port
from support.server_process import ServerProcess

LIMIT = 64
LIMITED = f"import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({LIMIT}, {LIMIT})); "
SERVE = "from headrace.cli.main import main; main()"
LAUNCHERS = {
    "the event loop that is installed": ("-c", LIMITED + SERVE),
    "asyncio's event loop": ("-c", LIMITED + "sys.modules['uvloop'] = None; " + SERVE),
}
# As where a user may have no more processes: no child is to be had while a file says so.
WITHOUT_CHILDREN = (
    "-c",
    (
        "import os\n"
        "fork = os.fork\n"
        "def refuse():\n"
        "    if os.path.exists('refused'):\n"
        "        raise BlockingIOError(11, os.strerror(11))\n"
        "    return fork()\n"
        "os.fork = refuse\n"
    )
    + SERVE,
)


def begin_to_connect(port: int) -> closing[socket.socket]:
    stranger = socket.socket()
    stranger.setblocking(False)
    stranger.connect_ex(("127.0.0.1", port))
    return closing(stranger)


def await_that(happens: Callable[[], bool], server: ServerProcess) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not happens():
        assert time.monotonic() < deadline, server.log
        time.sleep(0.05)


def is_served(server: ServerProcess) -> bool:
    with server.raw() as client:
        try:
            return client.run("PING") == b"+PONG\r\n"
        except ConnectionError:
            return False


def tls_settings(directory: Path) -> tuple[str, ...]:
    """Make a certificate; return the settings of a port that shows it."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", "/CN=server", "-keyout", "server.key", "-out", "server.crt"),
        ],
        cwd=directory,
        check=True,
        capture_output=True,
    )
    return (
        *("--tls-cert-file", "server.crt", "--tls-key-file", "server.key", "--tls-auth-clients", "no"),
        *("--tls-port", str(free_port())),
    )


@pytest.mark.parametrize("launcher", LAUNCHERS.values(), ids=LAUNCHERS.keys())
def test_files_are_written_while_connections_take_every_descriptor(tmp_path: Path, launcher: tuple[str, ...]) -> None:
    settings = tls_settings(tmp_path)
    file = tmp_path / "headrace.conf"
    file.write_text('save ""\nappendonly yes\n')
    with ServerProcess(tmp_path, str(file), *settings, launcher=launcher) as server, server.raw() as client:
        for port in (server.port, int(settings[-1])):
            assert client.run("PING") == b"+PONG\r\n"
            os.kill(server.process.pid, signal.SIGSTOP)  # so that it finds all of them at once
            with ExitStack() as open_ones:
                for _ in range(3 * LIMIT):
                    open_ones.enter_context(begin_to_connect(port))
                client.send([b"SAVE"], [b"CONFIG", b"REWRITE"], [b"BGREWRITEAOF"], [b"SET", b"k", b"v"])
                os.kill(server.process.pid, signal.SIGCONT)
                assert client.reply() == b"+OK\r\n"
                assert client.reply() == b"+OK\r\n"
                assert client.reply().startswith(b"+Background append only file rewriting")
                assert client.reply() == b"+OK\r\n"
                await_that(lambda: b"aof_rewrite_in_progress:0" in client.run("INFO", "persistence"), server)
                assert client.run("BGSAVE") == b"+Background saving started\r\n"
                await_that(lambda: b"rdb_bgsave_in_progress:0" in client.run("INFO", "persistence"), server)
                shown = client.run("INFO", "persistence")
                assert b"aof_last_bgrewrite_status:ok" in shown
                assert b"rdb_last_bgsave_status:ok" in shown
            await_that(lambda: is_served(server), server)
        assert "Traceback" not in server.log


def test_stuck_handshakes_take_a_quarter_of_the_places(tmp_path: Path) -> None:
    settings = tls_settings(tmp_path)
    with ServerProcess(tmp_path, *settings, "--maxclients", "20") as server, ExitStack() as open_ones:
        with server.raw() as client:
            handshakes = [open_ones.enter_context(begin_to_connect(int(settings[-1]))) for _ in range(40)]
            await_that(lambda: b"rejected_connections:35\r\n" in client.run("INFO", "stats"), server)
        held = 0
        for handshake in handshakes:
            try:
                handshake.recv(1)
            except BlockingIOError:
                held += 1
            except ConnectionError:
                pass
        assert held <= 5
        for _ in range(15):
            client = open_ones.enter_context(server.raw())
            assert client.run("PING") == b"+PONG\r\n"


def test_a_child_that_is_not_to_be_had_is_named_and_tried_again(tmp_path: Path) -> None:
    refused = tmp_path / "refused"
    refused.touch()
    arguments = ("--appendonly", "yes", "--save", "3600 1000000")
    with ServerProcess(tmp_path, *arguments, launcher=WITHOUT_CHILDREN) as server, server.raw() as client:
        held = Path(f"/proc/{server.process.pid}/fd")
        assert client.run("PING") == b"+PONG\r\n"  # the server has accepted it
        descriptors = len(list(held.iterdir()))
        reason = os.strerror(11).encode()
        started = b"+Background append only file rewriting started\r\n"
        assert client.run("BGREWRITEAOF") == started  # that there is no child shows when the new increment is on disk
        await_that(lambda: b"aof_last_bgrewrite_status:err" in client.run("INFO", "persistence"), server)
        for _ in range(10):
            assert client.run("BGSAVE") == b"-ERR the snapshot could not be written: %s\r\n" % reason
            assert client.run("BGREWRITEAOF") == b"-ERR the append-only files could not be rewritten: %s\r\n" % reason
        assert len(list(held.iterdir())) <= descriptors + 1
        assert client.run("SET", "k", "v").startswith(b"-MISCONF ")
        assert client.run("GET", "k") == b"$-1\r\n"
        assert "Traceback" not in server.log
        assert "internal error" not in server.log
        refused.unlink()
        assert client.run("BGSAVE") == b"+Background saving started\r\n"
        await_that(lambda: client.run("SET", "k", "v") == b"+OK\r\n", server)
