"""What the tests of the source and the sink share: servers to read from and to write to."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

from support.campaign import LONG
from support.ports import free_port
from support.spark.frames import url_of
from support.starting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrameReader, SparkSession


def pytest_pycollect_makemodule() -> None:
    """Skip the directory where there is no pyspark; with one, pytest goes on by itself."""
    pytest.importorskip("pyspark", reason="there is no pyspark: pip install 'headrace[spark]' brings it")


SERVERS = ["redis", "headrace", *(["valkey"] if LONG else [])]


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> redis.Redis:
    """A client of an empty server: first the original, then ours; in a campaign also Valkey, where there is one."""
    client: redis.Redis = request.getfixturevalue(f"{request.param}_server")
    return client


@pytest.fixture
def source(spark: "SparkSession", server: redis.Redis) -> Callable[..., "DataFrameReader"]:
    """Return a reader of the server's streams, with options."""

    def reader(**options: str | int | bool) -> "DataFrameReader":
        return spark.read.format("headrace").option("url", url_of(server)).options(**options)

    return reader


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Callable[[], redis.Redis]]:
    """Start a Headrace server on one port and directory; called again, kill it and start it anew."""
    port = free_port()
    running: list[subprocess.Popen[bytes]] = []
    client = redis.Redis(port=port, protocol=2, socket_timeout=300)  # on a busy machine a long answer takes long

    def start() -> redis.Redis:
        if running:
            running[-1].send_signal(signal.SIGKILL)
            running[-1].wait(10)
        command = [sys.executable, "-m", "headrace.cli.main", "serve", "--port", str(port)]
        command += ["--appendonly", "yes", "--appendfsync", "always"]
        running.append(subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL))
        wait_for(running[-1], client)
        return client

    yield start
    client.close()
    for process in running:
        process.kill()
        process.wait(10)
