"""A query publishes its progress as a group, and does not die of it while the server restarts."""

import threading
import time
from collections.abc import Callable

import redis

from headrace.core.stream_id import StreamID
from headrace.spark.offsets import Mark
from headrace.spark.progress_group import ProgressGroup
from headrace.spark.servers import Server
from support.spark.frames import url_of


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
