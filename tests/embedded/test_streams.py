"""Streams as Python objects: adding, reading, slicing, trimming."""

import pickle
from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from types import MappingProxyType
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

import headrace
from headrace.api.database import Database
from headrace.api.errors import MissingLibrary, Refused
from headrace.api.message import Message
from headrace.core.stream_id import StreamID


@pytest.fixture
def db() -> Iterator[Database]:
    with headrace.open(None) as db:
        yield db


class Level(IntEnum):
    HIGH = 7


# --- adding ----------------------------------------------------------------------------------------------------------


def test_values_are_stored_as_their_text(db: Database) -> None:
    stream = db.stream("s")
    stream.add(text="für", raw=b"\xff\x00", whole=-5, large=2**70, real=1.5, level=Level.HIGH, small=-(2**63))
    message = stream.last
    assert message is not None
    assert list(message.fields.values()) == [
        *("für", "\udcff\x00", "-5", str(2**70), "1.5", "7", str(-(2**63))),
    ]
    raw = db.stream("s", decode=False).last
    assert raw is not None
    assert raw[b"raw"] == raw["raw"] == b"\xff\x00"
    assert raw.fields[b"text"] == "für".encode()


@given(st.dictionaries(st.text() | st.binary(), st.text() | st.binary() | st.integers() | st.floats(), min_size=1))
def test_the_short_way_and_the_command_store_the_same(fields: dict[Any, Any]) -> None:
    with headrace.open(None) as db:
        straight, commanded = db.stream("straight", decode=False), db.stream("commanded", decode=False)
        straight.add(fields)
        straight.add_many([fields] * 2)
        for _ in range(3):
            commanded.add(fields, id="*")
        assert [message.pairs for message in straight] == [message.pairs for message in commanded]


def test_what_is_read_as_text_can_be_added_again_and_is_the_same(db: Database) -> None:
    stream = db.stream("s")
    stream.add({b"\xfe": b"\xff\xed\xa0\x80"})
    stream.add(next(iter(stream)).fields)
    first, second = db.stream("s", decode=False)
    assert first.fields == second.fields


def test_fields_may_have_any_names_and_come_in_any_mapping(db: Database) -> None:
    stream = db.stream("s")
    stream.add({"id": 1, "maxlen": 2, "self": 3}, more=4)
    stream.add(MappingProxyType({"a": 1}))
    stream.add_many([OrderedDict(b=1), MappingProxyType({"c": 1})])
    assert [list(message) for message in stream] == [["id", "maxlen", "self", "more"], ["a"], ["b"], ["c"]]


@pytest.mark.parametrize("value", [None, True, [1], {"a": 1}, 1j])
def test_what_has_no_text_of_its_own_is_refused_with_its_name_and_changes_nothing(db: Database, value: Any) -> None:
    stream = db.stream("s")
    with pytest.raises(TypeError, match=r"'odd'.*json.dumps"):
        stream.add(odd=value)
    with pytest.raises(TypeError):
        stream.add({"odd": value}, id="*")
    with pytest.raises(TypeError):
        stream.add_many([{"good": 1}, {"odd": value}])
    with pytest.raises(TypeError, match="name is str or bytes"):
        stream.add({1: 1})
    with pytest.raises(ValueError, match="at least one field"):
        stream.add()
    assert len(stream) == 0
    assert db.streams() == []


def test_ids_rise_and_can_be_chosen(db: Database) -> None:
    stream = db.stream("s")
    assert stream.add(n=1, id="5-1") == StreamID(5, 1)
    assert stream.add(n=2, id=StreamID(6)) == StreamID(6, 0)
    assert stream.add(n=3, id="6-*") == StreamID(6, 1)
    assert stream.add(n=4, id=datetime(2020, 1, 1, tzinfo=UTC)).ms == 1577836800000
    ids = [stream.add(n=n) for n in range(100)]
    assert ids == sorted(set(ids))
    with pytest.raises(Refused, match="equal or smaller") as refused:
        stream.add(n=5, id="5-1")
    assert refused.value.code == "ERR"


def test_adding_may_trim(db: Database) -> None:
    stream = db.stream("s")
    for n in range(10):
        stream.add(n=n, maxlen=3)
    assert [message["n"] for message in stream] == ["7", "8", "9"]
    stream.add(n=10, minid=stream.last_id)
    assert [message["n"] for message in stream] == ["9", "10"]
    with pytest.raises(ValueError, match="not to both"):
        stream.add(n=11, maxlen=1, minid="1-1")


def test_many_rows_are_added_from_whatever_gives_them(db: Database) -> None:
    stream = db.stream("s")
    assert stream.add_many({"n": n} for n in range(2500)) == 2500
    assert stream.add_many([]) == 0
    assert [int(message["n"]) for message in stream] == list(range(2500))

    def rows() -> Iterator[dict[str, int]]:
        for n in range(3):
            stream.add(inner=n)  # who makes rows may use the database
            yield {"n": n}

    assert stream.add_many(rows()) == 3
    assert len(stream) == 2506


def test_another_type_is_refused_as_redis_refuses_it(db: Database) -> None:
    db.execute("SET", "k", "v")
    with pytest.raises(Refused) as refused:
        db.stream("k").add(a=1)
    assert refused.value.code == "WRONGTYPE"
    with pytest.raises(Refused, match="WRONGTYPE"):
        len(db.stream("k"))


def test_a_full_memory_refuses_what_is_added_and_not_what_is_read() -> None:
    with headrace.open(None, maxmemory="1mb") as db:
        stream = db.stream("s")
        adding = (stream.add(n=1) for _ in range(100_000_000))
        with pytest.raises(Refused, match="OOM"):
            any(id.ms == 0 for id in adding)  # until one is refused
        with pytest.raises(Refused, match="OOM"):
            stream.add_many([{"n": 1}])
        assert len(stream) >= 0


def test_the_short_way_counts_as_xadd(db: Database) -> None:
    before = db.redis().info("commandstats").get("cmdstat_xadd", {"calls": 0})["calls"]
    stream = db.stream("s")
    stream.add(n=1)
    stream.add_many([{"n": 1}] * 9)
    assert db.redis().info("commandstats")["cmdstat_xadd"]["calls"] == before + 10


@pytest.mark.parametrize("way", ["add", "add_many", "the command"])
def test_every_way_of_adding_is_seen_by_who_watches_and_who_listens(db: Database, way: str) -> None:
    stream = db.stream("s")
    with db.redis(decode_responses=True) as client, client.pipeline() as pipe, client.pubsub() as listener:
        client.config_set("notify-keyspace-events", "KEA")
        listener.psubscribe("__key*__:*")
        listener.get_message(timeout=1)
        pipe.watch("s")
        if way == "add":
            stream.add(n=1)
        elif way == "add_many":
            stream.add_many([{"n": 1}])
        else:
            stream.add(n=1, id="*")
        events = [listener.get_message(timeout=0.01) for _ in range(5)]
        assert [(each["channel"], each["data"]) for each in events if each] == [
            ("__keyspace@0__:s", "xadd"),
            ("__keyevent@0__:xadd", "s"),
        ]
        pipe.multi()
        pipe.set("k", "v")
        with pytest.raises(redis.WatchError):
            pipe.execute()


# --- reading ---------------------------------------------------------------------------------------------------------


def numbers(messages: Any) -> list[int]:
    return [int(message["n"]) for message in messages]


@pytest.fixture
def ten(db: Database) -> headrace.api.stream.Stream:
    stream = db.stream("ten")
    for n in range(10):
        stream.add(n=n, id=f"{1000 + n // 2}-{n % 2}")
    return stream


def test_iteration_gives_everything_both_ways(db: Database) -> None:
    stream = db.stream("s")
    stream.add_many({"n": n} for n in range(3000))
    assert numbers(stream) == list(range(3000))
    assert numbers(reversed(stream)) == list(range(2999, -1, -1))
    assert numbers(stream.range(count=1500)) == list(range(1500))
    assert len(stream) == 3000
    assert list(db.stream("nothing")) == []


def test_a_slice_leaves_out_its_end_and_a_range_does_not(ten: headrace.api.stream.Stream) -> None:
    assert numbers(ten["1001":"1003"]) == [2, 3, 4, 5]
    assert numbers(ten.range("1001", "1003")) == [2, 3, 4, 5, 6, 7]
    assert numbers(ten["1001-1" : StreamID(1002, 1)]) == [3, 4]
    assert numbers(ten[:"1000-1"]) == [0]
    assert numbers(ten["1004":]) == [8, 9]
    assert numbers(ten[:]) == list(range(10))
    assert ten["5":"0"] == []
    assert ten[:"-"] == []
    with pytest.raises(ValueError, match="no step"):
        ten[::2]


def test_moments_are_places(db: Database) -> None:
    stream = db.stream("s")
    start = datetime(2024, 5, 1, tzinfo=UTC)
    for n in range(5):
        stream.add(n=n, id=start + timedelta(hours=n))
    assert numbers(stream[start + timedelta(hours=1) : start + timedelta(hours=3)]) == [1, 2]
    assert numbers(stream.range(start, start + timedelta(hours=1))) == [0, 1]
    assert stream.first is not None
    assert stream.first.time == start
    assert stream[start]["n"] == "0"
    assert numbers(stream.range(start.astimezone().replace(tzinfo=None), count=1)) == [0]
    assert numbers(stream.tail(start + timedelta(hours=3), timeout=0)) == [3, 4]


def test_one_message_is_found_by_its_id(ten: headrace.api.stream.Stream) -> None:
    assert ten["1001-1"]["n"] == "3"
    assert StreamID(1001, 1) in ten
    assert "1001-7" not in ten
    with pytest.raises(KeyError):
        ten["1001-7"]
    with pytest.raises(TypeError, match="no place in a stream"):
        ten[3]  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="not a stream ID"):
        ten["tomorrow"]
    assert ten.last_id == StreamID(1004, 1)
    assert headrace.open(None).stream("nothing").last_id == StreamID(0, 0)


def test_what_is_deleted_meanwhile_is_not_seen_and_what_is_added_is(db: Database) -> None:
    stream = db.stream("s")
    stream.add_many({"n": n} for n in range(2000))
    reading = iter(stream)
    assert next(reading)["n"] == "0"
    stream.trim(maxlen=500)
    stream.add(n=2000)
    assert numbers(reading) == [*range(1, 1000), *range(1500, 2001)]


def test_trimming_and_deleting(ten: headrace.api.stream.Stream) -> None:
    assert ten.trim(minid="1001") == 2
    assert ten.trim(maxlen=6) == 2
    assert ten.delete(ten["1002-0"], "1002-1", StreamID(7)) == 2
    assert numbers(ten) == [6, 7, 8, 9]
    assert ten.trim(maxlen=1, approximate=True) == 0
    assert ten.delete() == 0
    with pytest.raises(ValueError, match="maxlen or minid"):
        ten.trim()
    assert ten.drop()
    assert not ten.drop()


def test_streams_are_listed_and_other_keys_are_not(db: Database) -> None:
    for name in ("b", "a", "über"):
        db.stream(name).add(n=1)
    db.execute("SET", "string", 1)
    assert db.streams() == ["a", "b", "über"]
    assert db.streams("[ab]") == ["a", "b"]


# --- messages --------------------------------------------------------------------------------------------------------


def test_a_message_is_a_small_mapping() -> None:
    message = Message(StreamID(5, 1), [b"a", b"1", b"b", b"2", b"a", b"3"])
    assert message["a"] == message[b"a"] == "3"
    assert message.pairs == [("a", "1"), ("b", "2"), ("a", "3")]
    assert message.fields == {"a": "3", "b": "2"}
    assert (message.get("c"), message.get("c", 7), "b" in message, "c" in message, 5 in message) == (
        *(None, 7, True, False, False),
    )
    assert len(message) == 2
    assert repr(message) == "Message('5-1', {'a': '3', 'b': '2'})"
    assert pickle.loads(pickle.dumps(message)) == message  # noqa: S301
    assert hash(message) == hash(Message(StreamID(5, 1), [b"a", b"1"]))
    assert message != Message(StreamID(5, 1), [b"a", b"1"])
    with pytest.raises(KeyError):
        message["c"]


# --- columns ---------------------------------------------------------------------------------------------------------


def test_columns_need_a_library_and_say_so(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingLibrary, match=r"needs pyarrow.*pip install pyarrow"):
        db.stream("s").to_arrow()
    with pytest.raises(ImportError, match="needs pandas"):
        db.stream("s").to_pandas()


def test_arrow_gets_a_column_a_field(db: Database) -> None:
    pytest.importorskip("pyarrow")
    stream = db.stream("s")
    stream.add(dev=3, temp=26, id="1000-0")
    stream.add(dev=4, note="new", id="2000-0")
    table = stream.to_arrow(types={"dev": "int64"})
    assert table.to_pydict() | {"time": None} == {
        "id": ["1000-0", "2000-0"],
        "time": None,
        "dev": [3, 4],
        "temp": ["26", None],
        "note": [None, "new"],
    }
    assert table.column("time").to_pylist()[1] == datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert stream.to_arrow("3000").num_rows == 0


def test_pandas_gets_a_frame(db: Database) -> None:
    pytest.importorskip("pandas")
    stream = db.stream("s")
    stream.add_many({"dev": n % 2, "temp": n} for n in range(10))
    frame = stream.to_pandas(types={"temp": "int64"})
    assert frame.groupby("dev")["temp"].sum().to_dict() == {"0": 20, "1": 25}
    assert list(frame.index) == [str(message.id) for message in stream]


def test_who_monitors_sees_the_words_of_what_is_added(db: Database) -> None:
    """Regression: MONITOR showed an XADD of two empty texts."""
    with db.redis(decode_responses=True) as client, client.monitor() as monitor:
        db.stream("jobs").add({"to": "ann"})
        db.stream("jobs").add_many([{"to": "bob"}, {"to": "eve"}])
        assert [monitor.next_command()["command"] for _ in range(3)] == [
            "XADD jobs * to ann",
            "XADD jobs * to bob",
            "XADD jobs * to eve",
        ]
