"""`headrace serve --console-port`: a process of its own, which ends with the server, however that ends."""

import http.client
import os
import signal
from pathlib import Path

from support.patience import await_that
from support.ports import free_port
from support.server_process import ServerProcess


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def answers(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_it_ends_with_the_server_also_when_that_is_killed(tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        port = free_port()
        with ServerProcess(tmp_path, "--console-port", str(port)) as server:
            server.await_log(f"The console is at http://127.0.0.1:{port}")
            [console] = children_of(server.process.pid)
            await_that(lambda: answers(port), pause_s=0.05)  # noqa: B023 - it is called at once
            server.stop(number)
            await_that(lambda: is_gone(console), pause_s=0.05)  # noqa: B023


def test_a_console_that_ends_is_said_and_the_server_goes_on(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--console-port", str(free_port())) as server:
        [console] = children_of(server.process.pid)
        os.kill(console, signal.SIGKILL)
        server.await_log("The console has ended with status -9; the server goes on.")
        assert server.client().ping()
        assert server.stop() == 0
