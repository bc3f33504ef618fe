"""Streams that are deleted and made anew between runs: archived from their beginning, and nothing is silent."""

from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from headrace.pipelines.archive import Archived, archive_streams
from headrace.pipelines.audit import Audit, audit_archive
from headrace.pipelines.errors import CannotReplay, PipelineError
from headrace.pipelines.layout import open_archive
from headrace.pipelines.replay import Replayed, replay_archive
from support.campaign import LONG
from support.nasty_streams import FIRST_MS
from support.spark.frames import url_of

ON_REDIS = pytest.mark.skipif(not LONG, reason="19 s: in make test the streams are on a Headrace; HEADRACE_LONG=1")


class Lake:
    """An archive of the stream `s`, and how it was made."""

    def __init__(self, spark: SparkSession, server: redis.Redis, path: Path) -> None:
        self._spark, self._server, self._path = spark, server, str(path)
        self._url = url_of(server)

    def put(self, numbers: range, first: int = 0) -> None:
        """Add entries that count on through all lives of the stream; their IDs begin anywhere."""
        with self._server.pipeline(transaction=True) as pipeline:
            for place, number in enumerate(numbers):
                pipeline.xadd("s", {"n": number}, id=f"{FIRST_MS + first + place}-0")
            pipeline.execute()

    def run(self, **options: object) -> Archived:
        return archive_streams(self._spark, "s", self._path, url=self._url, **options)  # type: ignore[arg-type]

    def audit(self) -> Audit:
        return audit_archive(self._spark, self._path, url=self._url)

    def replay(self, key: str) -> Replayed:
        return replay_archive(self._spark, self._path, url=self._url, to_key=key)

    def numbers(self) -> list[int]:
        rows = open_archive(self._spark, self._path, [b"s"]).select("fields").collect()
        return sorted(int(row["fields"][0]["value"]) for row in rows)


@pytest.mark.parametrize("kind", ["headrace", pytest.param("redis", marks=ON_REDIS)])
def test_each_life_of_a_stream_is_archived_from_its_beginning(
    spark: SparkSession, request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    server: redis.Redis = request.getfixturevalue(f"{kind}_server")
    lake = Lake(spark, server, tmp_path / "lake")
    lake.put(range(10))
    assert lake.run().entries == 10
    # The same IDs, with other entries.
    server.delete("s")
    lake.put(range(10, 22))
    audit = lake.audit()
    assert (audit.equal, audit.renewed, audit.waiting, audit.trimmed) == (False, ["s"], 12, 10)
    done = lake.run(trim="settled")
    assert (done.entries, done.trimmed) == (12, {"s": 12})
    assert [(fate.key, fate.renewed, fate.lost) for fate in done.fates] == [("s", 1, 0)]
    assert "deleted and made anew, and is read from its beginning" in str(done.fates[0])
    # Later IDs, and then more entries that begin earlier, in two batches.
    server.delete("s")
    lake.put(range(22, 30), first=100)
    assert lake.run().entries == 8
    server.delete("s")
    lake.put(range(30, 60), first=90)
    assert lake.run(max_entries=20).entries == 30
    assert lake.run().entries == 0
    assert lake.numbers() == list(range(60))
    audit = lake.audit()
    assert (audit.equal, audit.entries, audit.waiting) == (True, 30, 0)
    with pytest.raises(
        CannotReplay, match=rf"^the stream 's' was deleted and made anew: the archive has {FIRST_MS}-0 of"
    ):
        lake.replay("again")


@pytest.fixture
def lake(spark: SparkSession, headrace_server: redis.Redis, tmp_path: Path) -> Lake:
    """An archive that has nothing yet."""
    return Lake(spark, headrace_server, tmp_path / "lake")


def test_what_was_deleted_unread_is_an_error_and_then_counted_for_ever(
    lake: Lake, headrace_server: redis.Redis
) -> None:
    lake.put(range(200))  # in so many batches that some are left when the run is cut off

    def cut_off(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lake.run(max_entries=4, watch=cut_off)
    lost = 200 - len(lake.numbers())
    assert lost > 0, "the run was cut off after its first batch"
    headrace_server.delete("s")
    audit = lake.audit()
    assert (audit.equal, audit.lost) == (False, {"s": lost})
    lake.put(range(200, 205))
    with pytest.raises(PipelineError, match=r"entries were deleted with stream 's' after .* before the query had read"):
        lake.run()
    done = lake.run(fail_on_data_loss=False)
    assert done.entries == 5
    assert (sum(fate.renewed for fate in done.fates), sum(fate.lost for fate in done.fates)) == (1, lost)
    audit = lake.audit()
    assert (audit.equal, audit.lost, audit.differences) == (False, {"s": lost}, [])


def test_what_was_trimmed_unread_is_counted_and_a_stream_that_is_gone_is_said(
    lake: Lake, headrace_server: redis.Redis
) -> None:
    lake.put(range(10))
    lake.run()
    lake.put(range(10, 20), first=10)
    headrace_server.xtrim("s", maxlen=4, approximate=False)
    audit = lake.audit()
    assert (audit.equal, audit.lost, audit.waiting) == (False, {"s": 6}, 4)
    done = lake.run(fail_on_data_loss=False)
    assert (done.entries, [(fate.renewed, fate.lost) for fate in done.fates]) == (4, [(0, 6)])
    headrace_server.delete("s")
    done = lake.run()
    assert [(fate.key, fate.gone, fate.lost) for fate in done.fates] == [("s", True, 0)]
    lake.put(range(20, 23))
    assert lake.run().entries == 3
    assert lake.numbers() == [*range(10), *range(16, 23)]
