"""What all tests share: how long to run, a Headrace server, a real redis-server to compare it with, and a Spark."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis
from hypothesis import HealthCheck, settings

# The assertions of helpers explain themselves as those of tests do; this comes before the first of them is imported.
pytest.register_assert_rewrite("support")

from support.campaign import BRIEF, LONG  # noqa: E402
from support.ports import free_port  # noqa: E402
from support.sharing import Sharing, turn_of  # noqa: E402
from support.starting import client_of  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer

# `make test-asan` watches this process and no other: a compiler and a redis-server leak by design, and a limit on
# memory stops AddressSanitizer, which reserves terabytes. What tests start has the ordinary build.
if "libasan" in os.environ.get("LD_PRELOAD", ""):
    for name in ("LD_PRELOAD", "PYTHONMALLOC", "PYTHONPATH"):
        os.environ.pop(name, None)

# Processes that tests start import the same helpers.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))

# A shell starts what runs in the background with Ctrl-C ignored, and tests that press it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A campaign explores; a run before a merge must give the same answer twice.
settings.register_profile(
    "test", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", settings.get_profile("test"), derandomize=False, max_examples=2000)
settings.register_profile("brief", settings.get_profile("test"), max_examples=20)
settings.load_profile("long" if LONG else "brief" if BRIEF else "test")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> Sharing:
    """Share the tests between processes."""
    return Sharing(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""
    items.sort(key=lambda item: turn_of(item.nodeid))


@pytest.fixture(scope="session")
def redis_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    """A private redis-server for the session, without persistence or compression."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("there is no redis-server to compare with: apt-get install redis-server brings one")
    port = free_port()
    directory: Path = tmp_path_factory.mktemp("redis")
    process = subprocess.Popen(
        [
            *(binary, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory)),
            *("--save", "", "--appendonly", "no", "--enable-debug-command", "yes"),
        ],
        stdout=subprocess.DEVNULL,
    )
    with client_of(process, port) as client:
        yield client


@pytest.fixture
def redis_server(redis_process: redis.Redis) -> redis.Redis:
    """A client of the private redis-server, which holds nothing yet and has its default settings."""
    redis_process.flushall()
    redis_process.config_set("stream-node-max-entries", 100)
    redis_process.config_set("stream-node-max-bytes", 4096)
    redis_process.config_set("rdbcompression", "no")
    return redis_process


@pytest.fixture(scope="session")
def valkey_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    """A private valkey-server for the session."""
    binary = shutil.which("valkey-server")
    if binary is None:
        pytest.skip("there is no valkey-server: Debian 13 and Ubuntu 24.10 have a package of that name")
    port = free_port()
    command = [binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(command, cwd=tmp_path_factory.mktemp("valkey"), stdout=subprocess.DEVNULL)
    with client_of(process, port) as client:
        yield client


@pytest.fixture
def valkey_server(valkey_process: redis.Redis) -> redis.Redis:
    """A client of the private valkey-server, which holds nothing yet."""
    valkey_process.flushall()
    return valkey_process


@pytest.fixture(scope="session")
def headrace_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[redis.Redis]:
    """A private Headrace server for the session, in a process of its own."""
    port = free_port()
    directory: Path = tmp_path_factory.mktemp("headrace")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "headrace.cli.main", "serve", "--port", str(port)),
            *("--appendonly", "no", "--enable-debug-command", "yes", "--repl-diskless-sync-delay", "0"),
        ],
        cwd=directory,
        stdout=subprocess.DEVNULL,
    )
    with client_of(process, port) as client:
        yield client


@pytest.fixture(scope="session")
def headrace_settings(headrace_process: redis.Redis) -> dict[str, str]:
    """The settings that the private Headrace server started with."""
    return dict(headrace_process.config_get("*"))


@pytest.fixture
def headrace_server(headrace_process: redis.Redis, headrace_settings: dict[str, str]) -> redis.Redis:
    """A client of the private Headrace server, which holds nothing yet and has the settings that it started with."""
    headrace_process.flushall()
    for name, value in headrace_process.config_get("*").items():
        if headrace_settings[name] != value:
            headrace_process.config_set(name, headrace_settings[name])
    return headrace_process


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """A Spark on two cores, one for all tests that need one: starting it takes as long as many of them."""
    pytest.importorskip("pyspark", reason="there is no pyspark: pip install 'headrace[spark]' brings it")
    from headrace.spark.errors import NoJava  # noqa: PLC0415  (only where there is a pyspark)
    from support.spark.sessions import start_spark  # noqa: PLC0415

    try:
        session = start_spark(tmp_path_factory.mktemp("spark"))
    except NoJava as missing:
        pytest.skip(str(missing))
    yield session
    session.stop()
