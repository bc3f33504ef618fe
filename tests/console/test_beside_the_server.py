"""Where a console is: `headrace serve --console-port` starts a process of its own, which ends with the server, however
that ends; and by TLS on both sides.
"""

import http.client
import json
import os
import signal
import ssl
from pathlib import Path

from support.certificates import issue
from support.console_process import ConsoleProcess, User
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


def test_it_is_reached_by_tls_and_reaches_a_server_by_tls(tmp_path: Path) -> None:
    issue(tmp_path, "authority", "both")
    port = free_port()
    of_server = ("--tls-cert-file", "both.crt", "--tls-key-file", "both.key")
    encrypted = ("--tls-port", str(port), *of_server, "--tls-ca-cert-file", "authority.crt", "--tls-auth-clients", "no")
    with ServerProcess(tmp_path, *encrypted) as server:
        server.client().xadd("s", {"n": 1})
        url = f"rediss://127.0.0.1:{port}?ssl_ca_certs={tmp_path}/authority.crt"
        trusted = ssl.create_default_context(cafile=str(tmp_path / "authority.crt"))
        with ConsoleProcess(tmp_path, url, *of_server, trusted=trusted) as console:
            user = User(console)
            assert "secure" in user.cookie.lower().split("; ")
            assert user.ask("streams")["rows"][0]["name"] == "s"
            assert user.ask("inside", stream="s")["whole"] is True
        with ConsoleProcess(tmp_path, f"rediss://127.0.0.1:{port}") as console:
            status, _, body = console.send("POST", "/api/login", {"user": "default", "password": ""})
            assert (status, json.loads(body)["error"]) == (503, "away"), "nobody has vouched for that server"
