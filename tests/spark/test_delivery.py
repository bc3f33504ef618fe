"""Deliveries, called as tasks and the driver call them: attempts that run twice, commits that are repeated."""

import pyarrow as pa
import pytest
import redis

from headrace.spark.connecting import Connections
from headrace.spark.delivery import BatchOf, Delivery, Trimming, Written
from headrace.spark.options import ServerOptions, TransportName
from headrace.spark.rows import EntryRows
from support.spark.frames import url_of


def delivery(server: redis.Redis, transport: TransportName) -> Delivery:
    return Connections(ServerOptions((url_of(server),), transport, 0)).delivery(Trimming(None, None))


def write(to: Delivery, batch: int, partition: int, numbers: range, ids: list[str] | None = None) -> Written:
    part = to.part(BatchOf("query", batch, repeatable=True), partition)
    for start in range(0, len(numbers), 700):
        some = numbers[start : start + 700]
        columns = pa.RecordBatch.from_arrays([pa.array(some, pa.int64())], names=["n"])
        part.append(EntryRows(b"s", columns, None if ids is None else pa.array(ids[start : start + 700]), lists=False))
    return part.finish()


def found(server: redis.Redis) -> list[int]:
    return [int(entry[b"n"]) for _, entry in server.xrange("s")]


def test_a_staged_batch_counts_once_whatever_is_repeated(headrace_server: redis.Redis) -> None:
    to = delivery(headrace_server, "packed")
    write(to, 0, 0, range(50))  # an attempt that Spark does not take
    messages = [write(to, 0, 0, range(2000)), write(to, 0, 1, range(2000, 3000))]
    assert found(headrace_server) == []
    to.commit(messages, BatchOf("query", 0, repeatable=True))
    assert found(headrace_server) == list(range(3000))
    again = [write(to, 0, 0, range(2000)), write(to, 0, 1, range(2000, 3000))]
    to.commit(again, BatchOf("query", 0, repeatable=True))
    assert found(headrace_server) == list(range(3000))
    to.commit([write(to, 1, 0, range(3000, 3100))], BatchOf("query", 1, repeatable=True))
    assert found(headrace_server) == list(range(3100))


def test_an_aborted_batch_is_forgotten_and_can_be_written_anew(headrace_server: redis.Redis) -> None:
    to, of = delivery(headrace_server, "packed"), BatchOf("query", 0, repeatable=True)
    to.abort([write(to, 0, 0, range(100))], of)
    to.commit([write(to, 0, 0, range(100, 200))], of)
    assert found(headrace_server) == list(range(100, 200))


def test_a_server_that_remembers_producers_takes_a_repeated_task_once(headrace_server: redis.Redis) -> None:
    to = delivery(headrace_server, "xrange")
    write(to, 0, 0, range(11000))
    write(to, 0, 0, range(11000))
    assert found(headrace_server) == list(range(11000))
    write(to, 1, 0, range(11000, 11500))
    assert found(headrace_server) == list(range(11500))


def test_without_that_a_repeated_task_writes_again(redis_server: redis.Redis) -> None:
    to = delivery(redis_server, "auto")
    write(to, 0, 0, range(10))
    write(to, 0, 0, range(10))
    assert found(redis_server) == [*range(10), *range(10)]


def test_rows_with_ids_are_taken_once_by_any_server(server: redis.Redis) -> None:
    to = delivery(server, "xrange")
    ids = [f"{number + 1}-0" for number in range(1500)]
    write(to, 0, 0, range(800), ids[:800])
    write(to, 0, 0, range(1500), ids)
    assert found(server) == list(range(1500))
    with pytest.raises(Exception, match="sort them by their IDs"):
        write(to, 1, 0, range(1), ["5-5"])
