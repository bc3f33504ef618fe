"""Where a story is played: a directory with a server that can be killed, programs beside it, and a clock that is set.

    with Stage(tmp_path) as stage:
        stage.serve()                                    headrace serve, on a port and a directory that stay
        worker = stage.start("worker.py", "w1")          a program of tests/stories/programs
        stage.kill(worker); stage.restart()              kill -9; the server with -9 or SIGTERM, and start again
        stage.clock.step(-60)                            what a person or NTP does to the clock of a machine
        stage.lines("done")                              what the programs wrote into a ledger, line by line

Programs get the port as STORY_PORT and run in the directory of the stage. They are killed when the story ends; what
they said is shown when it fails.
"""

import mmap
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import pytest
import redis

from support.campaign import LONG
from support.patience import PATIENCE_S
from support.ports import free_port
from support.starting import wait_for

PROGRAMS = Path(__file__).parents[2] / "stories" / "programs"
SECONDS = 180.0 if LONG else 8.0  # how long a story goes on before it comes to its end


class SetClock:
    """The wall clock of the programs of a stage; see set_clock.c."""

    def __init__(self, directory: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("there is no C compiler to make a clock with: apt-get install gcc brings one")
        library, self._path = directory / "set_clock.so", directory / "set_clock"
        source = Path(__file__).with_name("set_clock.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        self._path.write_bytes(struct.pack("ddd", 0, 1, time.time()))
        with self._path.open("r+b") as file:
            self._setting = mmap.mmap(file.fileno(), 0)
        self.environment = {"LD_PRELOAD": str(library), "SET_CLOCK": str(self._path)}

    def _shift(self) -> float:
        offset, rate, origin = struct.unpack("ddd", self._setting)
        return float(offset + (time.time() - origin) * (rate - 1))

    def step(self, seconds: float) -> None:
        """Set the clock forwards, or back."""
        _, rate, _ = struct.unpack("ddd", self._setting)
        self._setting[:] = struct.pack("ddd", self._shift() + seconds, rate, time.time())

    def run_at(self, rate: float) -> None:
        """Let it go so many times as fast from now on."""
        self._setting[:] = struct.pack("ddd", self._shift(), rate, time.time())

    def time(self) -> float:
        """What it shows."""
        return time.time() + self._shift()


class Stage:
    """See the module."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.clock = SetClock(directory)
        self.server: subprocess.Popen[bytes] | None = None
        self._settings: tuple[str, ...] = ()
        self._programs: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Stage":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in [*self._programs, *filter(None, [self.server])]:
            if process.poll() is None:
                process.kill()
            process.wait(PATIENCE_S)
        if error is not None:
            for log in sorted(self.directory.glob("*.log")):
                error.add_note(f"{log.name}:\n{log.read_text(errors='replace')[-4000:]}")

    # --- the server ------------------------------------------------------------------------------------------------

    def serve(self, *settings: str) -> None:
        """Start the server, and wait until it answers."""
        self._settings = settings
        (self.directory / "data").mkdir(exist_ok=True)
        words = ("-m", "headrace.cli.main", "serve", "--port", str(self.port), "--dir", "data", *settings)
        self.server = self._run(words, "server")
        with self.client() as client:
            wait_for(self.server, client)

    def restart(self, how: signal.Signals = signal.SIGKILL, *, away_s: float = 0.3) -> None:
        """End the server, and start it again."""
        assert self.server is not None
        assert self.server.poll() is None, "the server has ended by itself"
        self.server.send_signal(how)
        self.server.wait(PATIENCE_S)
        time.sleep(away_s)
        self.serve(*self._settings)

    def client(self) -> redis.Redis:
        """A client of the server."""
        return redis.Redis(port=self.port, decode_responses=True)

    def assert_nothing_was_reported(self) -> None:
        """No program and no server met an error of ours."""
        for log in self.directory.glob("*.log"):
            text = log.read_text(errors="replace")
            assert "please report this" not in text, text[-4000:]

    # --- programs --------------------------------------------------------------------------------------------------

    def start(self, program: str, *words: str) -> subprocess.Popen[bytes]:
        """Start a program of the stories."""
        process = self._run((str(PROGRAMS / program), *words), "-".join([program.removesuffix(".py"), *words[:1]]))
        self._programs.append(process)
        return process

    def _run(self, words: tuple[str, ...], name: str) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name.replace('/', '_')}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *words],
                cwd=self.directory,
                env={**os.environ, **self.clock.environment, "STORY_PORT": str(self.port), "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Let a program vanish, as in a power failure; it must have been alive."""
        assert process.poll() is None, f"{process.args!r} has ended by itself, with {process.returncode}"
        process.kill()
        process.wait(PATIENCE_S)

    def stop(self, process: subprocess.Popen[bytes]) -> None:
        """Ask a program to end; it ends well."""
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, f"{process.args!r} ended with {process.returncode}"

    # --- ledgers ---------------------------------------------------------------------------------------------------

    def lines(self, ledger: str) -> list[str]:
        """What was written into a ledger, without a last line that a kill has cut."""
        path = self.directory / ledger
        return path.read_text().rpartition("\n")[0].split("\n") if path.exists() and path.stat().st_size else []

    def await_that(self, condition: Callable[[], bool], what: str) -> None:
        """Return once a condition holds."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"it never came to be that {what}"
            time.sleep(0.05)
