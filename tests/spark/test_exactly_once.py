"""Exactly once: whatever is killed, in the end every entry is there once, and in order."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import spark_job
from campaign import LONG, SEED
from spark_frames import rows, url_of

KILLS = 12 if LONG else 1
KEYS = ("in:0", "in:1")


class Producer(threading.Thread):
    """Numbers on two streams, until it is stopped."""

    def __init__(self, server: redis.Redis) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._stopping = threading.Event()
        self.count = 0

    def run(self) -> None:
        while not self._stopping.wait(0.05):
            with self._server.pipeline(transaction=False) as pipeline:
                for key in KEYS:
                    for number in range(self.count, self.count + 5):
                        pipeline.xadd(key, {"n": number})
                pipeline.execute()
            self.count += 5

    def stop(self) -> None:
        self._stopping.set()
        self.join()


def start_job(url: str, directory: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, spark_job.__file__, url, str(directory), *words]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
    )


def kill_a_worker(job: subprocess.Popen[bytes], chance: random.Random) -> None:
    """Kill one of the Python processes that run tasks."""
    workers = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"pyspark.daemon" in path.read_bytes() and os.getsid(int(path.parent.name)) == job.pid:
                workers.append(int(path.parent.name))
    if workers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(chance.choice(workers), signal.SIGKILL)


@pytest.mark.timeout(7200 if LONG else 300)
def test_kills_neither_lose_nor_repeat_an_entry(
    spark: SparkSession, restartable: Callable[[], redis.Redis], tmp_path: Path
) -> None:
    seed = SEED if SEED is not None else random.randrange(2**32) if LONG else 5
    print(f"HEADRACE_SEED={seed}")
    chance = random.Random(seed)
    server = restartable()
    for key in KEYS:
        server.xadd(key, {"n": -1})
    producer = Producer(redis.Redis(port=server.connection_pool.connection_kwargs["port"]))
    producer.start()
    for _ in range(KILLS):
        job = start_job(url_of(server), tmp_path)
        try:
            assert job.stdout is not None
            assert job.stdout.readline() == b"running\n"
            seen = server.xlen("out:0")
            while server.xlen("out:0") <= seen and job.poll() is None:
                time.sleep(0.1)
            time.sleep(chance.uniform(0, 1.5))
            kill_a_worker(job, chance)
            time.sleep(chance.uniform(0, 1.5))
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
    producer.stop()
    last = start_job(url_of(server), tmp_path, "once")
    try:
        assert last.wait(250) == 0
    finally:
        if last.poll() is None:
            os.killpg(last.pid, signal.SIGKILL)
            last.wait()
    expected = [-1, *range(producer.count)]
    for key in KEYS:
        found = [int(entry[b"n"]) for _, entry in server.xrange(key.replace("in", "out"))]
        assert found == expected, f"{key}: {len(found)} of {len(expected)}"
    lake = rows(spark.read.parquet(str(tmp_path / "lake")))
    for key in KEYS:
        assert sorted(number for name, number in lake if name == key) == expected


def test_a_batch_that_fails_leaves_nothing_visible(spark: SparkSession, headrace_server: redis.Redis) -> None:
    headrace_server.xadd("s", {"id": "before"})
    frame = spark.range(0, 40000, numPartitions=4).selectExpr("if(id = 39999, raise_error('no'), id) AS id")
    with pytest.raises(PySparkException):
        frame.write.format("headrace").mode("append").options(url=url_of(headrace_server), key="s").save()
    assert headrace_server.xlen("s") == 1
    assert headrace_server.keys("headrace:*") == []


def test_what_was_written_in_one_batch_appears_at_once_and_in_the_order_of_the_rows(
    spark: SparkSession, headrace_server: redis.Redis
) -> None:
    frame = spark.range(0, 30000, numPartitions=5)
    frame.write.format("headrace").mode("append").options(url=url_of(headrace_server), key="s").save()
    assert [int(entry[b"id"]) for _, entry in headrace_server.xrange("s")] == list(range(30000))
    assert headrace_server.keys("headrace:*") == []
