"""The streaming reader, called as Spark calls it: offsets as JSON, late commits, new readers after a crash."""

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as t
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.spark.errors import BadOption, DataLost
from headrace.spark.options import read_options
from headrace.spark.stream_reader import StreamStreamReader
from support.spark.frames import url_of
from support.spark.reading import Query, add


def test_each_batch_has_what_came_since_the_last(server: redis.Redis) -> None:
    query = Query(server)
    assert query.batch() == []
    first = add(server, "1-1", "1-2", "2-0")
    assert query.batch() == first
    assert query.batch() == []
    assert query.batch() == []
    query.begin()
    second = add(server, "2-1", "9-0")
    assert query.batch() == second


def test_the_offset_of_an_idle_query_stays_the_same_text(server: redis.Redis) -> None:
    add(server, "1-1")
    add(server, "1-1", key="t")
    query = Query(server, keys="*")
    query.batch()
    for _ in range(3):
        query.batch()
    assert len({json.dumps(offset) for offset in query.checkpoint}) == 1


def test_a_limit_of_entries_is_kept_to_and_everything_comes_in_order(server: redis.Redis) -> None:
    expected = add(server, *(f"{n}-0" for n in range(1, 251)))
    query = Query(server, maxEntriesPerTrigger="40")
    batches = [query.batch() for _ in range(12)]
    assert max(map(len, batches)) == 40
    assert [row for batch in batches for row in batch] == expected
    assert query.checkpoint[-1]["0"]["s"]["added"] == 250


def test_a_limit_of_bytes_is_kept_to(redis_server: redis.Redis) -> None:
    for number in range(1, 21):
        redis_server.xadd("s", {"v": "x" * 99}, id=f"{number}-0")
    query = Query(redis_server, maxBytesPerTrigger="550")
    assert [len(query.batch()) for _ in range(5)] == [5, 5, 5, 5, 0]
    query = Query(redis_server, maxBytesPerTrigger="550", maxEntriesPerTrigger="3")
    assert len(query.batch()) == 3
    query = Query(redis_server, maxBytesPerTrigger="1")
    assert len(query.batch()) == 1


def test_streams_share_a_limit_in_proportion_and_none_starves(server: redis.Redis) -> None:
    add(server, *(f"{n}-0" for n in range(1, 301)), key="many")
    add(server, "1-0", key="few")
    query = Query(server, keys="many,few", maxEntriesPerTrigger="50")
    batch = query.batch()
    assert ("few", "1-0") in batch
    assert len(batch) <= 51


def test_availablenow_ends_where_it_began(server: redis.Redis) -> None:
    expected = add(server, "1-0", "2-0", "3-0")
    query = Query(server, maxEntriesPerTrigger="2", keys="*")
    query.reader.prepareForTriggerAvailableNow()
    assert query.batch() == expected[:2]
    later = add(server, "4-0")
    add(server, "1-0", key="new")
    assert query.batch() == expected[2:]
    assert query.batch() == []
    assert query.checkpoint[-1] == query.checkpoint[-2]
    query.begin()
    assert sorted(query.batch(ReadAllAvailable())) == sorted([*later, ("new", "1-0")])


def test_new_streams_of_a_pattern_are_read_from_their_beginning(server: redis.Redis) -> None:
    add(server, "1-0")
    query = Query(server, keys="*", startingId="latest")
    assert query.batch() == []
    more, fresh = add(server, "2-0"), add(server, "1-0", "1-1", key="t")
    assert sorted(query.batch()) == sorted(more + fresh)


def test_a_named_stream_that_comes_later(server: redis.Redis) -> None:
    query = Query(server, startingId="latest")
    assert query.batch() == []
    expected = add(server, "1-0", "2-0")
    assert query.batch() == expected


def test_where_a_query_begins(server: redis.Redis) -> None:
    add(server, "1-0", "2-0", "3-0", "4-0")
    assert Query(server, startingId="(2-0").batch() == [("s", "3-0"), ("s", "4-0")]
    assert Query(server, startingTimestamp="1970-01-01T00:00:00.004Z").batch() == [("s", "4-0")]
    assert Query(server, startingId='{"s": "3"}').batch() == [("s", "3-0"), ("s", "4-0")]


def test_a_key_that_the_json_of_startingid_lacks_is_refused_and_not_latest(server: redis.Redis) -> None:
    add(server, "1-0", "2-0")
    later = add(server, "5-0", key="t")
    lacks = r"^option 'startingId' has no value for stream 's': add one, or one for '\*', all others$"
    with pytest.raises(BadOption, match=lacks):
        Query(server, keys="*", startingId='{"t": "earliest"}').batch()
    query = Query(server, keys="*", startingId='{"s": "(1-0", "*": "earliest"}')
    assert sorted(query.batch()) == [("s", "2-0"), *later]
    query = Query(server, keys="*", startingId='{"s": "latest", "t": "latest"}')
    assert query.batch() == []
    assert query.batch() == []
    new = add(server, "1-0", key="new")
    assert query.batch() == new, "a stream that appears later is read from its beginning"


def test_trimming_what_was_read_is_no_loss(server: redis.Redis) -> None:
    add(server, *(f"{n}-0" for n in range(1, 11)))
    query = Query(server)
    query.batch()
    add(server, "11-0", "12-0")
    server.xtrim("s", minid="11-0", approximate=False)
    assert query.batch() == [("s", "11-0"), ("s", "12-0")]
    server.xtrim("s", 0, approximate=False)
    assert query.batch() == []


def test_a_stream_that_was_trimmed_before_the_query_began_lost_nothing(server: redis.Redis) -> None:
    add(server, *(f"{n}-0" for n in range(1, 11)))
    server.xtrim("s", 3, approximate=False)
    assert len(Query(server).batch()) == 3
    assert len(Query(server, maxEntriesPerTrigger="2").batch()) == 2


def test_trimming_what_was_not_read_is_an_error_that_counts(server: redis.Redis) -> None:
    add(server, *(f"{n}-0" for n in range(1, 11)))
    query = Query(server, maxEntriesPerTrigger="4")
    query.batch()
    server.xtrim("s", minid="8-0", approximate=False)
    with pytest.raises(DataLost, match=r"3 entries were trimmed or deleted from stream 's' after 4-0 before the query"):
        query.batch()


def test_without_failondataloss_the_count_is_a_warning(server: redis.Redis, caplog: pytest.LogCaptureFixture) -> None:
    add(server, *(f"{n}-0" for n in range(1, 11)))
    query = Query(server, maxEntriesPerTrigger="4", failOnDataLoss="false")
    query.batch()
    server.xtrim("s", minid="8-0", approximate=False)
    assert query.batch() == [("s", "8-0"), ("s", "9-0"), ("s", "10-0")]
    assert "3 entries were trimmed or deleted" in caplog.text


class Overtaken(Query):
    """A query whose stream something happens to between the plan and the tasks, or between two chunks of one."""

    def interrupted(self, happens: Callable[[], object], after_chunks: int = 0) -> list[str]:
        start = self.checkpoint[-1] if self.checkpoint else self.reader.initialOffset()
        end = self.reader.latestOffset(start, ReadAllAvailable())
        partitions = self.reader.partitions(start, end)
        chunks = (batch for partition in partitions for batch in self.reader.read(partition))
        ids = [id for batch in itertools.islice(chunks, after_chunks) for id in batch.column(1).to_pylist()]
        happens()
        return ids + [id for batch in chunks for id in batch.column(1).to_pylist()]


def fill(server: redis.Redis, count: int = 1000) -> list[str]:
    """Add entries that make several chunks for a transport of either kind."""
    with server.pipeline(transaction=False) as pipeline:
        for number in range(1, count + 1):
            pipeline.xadd("s", {"v": "x" * 4000}, id=f"{number}-0")
        pipeline.execute()
    return [f"{number}-0" for number in range(1, count + 1)]


def test_trimming_between_the_plan_and_the_tasks_is_noticed_and_counted(server: redis.Redis) -> None:
    fill(server, 50)
    query = Overtaken(server)
    with pytest.raises(DataLost, match="20 entries were trimmed or deleted from stream 's' from 0-1 on before"):
        query.interrupted(lambda: server.xtrim("s", minid="21-0", approximate=False))


def test_trimming_that_overtakes_a_task_is_noticed_and_counted(
    server: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    ids = fill(server)
    query = Overtaken(server, failOnDataLoss="false")
    found = query.interrupted(lambda: server.xtrim("s", minid="901-0", approximate=False), after_chunks=1)
    assert found == [*ids[: len(found) - 100], *ids[900:]]
    assert f"{1000 - len(found)} entries were trimmed or deleted from stream 's' from " in caplog.text


def test_trimming_behind_a_task_is_no_loss(server: redis.Redis) -> None:
    ids = fill(server)
    query = Overtaken(server)
    assert query.interrupted(lambda: server.xtrim("s", minid="50-0", approximate=False), after_chunks=1) == ids
    assert Overtaken(server, minPartitions="4").interrupted(lambda: server.xtrim("s", minid="50-0")) == ids[49:]


def test_trimming_up_to_where_a_task_begins_is_no_loss(server: redis.Redis) -> None:
    fill(server, 50)
    query = Overtaken(server, maxEntriesPerTrigger="20")
    reached = len(query.batch())
    found = query.interrupted(lambda: server.xtrim("s", minid=f"{reached + 1}-0", approximate=False))
    assert found == [f"{number}-0" for number in range(reached + 1, 51)]


def test_a_part_of_a_stream_that_was_trimmed_away_is_noticed(server: redis.Redis) -> None:
    fill(server)
    query = Overtaken(server, minPartitions="4")
    with pytest.raises(DataLost, match="entries were trimmed or deleted from stream 's'"):
        query.interrupted(lambda: server.xtrim("s", minid="990-0", approximate=False), after_chunks=1)


def test_a_stream_deleted_between_the_plan_and_the_tasks_is_noticed(server: redis.Redis) -> None:
    fill(server, 50)
    with pytest.raises(DataLost, match="entries were deleted with stream 's'"):
        Overtaken(server).interrupted(lambda: server.delete("s"))


def test_a_stream_made_anew_between_the_plan_and_the_tasks_is_noticed(server: redis.Redis) -> None:
    fill(server, 50)

    def make_anew() -> None:
        server.delete("s")
        server.xadd("s", {"a": 1}, id="100-0")

    with pytest.raises(DataLost, match="entries were deleted with stream 's'"):
        Overtaken(server).interrupted(make_anew)


def test_entries_deleted_one_by_one_under_a_task_are_no_loss(server: redis.Redis) -> None:
    ids = fill(server, 50)
    assert Overtaken(server).interrupted(lambda: server.xdel("s", *ids[:10])) == ids[10:]


def test_single_entries_that_were_deleted_are_no_loss(server: redis.Redis) -> None:
    add(server, *(f"{n}-0" for n in range(1, 11)))
    query = Query(server, maxEntriesPerTrigger="4")
    query.batch()
    server.xdel("s", "5-0", "7-0")
    assert query.batch() == [("s", f"{n}-0") for n in (6, 8, 9, 10)]
    server.xtrim("s", 0, approximate=False)
    assert query.batch() == []


def test_a_stream_deleted_and_made_anew_is_read_from_its_beginning(server: redis.Redis) -> None:
    add(server, "5-0", "6-0")
    query = Query(server)
    query.batch()
    server.delete("s")
    assert query.batch() == []
    assert query.batch() == []
    expected = add(server, "1-0", "2-0")
    assert query.batch() == expected
    query.begin()
    expected = add(server, "3-0")
    assert query.batch() == expected
    offset = query.checkpoint[-1]["0"]["s"]
    assert (offset["id"], offset["added"], offset["life"]) == ("3-0", 3, 1)


def test_a_stream_deleted_while_it_had_unread_entries_is_a_loss(server: redis.Redis) -> None:
    add(server, "1-0", "2-0", "3-0")
    query = Query(server, maxEntriesPerTrigger="1")
    query.batch()
    server.delete("s")
    with pytest.raises(DataLost, match="2 entries were deleted with stream 's' after 1-0"):
        query.batch()


def test_a_batch_that_is_repeated_after_a_crash_has_the_same_rows(server: redis.Redis) -> None:
    add(server, "1-0", "2-0", "3-0")
    query = Query(server)
    query.batch()
    add(server, "4-0", "5-0")
    start = query.checkpoint[-1]
    end = query.reader.latestOffset(start, ReadAllAvailable())
    add(server, "6-0")
    query.begin()
    assert list(query.rows(start, end)) == [("s", "4-0"), ("s", "5-0")]
    assert list(query.rows(start, start)) == []
    assert list(query.rows(end, start)) == []


def test_latest_is_pinned_by_the_group(server: redis.Redis) -> None:
    add(server, "1-0")
    query = Query(server, startingId="latest", group="spark")
    initial = query.reader.initialOffset()
    assert initial == query.reader.initialOffset()
    expected = add(server, "2-0")
    query.begin()
    assert query.reader.initialOffset()["0"]["s"]["id"] == initial["0"]["s"]["id"]
    assert query.batch() == expected


@pytest.mark.parametrize("starting", ["latest", "earliest", "(1-0"])
def test_a_first_batch_that_is_repeated_begins_where_it_began(server: redis.Redis, starting: str) -> None:
    """Spark journals only its end, and asks a new process where it begins, when "latest" is another position."""
    add(server, "1-0")
    query = Query(server, startingId=starting)
    start = query.reader.initialOffset()
    expected = [("s", "1-0")] if starting == "earliest" else []
    expected += add(server, "2-0", "3-0")
    end = json.loads(json.dumps(query.reader.latestOffset(start, query.reader.getDefaultReadLimit())))
    later = add(server, "4-0")
    query.begin()
    assert list(query.rows(query.reader.initialOffset(), end)) == expected
    query.checkpoint.append(end)
    query.begin()
    assert query.batch() == later
    assert query.batch() == []


def test_what_is_trimmed_before_a_first_batch_is_repeated_is_missed(server: redis.Redis) -> None:
    add(server, "1-0", "2-0", "3-0")
    query = Query(server)
    end = query.reader.latestOffset(query.reader.initialOffset(), query.reader.getDefaultReadLimit())
    server.xtrim("s", maxlen=1, approximate=False)
    query.begin()
    with pytest.raises(DataLost, match=r"2 entries were trimmed or deleted from stream 's' after 0-0"):
        list(query.rows(query.reader.initialOffset(), end))


def test_progress_is_visible_as_a_group(server: redis.Redis) -> None:
    add(server, *(f"{n}-0" for n in range(1, 11)))
    query = Query(server, group="spark", maxEntriesPerTrigger="4")

    def group() -> tuple[bytes, int, int]:
        [found] = server.xinfo_groups("s")
        return found["last-delivered-id"], found["lag"], found["pending"]

    query.batch()
    assert group() == (b"0-0", 10, 0)
    query.batch()
    assert group() == (b"4-0", 6, 0)
    query.batch()
    assert group() == (b"8-0", 2, 0)
    latest = query.reader.reportLatestOffset()
    assert latest is not None
    assert (latest["0"]["s"]["id"], latest["0"]["s"]["added"]) == ("10-0", 10)


def test_trimming_what_is_acknowledged_keeps_what_the_query_has_still_to_read(headrace_server: redis.Redis) -> None:
    add(headrace_server, *(f"{n}-0" for n in range(1, 301)))
    query = Query(headrace_server, group="spark", maxEntriesPerTrigger="150")
    found = query.batch()
    headrace_server.execute_command("XTRIM", "s", "MAXLEN", "=", 0, "ACKED")
    assert headrace_server.xlen("s") == 300, "a batch is committed when the next one begins"
    found += query.batch()
    headrace_server.execute_command("XTRIM", "s", "MAXLEN", "=", 0, "ACKED")
    assert 150 <= headrace_server.xlen("s") < 300
    while len(batch := query.batch()) > 0:
        found += batch
    assert found == [("s", f"{n}-0") for n in range(1, 301)]


def test_keys_that_are_no_text_survive_the_checkpoint(redis_server: redis.Redis) -> None:
    redis_server.xadd(b"k\xff", {"a": 1}, id="1-0")
    query = Query(redis_server, keys="*")
    assert query.batch() == [(r"k\xff", "1-0")]
    redis_server.xadd(b"k\xff", {"a": 1}, id="2-0")
    assert query.batch() == [(r"k\xff", "2-0")]


def test_an_idle_query_asks_one_command_each_time(redis_server: redis.Redis) -> None:
    for key in "abc":
        add(redis_server, "1-0", key=key)
    query = Query(redis_server, keys="a,b,c")
    query.batch()
    query.reader._looked_around = float("inf")
    redis_server.config_resetstat()
    for _ in range(5):
        assert query.reader.latestOffset(query.checkpoint[-1], ReadAllAvailable()) == query.checkpoint[-1]
    counted = {name: stats["calls"] for name, stats in redis_server.info("commandstats").items()}
    assert {name: calls for name, calls in counted.items() if name.startswith("cmdstat_x")} == {"cmdstat_xread": 5}


def test_keys_are_not_looked_for_with_every_batch(redis_server: redis.Redis) -> None:
    add(redis_server, "1-0")
    query = Query(redis_server, keys="*")
    query.batch()
    query.reader._looked_around = float("inf")
    redis_server.config_resetstat()
    for step in range(2, 5):
        add(redis_server, f"{step}-0")
        end = query.reader.latestOffset(query.checkpoint[-1], ReadAllAvailable())
        assert end["0"]["s"]["id"] == f"{step}-0"
    assert "cmdstat_scan" not in redis_server.info("commandstats")


def test_a_task_holds_no_more_of_a_long_range_than_of_a_short_one(server: redis.Redis) -> None:
    largest = []
    for count in (2000, 6000):
        server.delete("s")
        fill(server, count)
        options = {"url": url_of(server), "keys": "s", "startingId": "earliest", "minPartitions": "1"}
        reader = StreamStreamReader(t.StructType().add("v", t.BinaryType()), read_options(options, streaming=True))
        start = reader.initialOffset()
        [partition] = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
        sizes = [batch.nbytes for batch in reader.read(partition)]
        assert sum(sizes) >= count * 4000
        largest.append(max(sizes))
    assert largest[1] <= largest[0] * 1.1
    assert largest[1] < 5 << 20


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("ab"), st.integers(1, 30)),
        st.tuples(st.just("batch"), st.just(""), st.integers(1, 20)),
        st.tuples(st.just("trim read"), st.sampled_from("ab"), st.just(0)),
        st.tuples(st.just("delete read"), st.sampled_from("ab"), st.integers(0, 5)),
        st.tuples(st.just("crash"), st.just(""), st.just(0)),
    ),
    max_size=25,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(actions=ACTIONS)
def test_whatever_happens_every_entry_comes_once_and_in_order(server: redis.Redis, actions: list[Any]) -> None:
    server.flushall()
    query = Query(server, keys="*", group="g")
    added: list[tuple[str, str]] = []
    read: list[tuple[str, str]] = []
    clock = 0
    for action, key, number in [*actions, ("batch", "", 10**6)]:
        mine = [id for name, id in read if name == key]
        if action == "add":
            for _ in range(number):
                clock += 1
                added += add(server, f"{clock}-0", key=key)
        elif action == "batch":
            query.options["maxEntriesPerTrigger"] = str(number)
            query.reader._options = read_options(query.options, streaming=True)
            read += query.batch()
        elif action == "trim read" and mine:
            server.xtrim(key, minid=mine[-1], approximate=False)
        elif action == "delete read" and mine:
            server.xdel(key, *mine[-number:])
        elif action == "crash":
            query.begin()
    for key in "ab":
        assert [id for name, id in read if name == key] == [id for name, id in added if name == key]


def test_few_entries_wait_for_more_but_not_for_ever(server: redis.Redis) -> None:
    begun = add(server, "1-0", "2-0")
    query = Query(server, minEntriesPerTrigger="5", maxTriggerDelay="1 hour", keys="*")
    assert query.batch() == begun, "nobody knows when a query that has just begun had its last batch"
    few = add(server, "3-0", "4-0")
    for _ in range(3):
        assert query.batch() == []
    assert query.checkpoint[-1] == query.checkpoint[0]
    query.reader.prepareForTriggerAvailableNow()
    query.reader._pacing._held_at = None  # it looks again after a moment
    assert query.batch() == few, "a query that ends does not wait"
    enough = [*add(server, *(f"{n}-0" for n in range(5, 8))), *add(server, "1-0", "2-0", key="t")]
    query.begin()
    query.reader._pacing.note_batch()
    assert sorted(query.batch()) == sorted(enough)
    impatient = Query(server, minEntriesPerTrigger="50", maxTriggerDelay="0s", keys="*")
    assert len(impatient.batch()) == 9
    one = add(server, "9-0")
    assert impatient.batch() == one


def test_a_stream_that_is_gone_is_noted_while_entries_wait(server: redis.Redis) -> None:
    add(server, "1-0")
    query = Query(server, minEntriesPerTrigger="5", maxTriggerDelay="1 hour", keys="s,t")
    query.batch()
    server.delete("s")
    add(server, "1-0", key="t")
    assert query.batch() == [("t", "1-0")]
    assert query.checkpoint[-1]["0"]["s"]["gone"] is True
