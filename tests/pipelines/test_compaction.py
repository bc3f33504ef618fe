"""Compaction, layouts and typed columns on a real Spark: the same rows before, meanwhile and after."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import redis
from pyspark.sql import SparkSession

from headrace.pipelines.archive import archive_streams
from headrace.pipelines.audit import audit_archive
from headrace.pipelines.compaction import TARGET_BYTES, compact_archive
from headrace.pipelines.errors import ArchiveInUse, NoArchive, PipelineError
from headrace.pipelines.lake import Lake
from headrace.pipelines.layout import open_archive
from headrace.pipelines.running import Progress
from headrace.pipelines.sole_writer import sole_writer
from support.nasty_streams import FIRST_MS, fill
from support.spark.small_archive import SmallArchive


def add(server: redis.Redis, key: str, numbers: range, **more: str) -> None:
    with server.pipeline(transaction=True) as pipeline:
        for number in numbers:
            pipeline.xadd(key, {"n": number} | more, id=f"{FIRST_MS + number}-0")
        pipeline.execute()


def rows(spark: SparkSession, lake: Path) -> list[str]:
    return sorted(map(repr, open_archive(spark, str(lake)).select("stream", "id", "fields", "key", "date").collect()))


def files(lake: Path) -> list[Path]:
    return sorted(lake.rglob("*.parquet"))


def test_an_archive_of_an_earlier_version_goes_on_and_is_compacted(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    former = SmallArchive(headrace_server, lake)
    for run in range(13):  # one log is compact, and three follow it
        add(headrace_server, "s", range(10 * run, 10 * run + 10))
        former.run(trim=True)
    for number in (130, 131):
        add(headrace_server, "s", range(number, number + 1))
        assert archive_streams(spark, "*", str(lake), url=url).entries == 1
        assert spark.read.parquet(str(lake)).count() == number + 1, "Spark's own reader takes the last log alone"
    before = rows(spark, lake)
    # The first of these runs merged the 14 files that there were.
    assert compact_archive(spark, str(lake), dry_run=True).before == 2
    done = compact_archive(spark, str(lake))
    assert (done.before, done.after, done.removed) == (2, 1, 0)
    assert (rows(spark, lake), len(files(lake))) == (before, 17)
    assert spark.read.parquet(str(lake)).count() == 132
    again = compact_archive(spark, str(lake), keep_s=0)
    assert (again.before, again.removed, len(files(lake))) == (0, 16, 1)
    assert rows(spark, lake) == before


@pytest.mark.parametrize("layout", ["by-date", "by-key"])
def test_nasty_entries_are_the_same_whatever_the_layout_and_compacted_or_not(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path, layout: str
) -> None:
    lake = tmp_path / "lake"
    fill(headrace_server, 120)
    archive_streams(spark, "*", str(lake), url=url, layout=layout, max_entries=60)  # type: ignore[arg-type]
    before = rows(spark, lake)
    assert compact_archive(spark, str(lake), keep_s=0).after
    assert rows(spark, lake) == before
    assert audit_archive(spark, str(lake), url=url, whole=True).equal
    if layout == "by-date":
        days = {file.parent.name for file in files(lake)}
        assert len(files(lake)) == len(days), "all streams of a day are in one file"
    other = "by-date" if layout == "by-key" else "by-key"
    with pytest.raises(PipelineError, match=rf"^the archive has the layout {layout}, which cannot be changed"):
        archive_streams(spark, "*", str(lake), url=url, layout=other)  # type: ignore[arg-type]


def test_files_are_sorted_by_stream_and_id_and_say_so(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    for run in range(3):
        for stream in range(40):
            add(headrace_server, f"s:{stream}", range(5 * run, 5 * run + 5))
        archive_streams(spark, "*", str(lake), url=url, layout="by-date")
    compact_archive(spark, str(lake), keep_s=0)
    [file] = files(lake)
    table = pq.read_table(file, partitioning=None)
    order = list(zip(table["stream"].to_pylist(), table["ms"].to_pylist(), strict=True))
    assert order == sorted(order)
    assert len(order) == 40 * 15
    group = pq.ParquetFile(file).metadata.row_group(0)
    told = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
    assert (told["stream"].statistics.min, told["stream"].statistics.max) == (b"s:0", b"s:9")
    assert told["ms"].has_column_index


def test_typed_columns_lie_beside_the_fields(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    lake = str(tmp_path / "lake")
    add(headrace_server, "s", range(5), temp="1.5")
    archive_streams(spark, "s", lake, url=url, schema="n int, temp double")
    add(headrace_server, "s", range(5, 7), temp="warm")
    archive_streams(spark, "s", lake, url=url)
    add(headrace_server, "s", range(7, 8), place="cellar")
    archive_streams(spark, "s", lake, url=url, schema="place string")
    expected = [*((n, 1.5, None) for n in range(5)), (5, None, None), (6, None, None), (7, None, "cellar")]
    for _ in range(2):
        found = open_archive(spark, lake).orderBy("id").select("n", "temp", "place", "fields").collect()
        assert [(row["n"], row["temp"], row["place"]) for row in found] == expected
        assert bytes(found[5]["fields"][1]["value"]) == b"warm", "what does not fit is in the fields"
        compact_archive(spark, lake, keep_s=0)
    with pytest.raises(PipelineError, match=r"^the archive has the column 'n' as int, and it cannot become string$"):
        archive_streams(spark, "s", lake, url=url, schema="n string")
    with pytest.raises(PipelineError, match=r"^column 'id' cannot be a field's: the archive has a column of that name"):
        archive_streams(spark, "s", lake, url=url, schema="id int")


def test_a_run_that_goes_on_compacts_by_itself_and_a_table_is_the_same_meanwhile(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    table = spark.read.format("headrace").options(url=url, keys="s", archive=str(lake)).schema("_id string, n int")
    add(headrace_server, "s", range(10))

    def watch(progress: Progress) -> None:
        if progress.entries == 210:
            raise KeyboardInterrupt
        if progress.entries % 70 == 0:
            found = [row["n"] for row in table.load().orderBy("_id").select("n").collect()]
            assert found == list(range(progress.entries))
        add(headrace_server, "s", range(progress.entries, progress.entries + 10))

    with pytest.raises(KeyboardInterrupt):
        archive_streams(
            spark, "s", str(lake), url=url, continuous=True, every="0 seconds", trim="archived", watch=watch
        )
    extent = Lake(str(lake)).extent()
    assert len(extent.files) < 8
    assert len(extent.shape.replaced) > 8, "replaced files stay for readers that planned before"
    archive_streams(spark, "s", str(lake), url=url)
    assert [row["n"] for row in table.load().orderBy("_id").select("n").collect()] == list(range(210))


def test_compaction_is_one_writer_and_wants_an_archive(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(NoArchive, match=r"^there is no archive at '.*none'; `headrace pipeline archive` makes one$"):
        compact_archive(spark, str(tmp_path / "none"))
    (tmp_path / "lake").mkdir()
    with (
        sole_writer(spark, str(tmp_path / "lake")),
        pytest.raises(ArchiveInUse, match="another run is writing the archive"),
    ):
        compact_archive(spark, str(tmp_path / "lake"))
    assert TARGET_BYTES == 128 << 20
