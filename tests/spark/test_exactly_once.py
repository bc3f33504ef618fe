"""Exactly once: whatever is killed, in the end every entry is there once, and in order."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import spark_job
from campaign import LONG, SEED
from spark_frames import rows, url_of
from spark_queries import is_sparks_own, run_to_the_end

KEYS = ("in:0", "in:1")
DRIVER_KILLS = 12 if LONG else 2
KILLS_EACH = 4
PATIENCE_S = 120


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


class Job:
    """The copying program, in a process group of its own."""

    def __init__(self, server: redis.Redis, directory: Path, master: str) -> None:
        self._server = server
        command = [sys.executable, spark_job.__file__, url_of(server), str(directory), master]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        self._log = directory / "job.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=log, start_new_session=True
            )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"running\n", self._log.read_text()[-2000:]

    def copies_something(self) -> bool:
        """Wait for entries that were not there before; False: Spark could not run its queries."""
        before = self._server.xlen("out:0")
        deadline = time.monotonic() + PATIENCE_S
        while self._server.xlen("out:0") <= before:
            if self._process.poll() is not None:
                assert is_sparks_own(self._log.read_text()), self._log.read_text()[-5000:]
                return False
            assert time.monotonic() < deadline, "nothing was copied"
            time.sleep(0.05)
        return True

    def kill_one(self, what: bytes, chance: random.Random) -> bool:
        """Kill one of the processes that run tasks; False where there is none at the moment."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if what in path.read_bytes() and os.getsid(int(path.parent.name)) == self._process.pid:
                    found.append(int(path.parent.name))
        if found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(found), signal.SIGKILL)
        return bool(found)

    def kill(self) -> None:
        """Kill the driver and everything else."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


# What runs tasks: Python workers, and the executors that start them where those are processes of their own.
WORKER, EXECUTOR = b"pyspark.daemon", b"CoarseGrainedExecutorBackend"


@pytest.mark.timeout(7200 if LONG else 600)
@pytest.mark.parametrize(
    ("master", "victims"),
    [
        ("local[2,20]", [WORKER]),
        pytest.param(
            "local-cluster[2,1,1024]",
            [WORKER, EXECUTOR],
            marks=pytest.mark.skipif(not LONG, reason="a campaign: make test-long runs it"),
        ),
    ],
)
def test_kills_neither_lose_nor_repeat_an_entry(
    spark: SparkSession, restartable: Callable[[], redis.Redis], tmp_path: Path, master: str, victims: list[bytes]
) -> None:
    seed = SEED if SEED is not None else random.randrange(2**32) if LONG else 5
    print(f"HEADRACE_SEED={seed}")
    chance = random.Random(seed)
    server = restartable()
    for key in KEYS:
        server.xadd(key, {"n": -1})
    producer = Producer(redis.Redis(port=server.connection_pool.connection_kwargs["port"]))
    producer.start()
    kills: Counter[str] = Counter()
    for _ in range(3 * DRIVER_KILLS):
        if sum(kills.values()) >= DRIVER_KILLS * (KILLS_EACH + 1):
            break
        job = Job(server, tmp_path, master)
        try:
            if not job.copies_something():
                continue
            for _ in range(KILLS_EACH):
                time.sleep(chance.uniform(0, 1.5))
                victim = chance.choice(victims)
                kills[victim.decode()] += job.kill_one(victim, chance)
            time.sleep(chance.uniform(0, 1.5))
            kills["driver"] += 1
        finally:
            job.kill()
    producer.stop()
    print(dict(kills))
    assert sum(kills.values()) >= DRIVER_KILLS * (KILLS_EACH + 1)
    run_to_the_end(lambda: spark_job.start_copies(spark, url_of(server), tmp_path, once=True))
    expected = [-1, *range(producer.count)]
    for key in KEYS:
        found = [int(entry[b"n"]) for _, entry in server.xrange(key.replace("in", "out"))]
        assert found == expected, f"{key}: {len(found)} of {len(expected)}"
    ids = {key: [id.decode() for id, _ in server.xrange(key)] for key in KEYS}
    lake: dict[str, dict[object, object]] = {key: {} for key in KEYS}
    kept = rows(spark.read.parquet(str(tmp_path / "lake")).select("_key", "_id", "n"))
    for key, id, number in kept:
        lake[key][id] = number
    assert len(kept) == 2 * len(expected)
    for key in KEYS:
        assert [lake[key][id] for id in ids[key]] == expected


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
