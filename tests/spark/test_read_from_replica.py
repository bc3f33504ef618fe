"""What a task does with a replica that is behind, and with a master that has too few replicas for a moment."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from headrace.core.stream_id import StreamID
from headrace.spark.losses import LossWatch
from headrace.spark.options import read_options
from headrace.spark.packed_transport import PackedTransport
from headrace.spark.projection import default_schema, projection_for
from headrace.spark.servers import Server
from headrace.spark.streams import Slice
from headrace.spark.transport import XRangeTransport
from support.server_process import ServerProcess
from support.spark.frames import url_of


@pytest.fixture
def other(tmp_path: Path) -> Iterator[redis.Redis]:
    """A client of a second server."""
    with ServerProcess(tmp_path, "--appendonly", "no") as server, server.client() as client:
        yield client


def fill(server: redis.Redis, entries: int) -> None:
    for number in range(1, entries + 1):
        server.xadd("s", {"n": number}, f"{number}-0")


@pytest.mark.parametrize("kind", [XRangeTransport, PackedTransport])
@pytest.mark.parametrize(("held", "asks_master"), [(0, True), (5, True), (10, False), (12, False)])
def test_what_a_replica_does_not_have_yet_is_read_from_the_master(
    headrace_server: redis.Redis, other: redis.Redis, kind: type[XRangeTransport], held: int, asks_master: bool
) -> None:
    fill(headrace_server, 10)
    fill(other, held)
    transport = kind(Server(url_of(headrace_server), 1), Server(url_of(other), 1))
    [planned] = transport.describe([b"s"])
    part = Slice(0, b"s", StreamID(1, 0), StreamID(10, 0), 10, planned=planned, before=0)
    options = read_options({"keys": "s"}, streaming=False)
    command = "cmdstat_headrace|nodes" if kind is PackedTransport else "cmdstat_xrange"
    headrace_server.config_resetstat()
    batches = list(transport.read(part, projection_for(default_schema(options), options), LossWatch(part, fail=True)))
    assert sum(batch.num_rows for batch in batches) == 10
    assert (command in headrace_server.info("commandstats")) is asks_master


def test_a_master_that_has_too_few_replicas_for_a_moment_is_waited_for(other: redis.Redis) -> None:
    other.xadd("s", {"n": 1})
    other.config_set("min-replicas-to-write", 1)
    later = threading.Timer(0.3, lambda: other.config_set("min-replicas-to-write", 0))
    later.start()
    assert Server(url_of(other), 60).ask("XGROUP", "CREATE", b"s", b"g", "0", key=b"s")
    later.join()
