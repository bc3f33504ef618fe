"""Archiving: every entry once, byte for byte, and nothing is trimmed that somebody still needs."""

import fcntl
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from headrace.pipelines.archive import archive_streams
from headrace.pipelines.errors import ArchiveInUse, NoArchive, PipelineError
from headrace.pipelines.layout import open_archive
from headrace.pipelines.running import Progress
from support.nasty_streams import FIRST_MS


def archived(spark: SparkSession, path: str, key: bytes) -> list[int]:
    rows = open_archive(spark, path, [key]).select("id", "fields").collect()
    return sorted(int(row["fields"][0]["value"]) for row in rows)


def add(server: redis.Redis, key: str, numbers: range) -> None:
    with server.pipeline(transaction=True) as pipeline:  # a query that runs sees all of them, or none
        for number in numbers:
            pipeline.xadd(key, {"n": number}, id=f"{FIRST_MS + number}-0")
        pipeline.execute()


def test_a_second_run_adds_what_is_new_and_removes_what_never_counted(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    add(headrace_server, "s:1", range(100))
    first = archive_streams(spark, "s:*", str(lake), url=url, max_entries=40)
    assert (first.entries, first.batches) == (100, 3)
    directory = lake / "key=s%3A1" / "date=2025-11-15"
    counted = {file.name for file in directory.glob("*.parquet")}
    leftover = directory / "part-00000-of-a-killed-run.c000.snappy.parquet"
    leftover.write_bytes(next(directory.glob("*.parquet")).read_bytes())
    add(headrace_server, "s:1", range(100, 120))
    add(headrace_server, "s:2", range(5))
    assert archive_streams(spark, "s:*", str(lake), url=url).entries == 25
    assert archived(spark, str(lake), b"s:1") == list(range(120))
    assert archived(spark, str(lake), b"s:2") == list(range(5))
    assert not leftover.exists()
    assert counted < {file.name for file in directory.glob("*.parquet")}


def test_trimming_keeps_what_a_group_has_not_settled(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    for key in ("pending", "unread", "free"):
        add(headrace_server, key, range(50))
    headrace_server.xgroup_create("pending", "g", "0")
    ids = [id for _, entries in headrace_server.xreadgroup("g", "c", {"pending": ">"}, 30) for id, _ in entries]
    headrace_server.xack("pending", "g", *ids[:10], *ids[11:])
    headrace_server.xgroup_create("unread", "g", f"{FIRST_MS + 19}-0")
    done = archive_streams(spark, "*", lake, url=url, trim="settled")
    assert done.trimmed == {"pending": 10, "unread": 20, "free": 50}
    assert headrace_server.xrange("pending", count=1)[0][0] == ids[10]
    assert headrace_server.xrange("unread", count=1)[0][0] == b"%d-0" % (FIRST_MS + 20)
    add(headrace_server, "free", range(50, 60))
    done = archive_streams(spark, "*", lake, url=url, trim="archived")
    assert (done.entries, done.trimmed) == (10, {"pending": 40, "unread": 30, "free": 10})
    for key in ("pending", "unread", "free"):
        assert archived(spark, lake, key.encode()) == list(range(60 if key == "free" else 50))


def test_a_run_that_goes_on_trims_behind_itself_and_nothing_that_is_not_archived(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    add(headrace_server, "s", range(100))
    add(headrace_server, "kept", range(10))
    headrace_server.xgroup_create("kept", "g", f"{FIRST_MS + 3}-0")
    lengths: list[int] = []

    def watch(progress: Progress) -> None:
        """Called when a batch counts, before what it archived is trimmed; each time there is more to come."""
        lengths.append(headrace_server.xlen("s"))
        if progress.entries >= 110 + 60:
            raise KeyboardInterrupt
        add(headrace_server, "s", range(progress.entries - 10, progress.entries + 10))

    with pytest.raises(KeyboardInterrupt):
        archive_streams(spark, "s,kept", lake, url=url, continuous=True, every="0 seconds", trim="settled", watch=watch)
    assert spark.streams.active == []
    # The entries of a batch are trimmed when it counts, sometimes with those of the next batch, which counts by then.
    assert lengths[0] == 100
    assert {*lengths[1:], rest := headrace_server.xlen("s")} <= {0, 20}
    assert [id for id, _ in headrace_server.xrange("kept", count=1)] == [b"%d-0" % (FIRST_MS + 4)]
    assert archived(spark, lake, b"s") == list(range(160))
    add(headrace_server, "s", range(160, 170))
    done = archive_streams(spark, "s,kept", lake, url=url, trim="settled")
    assert (done.entries, done.trimmed, headrace_server.xlen("s")) == (10, {"s": rest + 10}, 0)
    assert archived(spark, lake, b"s") == list(range(170))


def test_one_run_at_a_time(spark: SparkSession, url: str, tmp_path: Path) -> None:
    with (tmp_path / "_lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ArchiveInUse, match="another run is writing the archive"):
            archive_streams(spark, "s", str(tmp_path), url=url)


def test_what_cannot_be_archived_is_one_sentence(spark: SparkSession, url: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match=r"^the archive '.*file/x' cannot be written: Not a directory$"):
        archive_streams(spark, "s", str(tmp_path / "file" / "x"), url=url)
    with pytest.raises(PipelineError, match=r"^option 'url' is 'redis://127.0.0.1:1': the server does not answer: .*$"):
        archive_streams(spark, "s", str(tmp_path / "lake"), url="redis://127.0.0.1:1")
    with pytest.raises(NoArchive, match=r"^there is no archive at '.*nowhere'; `headrace pipeline archive` makes one$"):
        open_archive(spark, str(tmp_path / "nowhere"))
