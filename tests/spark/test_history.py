"""Readers with an archive, called as Spark calls them: every entry once, wherever it is read from."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as t
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace.pipelines import positions
from headrace.pipelines.errors import NoArchive
from headrace.spark.batch_reader import StreamBatchReader
from headrace.spark.errors import BadOption, DataLost, UnreadableArchive
from headrace.spark.options import read_options
from support.spark.frames import url_of
from support.spark.reading import Query, Table, add
from support.spark.small_archive import SmallArchive
from support.spark.small_lake import SmallLake

Archive = SmallArchive | SmallLake

DAY_MS = 86_400_000
SCHEMA = t.StructType().add("_key", t.StringType()).add("_id", t.StringType())


def ids(*numbers: int) -> list[str]:
    return [f"{number}-0" for number in numbers]


KINDS = ("former", "by-key", "by-date", "upgraded")


def made(kind: str, server: redis.Redis, path: Path) -> Archive:
    """Make an archive of everything on a server, which has nothing yet, as one version or another does."""
    if kind == "former":
        return SmallArchive(server, path)
    return SmallLake(server, path, "by-date" if kind == "by-date" else "by-key", former=kind == "upgraded")


@pytest.fixture(params=KINDS)
def archive(request: pytest.FixtureRequest, server: redis.Redis, tmp_path: Path) -> Archive:
    """An archive of everything on the server, which has nothing yet."""
    return made(request.param, server, tmp_path / "lake")


def test_a_table_has_the_archive_and_what_came_after_it(server: redis.Redis, archive: Archive) -> None:
    expected = add(server, *ids(*range(1, 101))) + add(server, *ids(5, 6), key="t:1") + add(server, "9-9", key="gone")
    for _ in range(12):
        archive.run(10, trim=True)
    server.delete("gone")
    expected += add(server, *ids(*range(101, 111))) + add(server, "1-0", key="new")
    assert server.xlen("s") == 10
    assert sorted(Table(server, archive.path).rows()) == sorted(expected)
    assert Table(server, archive.path, startingId="50", endingId="102", keys="s").rows() == [
        ("s", id) for id in ids(*range(50, 103))
    ]
    assert sorted(Table(server, archive.path, keys="t:?,gone", failOnMissing="true").rows()) == [
        *(("gone", "9-9"), ("t:1", "5-0"), ("t:1", "6-0"))
    ]


def test_a_range_of_time_opens_the_files_of_its_days(server: redis.Redis, archive: Archive) -> None:
    rows = add(server, *ids(*(DAY_MS * day + 5 for day in range(10))))
    archive.run()
    table = Table(server, archive.path, startingTimestamp=str(DAY_MS * 3), endingTimestamp="1970-01-06T00:00:00Z")
    assert [part.path.split("/")[-2] for part in table.archived()] == ["date=1970-01-04", "date=1970-01-05"]
    assert table.rows() == rows[3:5]


@pytest.mark.parametrize("delayed", [1, 2])
def test_trimming_that_overtakes_a_table_or_its_tasks_loses_nothing(
    server: redis.Redis, archive: Archive, delayed: int
) -> None:
    expected = add(server, *ids(*range(1, 501)))
    archive.run(100, trim=True)
    table = Table(server, archive.path, minPartitions="4")
    for _ in range(delayed):
        archive.run(200, trim=True)  # between the plan and the tasks
    expected_after = add(server, *ids(501, 502))
    assert sorted(table.rows(), key=lambda row: int(row[1][:-2])) == expected
    assert sorted(Table(server, archive.path).rows()) == sorted(expected + expected_after)


def test_what_was_trimmed_before_it_was_archived_is_an_error(server: redis.Redis, archive: Archive) -> None:
    add(server, *ids(*range(1, 11)))
    archive.run()
    add(server, *ids(*range(11, 21)))
    server.xtrim("s", maxlen=4, approximate=False)
    with pytest.raises(DataLost, match=r"6 entries were trimmed or deleted from stream 's' after 10-0"):
        Table(server, archive.path)
    rows = Table(server, archive.path, failOnDataLoss="false").rows()
    assert rows == [("s", id) for id in ids(*range(1, 11), *range(17, 21))]
    query = Query(server, archive=str(archive.path))
    assert len(query.batch()) == 10
    with pytest.raises(DataLost, match=r"6 entries were trimmed"):
        query.batch()


def test_a_stream_that_was_made_anew_is_read_with_all_its_lives(server: redis.Redis, archive: Archive) -> None:
    old = add(server, *ids(1, 2, 3))
    archive.run()
    server.delete("s")
    new = add(server, *ids(2, 3))
    query = Query(server, archive=str(archive.path))
    assert [query.batch(), query.batch()] == [old, new], "from the archive, then all of the new stream"
    assert sorted(Table(server, archive.path).rows()) == sorted(old + new)
    archive.run()
    more = add(server, *ids(4))
    assert sorted(Table(server, archive.path).rows()) == sorted(old + new + more)
    assert query.batch() == more, "a query that has passed the archive goes on"
    with pytest.raises(DataLost, match=r"'s' was deleted and made anew, and the files do not say which entries"):
        Query(server, archive=str(archive.path)).batch()


def test_a_query_begins_in_the_archive_and_goes_on_live(server: redis.Redis, archive: Archive) -> None:
    expected = add(server, *ids(*range(1, 101)))
    for _ in range(4):
        archive.run(20, trim=True)
    query = Query(server, archive=str(archive.path), maxEntriesPerTrigger="15", startingId="earliest")
    batches = [query.batch() for _ in range(4)]
    query.begin()
    batches += [query.batch() for _ in range(4)]
    assert [len(batch) for batch in batches] == [15, 15, 15, 15, 15, 5, 15, 5]
    assert [row for batch in batches for row in batch] == expected
    later = add(server, *ids(*range(101, 111)))
    assert [row for _ in range(2) for row in query.batch()] == later
    del query.options["startingId"]
    query.options["maxEntriesPerTrigger"] = "1000"
    query.begin()
    query.checkpoint.clear()
    query.reader.prepareForTriggerAvailableNow()
    add(server, "999-0")
    archive.run(trim=True)
    assert [row for _ in range(3) for row in query.batch(ReadAllAvailable())] == expected + later


def test_a_repeated_batch_reads_the_same_from_wherever_it_is_by_then(server: redis.Redis, archive: Archive) -> None:
    expected = add(server, *ids(*range(1, 41)))
    archive.run(10, trim=True)
    query = Query(server, archive=str(archive.path), startingId="(5-0")
    start = query.reader.initialOffset()
    middle = query.reader.latestOffset(start, ReadAllAvailable())
    assert list(query.rows(start, middle)) == expected[5:10]
    query.reader._looked_around = float("-inf")
    end = query.reader.latestOffset(middle, ReadAllAvailable())
    archive.run(15, trim=True)
    assert list(query.rows(middle, end)) == expected[10:]
    archive.run(15, trim=True)
    query.begin()
    query.reader.initialOffset()
    assert list(query.rows(start, middle)) == expected[5:10]
    assert list(query.rows(middle, end)) == expected[10:]


def test_positions_are_where_the_archive_ends(server: redis.Redis, archive: Archive) -> None:
    add(server, *ids(1, 2, 3))
    add(server, "5-0", key="gone")
    archive.run(trim=True)
    server.delete("gone")
    archive.run()
    found = positions(str(archive.path))
    assert json.loads(found) == {"gone": "earliest", "s": "(3-0"}
    later = add(server, "4-0") + add(server, "1-0", key="gone")
    assert sorted(Query(server, keys="*", startingId=found).batch()) == sorted(later)
    with pytest.raises(NoArchive, match=r"^there is no archive at '.*none'; `headrace pipeline archive` makes one$"):
        positions(str(archive.path / "none"))


def test_what_an_archive_cannot_be_is_one_sentence(redis_server: redis.Redis, tmp_path: Path) -> None:
    given = {"url": url_of(redis_server), "keys": "s", "archive": str(tmp_path / "none")}
    with pytest.raises(UnreadableArchive, match=r"^there is no archive at '.*none'; `headrace pipeline archive` makes"):
        StreamBatchReader(SCHEMA, read_options(given, streaming=False)).partitions()
    add(redis_server, "1-0")
    archive = SmallArchive(redis_server, tmp_path / "lake")
    archive.run()
    (tmp_path / "lake" / "_checkpoint").rename(tmp_path / "elsewhere")
    given["archive"] = str(archive.path)
    with pytest.raises(UnreadableArchive, match=r"^the archive '.*lake' has no offsets of its last batch in '.*_check"):
        StreamBatchReader(SCHEMA, read_options(given, streaming=False)).partitions()
    given["archiveCheckpoint"] = str(tmp_path / "elsewhere")
    assert len(StreamBatchReader(SCHEMA, read_options(given, streaming=False)).partitions()) == 1
    with pytest.raises(BadOption, match=r"^option 'archiveCheckpoint' is 'x': goes with archive$"):
        read_options({"keys": "s", "archiveCheckpoint": "x"}, streaming=False)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from("ab"), st.integers(1, 30)),
        st.tuples(st.just("batch"), st.just(""), st.integers(1, 20)),
        st.tuples(st.just("archive"), st.just(""), st.integers(1, 30)),
        st.tuples(st.just("trim"), st.just(""), st.integers(1, 30)),
        st.tuples(st.just("compact"), st.just(""), st.just(0)),
        st.tuples(st.just("plan"), st.just(""), st.integers(1, 20)),
        st.tuples(st.just("crash"), st.just(""), st.just(0)),
    ),
    max_size=25,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@pytest.mark.parametrize("kind", KINDS)
@given(actions=ACTIONS)
def test_whatever_happens_every_entry_comes_once_and_in_order(
    server: redis.Redis, tmp_path_factory: pytest.TempPathFactory, kind: str, actions: list[Any]
) -> None:
    server.flushall()
    archive = made(kind, server, tmp_path_factory.mktemp("lake"))
    query = Query(server, keys="*", archive=str(archive.path))
    added: list[tuple[str, str]] = []
    read: list[tuple[str, str]] = []
    table: Callable[[], list[tuple[str, str]]] | None = None
    planned = 0
    clock = 0
    for action, key, number in [*actions, *[("batch", "", 10**6)] * 3]:
        if action == "add":
            for _ in range(number):
                clock += 1
                added += add(server, f"{clock}-0", key=key)
        elif action == "batch":
            query.options["maxEntriesPerTrigger"] = str(number)
            query.reader._options = read_options(query.options, streaming=True)
            batch = query.batch()
            assert len(batch) <= max(number, 2), "each of the two streams may have one"
            read += batch
        elif action in {"archive", "trim"}:
            archive.run(number, trim=action == "trim")
        elif action == "compact" and isinstance(archive, SmallLake):
            archive.compact(keep_s=3600 if kind == "by-date" else 0)
        elif action == "plan":
            table, planned = Table(server, archive.path, entriesPerPartition=str(number)).rows, len(added)
        elif action == "crash":
            query.begin()
    for key in "ab":
        assert [id for name, id in read if name == key] == [id for name, id in added if name == key]
    if table is not None:
        assert sorted(table()) == sorted(added[:planned]), "as of its plan, whatever was trimmed since"
    assert sorted(Table(server, archive.path).rows()) == sorted(added)
