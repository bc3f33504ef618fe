"""Entries that cannot be parsed go to a stream beside, once, with the reason; the rows have all others."""

from typing import Any

import redis
from pyspark.sql import types as t

from headrace.engine.rules.dead_letters import split_letter
from support.spark.frames import rows_of, url_of

SPEC = t.StructType().add("a", t.IntegerType()).add("b", t.StringType())
SCHEMA = (
    t.StructType()
    .add("_id", t.StringType())
    .add("temp", t.IntegerType())
    .add("spec", SPEC)
    .add("at", t.TimestampType())
)


def read(server: redis.Redis, **options: str) -> list[dict[str, Any]]:
    given = {"url": url_of(server), "keys": "s", "deadLetterKey": "s:dead"} | options
    return rows_of(SCHEMA, given)


def test_what_cannot_be_parsed_goes_beside_with_the_reason(server: redis.Redis) -> None:
    for number in range(1, 301):
        server.xadd("s", {"temp": number, "at": number * 1000, "spec": '{"a": 1}'}, id=f"{number}-0")
    server.xadd("s", {"temp": "warm", b"\xff": b"\xfe", "at": "5"}, id="400-1")
    server.xadd("s", {"temp": "7", "spec": '{"a": "x"}', "at": "soon"}, id="400-2")
    server.xadd("s", {"temp": "8"}, id="400-3")
    found = read(server, minPartitions="3")
    assert [row["_id"] for row in found] == [*(f"{number}-0" for number in range(1, 301)), "400-3"]
    letters = {}
    for _, fields in server.xrange("s:dead"):
        split = split_letter([word for pair in fields.items() for word in pair])
        assert split is not None, "what the commands for dead letters know"
        letters[split[1].id] = split
    own, origin = letters[b"400-1"]
    assert own == [b"temp", b"warm", b"\xff", b"\xfe", b"at", b"5"]
    assert (origin.stream, origin.group) == (b"s", b"spark")
    assert origin.reason == b"field 'temp' is b'warm', which is no int"
    assert letters[b"400-2"][1].reason == (
        b"field 'spec' is b'{\"a\": \"x\"}', which is no struct<a:int,b:string>; "
        b"field 'at' is b'soon', which is no timestamp"
    )
    assert len(letters) == server.xlen("s:dead") == 2


def test_a_task_that_runs_again_sends_no_letter_twice(headrace_server: redis.Redis) -> None:
    for number in range(2500):
        headrace_server.xadd("s", {"temp": number if number % 2 else "x"}, id=f"{number + 1}-0")
    for _ in range(2):
        assert len(read(headrace_server)) == 1250
    assert headrace_server.xlen("s:dead") == 1250
    # Mended, they go back.
    assert headrace_server.execute_command("HEADRACE", "REDRIVE", "s:dead", "COUNT", "10") == 10
    assert headrace_server.xlen("s") == 2510
