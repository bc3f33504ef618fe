"""node-redis, ioredis and BullMQ, from npm: a small application of each.

The packages are installed once, into build/npm; without node, npm or a network the tests say so and are skipped.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
import redis

PACKAGES = ("redis@5", "ioredis@5", "bullmq@5")
HERE = Path(__file__).parent
CACHE = HERE.parents[1] / "build" / "npm"


@pytest.fixture(scope="module")
def node_modules() -> Path:
    """The directory that has the packages."""
    for tool in ("node", "npm"):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool}: apt-get install nodejs npm brings it")
    if not all((CACHE / "node_modules" / name.split("@")[0]).is_dir() for name in PACKAGES):
        CACHE.mkdir(parents=True, exist_ok=True)
        install = ["npm", "install", "--prefix", str(CACHE), "--no-audit", "--no-fund", *PACKAGES]
        try:
            subprocess.run(install, capture_output=True, check=True, text=True, timeout=120)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"npm cannot install {' and '.join(PACKAGES)}: {error.stderr!r}")
    return CACHE


def run_script(script: str, directory: Path, server: redis.Redis, *arguments: str) -> None:
    """Run a script where it finds the packages; it says "done" when all was well."""
    there = directory / script
    shutil.copy(HERE / script, there)
    port = str(server.connection_pool.connection_kwargs["port"])
    run = subprocess.run(["node", there, port, *arguments], capture_output=True, check=False, text=True, timeout=60)
    assert (run.stdout, run.stderr) == ("done\n", "")


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_node_redis_works_on_streams(headrace_server: redis.Redis, node_modules: Path, protocol: str) -> None:
    run_script("node_redis.mjs", node_modules, headrace_server, protocol)


def test_bullmq_works_as_on_redis(headrace_server: redis.Redis, redis_server: redis.Redis, node_modules: Path) -> None:
    for server in (headrace_server, redis_server):
        run_script("bull_mq.mjs", node_modules, server)


def test_ioredis_works_on_streams(headrace_server: redis.Redis, node_modules: Path) -> None:
    run_script("io_redis.mjs", node_modules, headrace_server)
