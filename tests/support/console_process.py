"""A console of a test's own, with its server, and the questions that its page asks."""

import http.client
import json
import ssl
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from support.patience import PATIENCE_S
from support.server_process import LAUNCHER, ServerProcess


class ConsoleProcess:
    """`headrace console` on a port that the system chooses; ready when entered."""

    def __init__(self, directory: Path, url: str, *arguments: str, trusted: ssl.SSLContext | None = None) -> None:
        self._trusted = trusted  # who has signed its certificate, where it is reached by TLS
        self._log = directory / "console.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *LAUNCHER, "console", "--url", url, "--port", "0", *arguments],
                cwd=directory,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self.port = 0

    def __enter__(self) -> Self:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().decode()
        assert " is at http" in line, line + self._log.read_text()
        self.port = int(line.split("://")[1].split(":")[1].split(",")[0])
        self.await_answer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def complaints(self) -> str:
        return self._log.read_text()

    def await_answer(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                if self.send("GET", "/")[0] == 200:
                    return
            except OSError:
                assert time.monotonic() < deadline, "the console does not answer"
                time.sleep(0.05)

    def _connect(self) -> http.client.HTTPConnection:
        if self._trusted is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE_S, context=self._trusted)

    def send(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request, and return status, headers and body of the answer."""
        with closing(self._connect()) as connection:
            sent = {"Content-Type": "application/json", **(headers or {})} if method == "POST" else headers or {}
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


class User:
    """Who is logged in to a console."""

    def __init__(self, console: ConsoleProcess, user: str = "default", password: str = "") -> None:
        self.console = console
        status, headers, body = console.send("POST", "/api/login", {"user": user, "password": password})
        assert status == 200, body
        self.cookie = headers["set-cookie"]
        self.about = json.loads(body)

    @property
    def headers(self) -> dict[str, str]:
        return {"Cookie": self.cookie.split(";")[0], "X-CSRF-Token": self.about["token"]}

    def ask(self, name: str, **body: Any) -> dict[str, Any]:
        """Ask, and return the answer."""
        status, answer = self.try_ask(name, **body)
        assert status == 200, answer
        return answer

    def try_ask(self, name: str, **body: Any) -> tuple[int, dict[str, Any]]:
        status, _, answer = self.console.send("POST", f"/api/{name}", body, self.headers)
        told: dict[str, Any] = json.loads(answer)
        return status, told


def console_of(server: ServerProcess, directory: Path, *arguments: str) -> ConsoleProcess:
    """Make a console of a server of this machine."""
    return ConsoleProcess(directory, f"redis://127.0.0.1:{server.port}", *arguments)
