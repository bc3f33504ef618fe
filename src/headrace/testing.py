"""Fixtures for the tests of programs that use streams: `pytest_plugins = ["headrace.testing"]` in a conftest.py.

    def test_orders(headrace_db):           a database in memory, of this test's own
    def test_workers(headrace_url):         the url of a server, for programs that connect; it holds nothing yet

The server is one process for all tests of a run, on a socket in a temporary directory, and nothing of it is on disk.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import headrace
from headrace.api.errors import CannotConnect, MissingLibrary

try:
    import pytest
except ImportError:
    raise MissingLibrary(
        "headrace.testing has fixtures for pytest, which is not installed: pip install pytest"
    ) from None

_PATIENCE_S = 60.0


@pytest.fixture
def headrace_db() -> Iterator[headrace.Database]:
    """A database in memory, which is closed after the test."""
    with headrace.open(None) as db:
        yield db


@pytest.fixture(scope="session")
def headrace_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The url of a server that runs until the last test is over."""
    directory = tmp_path_factory.mktemp("headrace")
    url = f"unix://{directory / 'server.sock'}"
    command = [sys.executable, "-m", "headrace.cli.main", "serve", "--port", "0", "--unixsocket", "server.sock"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([*command, "--appendonly", "no"], cwd=directory, stdout=log, stderr=log)  # noqa: S603
    try:
        _await_server(process, url, directory / "log")
        yield url
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def headrace_url(headrace_process: str) -> str:
    """The url of a server that holds nothing yet."""
    with headrace.connect(headrace_process) as db:
        db.execute("FLUSHALL")
    return headrace_process


def _await_server(process: subprocess.Popen[bytes], url: str, log: object) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            headrace.connect(url).close()
            return
        except CannotConnect as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise CannotConnect(f"The server of headrace.testing does not start; its log is {log}.") from error
            time.sleep(0.02)
