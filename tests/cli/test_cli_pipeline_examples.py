"""Every example of `headrace pipeline … --help`, with one Spark."""

import gzip
import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from support.campaign import LONG
from support.cli.examples import Example, examples_of
from support.cli.process import COMMAND, environment, url_of
from support.spark.host import PATIENCE_S, SparkHost

JOBS = ("load", "archive", "compact", "replay", "transform", "watch", "report", "audit")
MORNING_MS = 1794733200000  # 2026-11-15 09:00 UTC

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not LONG, reason="make test-long runs it; tests/pipelines runs these jobs with one Spark"),
]


def fill(client: redis.Redis, directory: Path) -> None:
    """Make the streams and files that the examples speak of."""
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    client.flushall()
    for left in directory.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    for number in range(10):
        id = f"{MORNING_MS + number}-0"
        client.xadd("orders", {"order": number, "state": "late" if number % 2 else "sent"}, id=id)
        client.xadd(f"sensor:{number % 2}", {"device": f"d{number % 2}", "temp": 20 + number}, id=id)
    (directory / "orders.csv").write_text("order,state\n1,sent\n2,late\n")
    clicks = b'{"user": "ann", "page": "/"}\n{"user": "bob", "page": "/x"}\n'
    (directory / "clicks.jsonl.gz").write_bytes(gzip.compress(clicks))
    (directory / "readings").mkdir()
    rows = arrow.table({"device": ["read:1", "read:2"], "id": ["1-0", "1-0"], "temp": [20.5, 21.5]})
    parquet.write_table(rows, directory / "readings" / "a.parquet")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("examples")


@pytest.fixture(scope="module")
def host(directory: Path) -> Iterator[SparkHost]:
    host = SparkHost(directory)
    yield host
    host.close()


def run(host: SparkHost, words: list[str], client: redis.Redis, directory: Path) -> str:
    surroundings = {"HEADRACE_URL": url_of(client), "XDG_STATE_HOME": str(directory / "state")}
    code, told = host.run(words, surroundings)
    assert code == 0, told
    return told


def run_until_committed(words: list[str], client: redis.Redis, directory: Path) -> None:
    """Run a command that never ends by itself until it has done something, and press Ctrl-C."""
    job = subprocess.Popen(
        [*COMMAND, *words], cwd=directory, env=environment(client), stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not list(directory.glob("lake/_spark_metadata/[0-9]*")):
            assert job.poll() is None, job.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        job.send_signal(signal.SIGINT)
        _, wrong = job.communicate(timeout=PATIENCE_S)
    finally:
        job.kill()
        job.wait()
    assert (job.returncode, wrong.count("\n")) == (130, 1), wrong


@pytest.mark.parametrize(
    "example",
    examples_of(*(f"pipeline {job}" for job in JOBS)),
    ids=lambda example: " ".join(example.line.split()[2:5]),
)
def test_an_example(example: Example, host: SparkHost, headrace_server: redis.Redis, directory: Path) -> None:
    fill(headrace_server, directory)
    words = example.words(headrace_server)
    if words[1] in {"compact", "replay", "audit"}:
        run(host, ["pipeline", "archive", "orders,sensor:*", "lake"], headrace_server, directory)
    if words[1] == "replay":
        headrace_server.flushall()
    if "--continuous" in words:
        run_until_committed(words, headrace_server, directory)
        return
    told = run(host, words, headrace_server, directory)
    assert told
    assert "Nothing" not in told
    assert words[1] == "watch" or " 0 " not in told  # whose lag it is
    if "--json" in words:
        assert json.loads(told)["entries"] > 0
