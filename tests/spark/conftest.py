"""A real Spark for the tests, one session for all of them, and servers to read from."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

pytest.importorskip("pyspark", reason="there is no pyspark: pip install 'headrace[spark]' brings it")

from pyspark.sql import DataFrameReader, SparkSession

from headrace.spark.errors import NoJava
from headrace.spark.java import prepare_java
from ports import free_port
from spark_frames import url_of
from starting import wait_for


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two cores."""
    if not os.environ.get("HEADRACE_SPARK"):
        pytest.skip("starts a Spark, which takes minutes: make test-spark runs it")
    try:
        prepare_java()
    except NoJava as missing:
        pytest.skip(str(missing))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Workers import the sources and the tests as this process does.
    os.environ["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    directory = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(directory / "warehouse"))
        .config("spark.local.dir", str(directory / "local"))
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(params=["redis", "headrace"])
def server(request: pytest.FixtureRequest) -> redis.Redis:
    """A client of an empty server: first the original, then ours."""
    client: redis.Redis = request.getfixturevalue(f"{request.param}_server")
    return client


@pytest.fixture
def source(spark: SparkSession, server: redis.Redis) -> Callable[..., DataFrameReader]:
    """Return a reader of the server's streams, with options."""

    def reader(**options: object) -> DataFrameReader:
        return spark.read.format("headrace").option("url", url_of(server)).options(**options)

    return reader


@pytest.fixture
def restartable(tmp_path: Path) -> Iterator[Callable[[], redis.Redis]]:
    """Start a Headrace server on one port and directory; called again, kill it and start it anew."""
    port = free_port()
    running: list[subprocess.Popen[bytes]] = []
    client = redis.Redis(port=port, protocol=2)

    def start() -> redis.Redis:
        if running:
            running[-1].send_signal(signal.SIGKILL)
            running[-1].wait(10)
        command = [sys.executable, "-m", "headrace.cli.main", "serve", "--port", str(port), "--appendonly", "yes"]
        running.append(subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL))
        wait_for(running[-1], client)
        return client

    yield start
    client.close()
    for process in running:
        process.kill()
        process.wait(10)
