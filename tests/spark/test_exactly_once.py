"""Exactly once: whatever is killed, in the end every entry is there once, and in order."""

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from support.campaign import LONG, SEED
from support.spark import job as spark_job
from support.spark.frames import rows, url_of
from support.spark.kills import DRIVER, EXECUTOR, KEYS, SERVER, WORKER, Job, Producer
from support.spark.queries import run_to_the_end

DRIVER_KILLS = 12 if LONG else 1  # what it left is then read by the session of the tests
KILLS_EACH = 4 if LONG else 3


@pytest.mark.timeout(7200 if LONG else 600)
@pytest.mark.parametrize(
    ("master", "victims"),
    [
        ("local[2,20]", [WORKER, SERVER]),
        pytest.param(
            "local-cluster[2,1,1024]",
            [WORKER, EXECUTOR, SERVER],
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
    producer = Producer(server)
    kills: Counter[bytes] = Counter()
    for _ in range(3 * DRIVER_KILLS):
        if kills[DRIVER] == DRIVER_KILLS:
            break
        job = Job(server, tmp_path, master)
        try:
            if not job.copies_something():
                continue
            # Each of them, and as many more as it takes.
            plan = [*victims, *chance.choices(victims, k=KILLS_EACH - len(victims))]
            for victim in chance.sample(plan, len(plan)):
                time.sleep(chance.uniform(0, 1.5))
                if victim == SERVER:
                    restartable()
                    kills[SERVER] += 1
                else:
                    kills[victim] += job.kill_one(victim, chance)
            time.sleep(chance.uniform(0, 1.5))
            kills[DRIVER] += 1
        finally:
            job.kill()
        print(dict(kills), flush=True)
    producer.stop()
    assert kills[DRIVER] == DRIVER_KILLS
    assert all(kills[victim] for victim in victims)
    run_to_the_end(lambda: spark_job.start_copies(spark, url_of(server), tmp_path, once=True))
    expected = list(range(producer.count))
    for key in KEYS:
        copies = [key.replace("in", "out"), *([key.replace("in", "again")] if spark_job.BATCH_BY_BATCH else [])]
        for name in (key, *copies):
            found = [int(entry[b"n"]) for _, entry in server.xrange(name)]
            assert found == expected, f"{name}: {len(found)} of {len(expected)}"
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
