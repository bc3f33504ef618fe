"""A Headrace server of a test's own: started with any arguments, and seen from outside."""

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self

import redis

from support.patience import PATIENCE_S
from support.ports import free_port
from support.raw_client import RawClient

READY = "Ready to accept connections"
LAUNCHER = ("-m", "headrace.cli.main")


def run_to_its_end(*arguments: str, directory: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run `headrace` with arguments that make it end by itself."""
    return subprocess.run(
        [sys.executable, *LAUNCHER, *arguments],
        cwd=directory,
        input=stdin,
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )


class ServerProcess:
    """`headrace serve` on a free port, with its log in a file; ready when entered."""

    def __init__(
        self, directory: Path, *arguments: str, launcher: tuple[str, ...] = LAUNCHER, port: int | None = None
    ) -> None:
        self.port = port or free_port()
        self.directory = directory
        self._log = directory / "stdout.log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, *launcher, "serve", *arguments, "--port", str(self.port)],
                cwd=directory,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        self.await_log(READY)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def await_log(self, text: str) -> None:
        """Return once the log holds a text."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.log:
            assert time.monotonic() < deadline, f"the log never said {text!r}:\n{self.log}"
            assert self.process.poll() is None, f"the server ended with {self.process.returncode}:\n{self.log}"
            time.sleep(0.01)

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, protocol=2, decode_responses=True)

    def raw(self) -> closing[RawClient]:
        return closing(RawClient(self.port))

    def resident_bytes(self) -> int:
        """The memory that the server holds."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        """The processor time that the server has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        os.kill(self.process.pid, number)
        return self.process.wait(PATIENCE_S)
