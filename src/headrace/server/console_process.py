"""`console-port`: the console as a process beside the server, so that it never takes the event loop's time.

It is `headrace console`, bound to loopback, and ends with the server, however that ends. If it ends earlier, the log
says why, and the server continues without it.
"""

import os
import subprocess
import sys

from headrace.engine.configuration.config import Config
from headrace.server.log import Log

PARENT = "HEADRACE_CONSOLE_PARENT"  # in the environment of the console: the process that it ends with


class ConsoleProcess:
    """See the module; without `console-port` it does nothing."""

    def __init__(self, config: Config, log: Log) -> None:
        self._config = config
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, once the server can be reached."""
        port = self._config["console-port"]
        if not port:
            return
        url = self._url()
        if url is None:
            self._log.warning(
                "console-port: there is neither a port nor a unixsocket by which the console could connect."
            )
            return
        command = [sys.executable, "-m", "headrace.cli.main", "console", "--url", url, "--port", str(port)]
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            command, env={**os.environ, PARENT: str(os.getpid())}, stdin=subprocess.DEVNULL
        )
        self._log.notice(f"The console is at http://127.0.0.1:{port}")

    def _url(self) -> str | None:
        if self._config["unixsocket"]:
            return f"unix://{os.path.abspath(self._config['unixsocket'])}"  # noqa: PTH100 - links are kept
        if not self._config["port"]:
            return None
        hosts = [address.removeprefix("-") for address in self._config["bind"]]
        host = "127.0.0.1" if {"*", "0.0.0.0", "127.0.0.1"} & set(hosts) else hosts[0]  # noqa: S104 - compared
        host = "::1" if host == "::*" else host
        return f"redis://{f'[{host}]' if ':' in host else host}:{self._config['port']}"

    def tick(self) -> None:
        """Log the end of the console."""
        if self._process is not None and self._process.poll() is not None:
            self._log.warning(f"The console has ended with status {self._process.returncode}; the server goes on.")
            self._process = None

    def end(self) -> None:
        """End it, and wait for that."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
