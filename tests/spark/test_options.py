"""Options: every bad one is refused with one sentence that names it and its value."""

import pytest
from pyspark.sql import types as t

from headrace.core.stream_id import MIN_ID, StreamID
from headrace.spark.errors import BadOption
from headrace.spark.options import read_options, write_options
from headrace.spark.projection import default_schema
from headrace.spark.source import HeadraceDataSource
from headrace.spark.writers import StreamsStreamWriter


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"keyz": "s"}, "option 'keyz' is 's': there is no such option; did you mean keys?"),
        ({"subscribe": "s"}, "option 'subscribe' is 's': is called otherwise here: did you mean keys?"),
        ({"kafka.bootstrap.servers": "h:1"}, "option 'kafka.bootstrap.servers' is 'h:1': is called otherwise"),
        ({"maxlen": "5"}, "option 'maxlen' is '5': is an option for writing"),
        ({"startingId": "now"}, "option 'startingId' is 'now': expected an ID such as 1526919030474-55"),
        (
            {"endingTimestamp": "soon"},
            "option 'endingTimestamp' is 'soon': expected a time such as 2026-01-31T",
        ),
        ({"startingId": "{"}, "option 'startingId' is '{': begins as JSON and is none"),
        ({"startingId": "1", "startingTimestamp": "1"}, "option 'startingTimestamp' is '1': either startingId or"),
        ({"minPartitions": "0"}, "option 'minPartitions' is '0': expected a whole number from 1 on"),
        ({"maxBytesPerTrigger": "1k"}, "option 'maxBytesPerTrigger' is '1k': expected a whole number from 1 on"),
        ({"mode": "strict"}, "option 'mode' is 'strict': expected permissive or dropmalformed or failfast"),
        ({"retryTimeout": "nan"}, "option 'retryTimeout' is 'nan': expected a number of seconds"),
        ({"url": "http://x"}, "option 'url' is 'http://x': expected redis://host:port, rediss://host:port, unix:///"),
        (
            {"minEntriesPerTrigger": "5", "maxTriggerDelay": "soon"},
            "option 'maxTriggerDelay' is 'soon': expected a dur",
        ),
        ({"maxTriggerDelay": "5s"}, "option 'maxTriggerDelay' is '5s': goes together with minEntriesPerTrigger"),
        ({"deadLetterKey": "d", "mode": "failfast"}, "option 'deadLetterKey' is 'd': the mode failfast ends the query"),
        ({"payloadFormat": "json"}, "option 'payloadFormat' is 'json': goes together with payloadField"),
        ({"payloadField": "d", "payloadFormat": "xml"}, "option 'payloadFormat' is 'xml': expected json or msgpack"),
        ({"deadLetterKey": "d", "path": "/x"}, "option 'deadLetterKey' is 'd': goes with a url"),
        ({"readFrom": "replica"}, "option 'readFrom' is 'replica': goes with a url that says who has replicas"),
        ({"readFrom": "slave"}, "option 'readFrom' is 'slave': expected master or replica"),
        ({"columns": "id,temp"}, "option 'columns' is 'id,temp': there is no column 'temp': expected some of key, id,"),
        ({"path": "/x", "url": "redis://x"}, "option 'path' is '/x': either a path or a url, not both"),
        ({"db": "3"}, "option 'db' is '3': goes with path; a url has its database at its end, as redis://host/3"),
        ({"keys": " "}, "option 'keys' is ' ': is empty; give it a value or leave it out"),
    ],
)
def test_a_bad_option_is_one_sentence(options: dict[str, str], expected: str) -> None:
    with pytest.raises(BadOption) as refused:
        default_schema(read_options({"keys": "s"} | options, streaming=False))
    assert str(refused.value).startswith(expected)
    assert "\n" not in str(refused.value)


def test_without_keys_there_is_nothing_to_read() -> None:
    with pytest.raises(BadOption, match="option 'keys' is missing: name the streams to read"):
        read_options({}, streaming=False)


def test_a_table_of_the_catalog_which_has_lost_its_options_is_known() -> None:
    for read, given in ((read_options, {}), (read_options, {"provider": "headrace", "keys": "s"}), (write_options, {})):
        with pytest.raises(BadOption, match="CREATE TABLE loses the options of sources that are written in Python"):
            read(given, streaming=False)


def test_what_only_a_batch_has() -> None:
    for name, value in {"endingId": "5", "endingTimestamp": "5", "path": "/x"}.items():
        with pytest.raises(BadOption, match=f"option '{name}' is '{value}'"):
            read_options({"keys": "s", name: value}, streaming=True)


def test_names_in_any_case_and_keys_with_commas() -> None:
    options = read_options({"KEYS": r"a, b\,c ,d\*", "startingid": '{"a": "5-1"}'}, streaming=True)
    assert options.keys == (b"a", b"b,c", rb"d\*")
    assert options.starting.of(b"a") == StreamID(5, 1)
    with pytest.raises(BadOption, match="option 'startingId' has no value for stream 'd'"):
        options.starting.of(b"d")
    assert read_options({"keys": "a"}, streaming=False).starting.of(b"a") == MIN_ID


def test_the_output_mode_complete_is_refused_with_a_reason() -> None:
    sink = HeadraceDataSource({"key": "s"})
    with pytest.raises(BadOption, match=r"^option 'outputMode' is 'complete': every batch would replace the stream"):
        sink.streamWriter(t.StructType().add("n", t.LongType()), overwrite=True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"key": None}, "option 'key' a stream is named by the option key or by keyColumn, and neither is given"),
        ({"keyColumn": "id"}, "option 'key' is 's': a stream is named by the option key or by keyColumn, and both"),
        ({"key": None, "keyColumn": "id"}, "option 'keyColumn' is 'id': the column is bigint, expected string"),
        ({"idColumn": "x"}, "option 'idColumn' is 'x': there is no such column; there are id, text"),
        ({"fieldsColumn": "id"}, "option 'fieldsColumn' is 'id': the column is bigint, expected a map"),
        ({"partitions": "3"}, "option 'partitions' is '3': goes together with partitionBy"),
        ({"txnVersion": "5"}, "option 'txnAppId' goes together with txnVersion"),
        ({"txnAppId": "a", "txnVersion": "1"}, "option 'txnAppId' is 'a': a streaming query is known by its"),
        ({"maxlen": "5", "minid": "1"}, "option 'minid' is '1': trim by maxlen or by minid, not by both"),
        ({"startingId": "1"}, "option 'startingId' is '1': is an option for reading"),
        ({"url": "redis://a,redis://b"}, "option 'url' is 'redis://a,redis://b': name one server to write to"),
    ],
)
def test_a_bad_option_for_writing_is_one_sentence(options: dict[str, str | None], expected: str) -> None:
    given = {name: value for name, value in ({"key": "s"} | options).items() if value is not None}
    schema = t.StructType().add("id", t.LongType()).add("text", t.StringType())
    with pytest.raises(BadOption) as refused:
        StreamsStreamWriter(schema, write_options(given, streaming=True))
    assert str(refused.value).startswith(expected)
