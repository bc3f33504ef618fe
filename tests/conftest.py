"""What all tests share: how long to run, and a real redis-server to compare with."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from hypothesis import HealthCheck, settings

LONG = os.environ.get("HEADRACE_LONG") == "1"

# A campaign explores; a run before a merge must give the same answer twice.
settings.register_profile(
    "test", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", settings.get_profile("test"), derandomize=False, max_examples=2000)
settings.load_profile("long" if LONG else "test")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


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
    client = redis.Redis(port=port, protocol=2)
    try:
        for _ in range(200):
            try:
                client.ping()
                break
            except redis.ConnectionError:
                time.sleep(0.05)
        yield client
    finally:
        client.close()
        process.terminate()
        process.wait(10)


@pytest.fixture
def redis_server(redis_process: redis.Redis) -> redis.Redis:
    """A client of the private redis-server, which holds nothing yet and has its default settings."""
    redis_process.flushall()
    redis_process.config_set("stream-node-max-entries", 100)
    redis_process.config_set("stream-node-max-bytes", 4096)
    redis_process.config_set("rdbcompression", "no")
    return redis_process
