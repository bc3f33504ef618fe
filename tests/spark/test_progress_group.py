"""A query publishes its progress as a group, and does not die of it while the server restarts."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from headrace.core.stream_id import StreamID
from headrace.spark.errors import DataLost
from headrace.spark.offsets import Mark
from headrace.spark.progress_group import ProgressGroup
from headrace.spark.servers import Server
from support.spark.frames import url_of
from support.spark.reading import Query, add


def test_publishing_waits_for_a_server_that_restarts(restartable: Callable[[], redis.Redis]) -> None:
    client = restartable()
    client.xadd("s", {"n": 1}, id="1-1")
    client.xadd("s", {"n": 2}, id="2-1")
    server = Server(url_of(client), 60)
    group = ProgressGroup(b"lake")
    group.create(server, b"s", Mark(StreamID(0, 0)))
    client.shutdown(nosave=False)

    def restart() -> None:
        time.sleep(0.3)  # in which the first attempts fail
        restartable()

    restarting = threading.Thread(target=restart)
    restarting.start()
    try:
        group.publish(server, b"s", Mark(StreamID(1, 1), 1))
    finally:
        restarting.join()
    assert group.position(server, b"s") == Mark(StreamID(1, 1), 1)
    server.close()


def test_a_query_leaves_how_far_it_is_and_why_it_failed_beside_its_stream(redis_server: redis.Redis) -> None:
    def note() -> dict[str, Any]:
        told: dict[str, Any] = json.loads(redis_server.hget("headrace:{s}:queries", "spark") or b"{}")
        return told

    redis_server.flushall()
    add(redis_server, *(f"{n}-0" for n in range(1, 11)))
    query = Query(redis_server, group="spark", maxEntriesPerTrigger="4")
    query.batch()
    assert note() == {}, "a batch is committed when the next one begins"
    query.batch()
    assert (note()["batches"], note()["rows"], note()["batch_rows"], note()["error"]) == (1, 4, 4, "")
    query.batch()
    assert (note()["batches"], note()["rows"], note()["batch_rows"]) == (2, 8, 4)
    assert note()["started"] <= note()["before"] <= note()["at"]
    query.batch()
    said = note()
    query.batch()
    assert note() == said, "a batch without entries changes nothing"
    add(redis_server, "11-0", "12-0")
    redis_server.xtrim("s", maxlen=1, approximate=False)
    with pytest.raises(DataLost):
        query.batch()
    assert note()["error"].startswith("DataLost: ")
    assert note()["batches"] == 3
    redis_server.hset("headrace:{s}:queries", "spark", "x")
    redis_server.rename("headrace:{s}:queries", "elsewhere")
    redis_server.set("headrace:{s}:queries", "somebody else's")
    query = Query(redis_server, group="spark", failOnDataLoss="false")
    query.batch()
    add(redis_server, "13-0")
    query.batch()
    assert query.batch() == [], "a note that cannot be written stops no query"
    redis_server.flushall()
