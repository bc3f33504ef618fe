"""A key that the options name and that does not exist is reported, or refused: it is most often misspelt."""

import pytest
import redis
from pyspark.sql import types as t

from headrace.spark.batch_reader import StreamBatchReader
from headrace.spark.errors import MissingStream
from headrace.spark.options import read_options
from support.spark.frames import url_of
from support.spark.reading import Query, add


def plan(server: redis.Redis, **options: str) -> None:
    """Plan a batch read."""
    given = read_options({"url": url_of(server)} | options, streaming=False)
    StreamBatchReader(t.StructType().add("_id", t.StringType()), given).partitions()


def test_a_named_stream_that_is_not_there_is_a_warning(
    redis_server: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    add(redis_server, "1-0")
    query = Query(redis_server, keys="s,ordres,nothing:*")
    assert query.batch() == [("s", "1-0")]
    assert caplog.messages == [
        f"option 'keys': there is no stream 'ordres' on {url_of(redis_server)}; it is read when it comes"
    ]
    caplog.clear()
    query.begin()
    query.reader.prepareForTriggerAvailableNow()
    assert query.batch() == []
    assert [message.partition(" on ")[0] for message in caplog.messages] == [
        "option 'keys': there is no stream 'ordres'"
    ]
    caplog.clear()
    plan(redis_server, keys="s,ordres,other")
    assert [message.partition(" on ")[0] for message in caplog.messages] == [
        "option 'keys': there is no stream 'ordres', 'other'"
    ]


def test_with_failonmissing_it_is_an_error(redis_server: redis.Redis) -> None:
    add(redis_server, "1-0")
    with pytest.raises(MissingStream, match=r"^option 'keys': there is no stream 'ordres' on .*, and option 'failOnM"):
        Query(redis_server, keys="ordres", failOnMissing="true").batch()
    with pytest.raises(MissingStream, match="there is no stream 'ordres'"):
        plan(redis_server, keys="s,ordres", failOnMissing="true")
    assert Query(redis_server, keys="s,nothing:*", failOnMissing="true").batch() == [("s", "1-0")]
