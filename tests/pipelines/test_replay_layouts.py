"""Replay at full speed, from every kind of archive: every entry under its ID, in the order that it had."""

from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from headrace.pipelines.archive import archive_streams
from headrace.pipelines.compaction import compact_archive
from headrace.pipelines.errors import CannotReplay
from headrace.pipelines.replay import replay_archive
from support.nasty_streams import FIRST_MS

DAY_MS = 86_400_000
KINDS = [
    pytest.param({"layout": "by-key"}, id="by-key"),
    pytest.param({"layout": "by-date"}, id="by-date"),
    pytest.param({"table": "delta"}, id="delta"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_a_replayed_stream_is_the_stream(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path, kind: dict[str, str]
) -> None:
    lake = str(tmp_path / "lake")

    def add(key: str, *numbers: int) -> None:
        for number in numbers:
            headrace_server.xadd(key, {"n": number, "t": "x" * (number % 5)}, id=f"{FIRST_MS + number}-{number % 3}")

    # The files of later batches begin with smaller IDs, of other streams, and a stream goes over days.
    add("a", *range(500, 600))
    add("c", *range(0, 3 * DAY_MS, DAY_MS // 4))
    archive_streams(spark, "*", lake, url=url, **kind)  # type: ignore[arg-type]
    add("a", *range(600, 650))
    add("b", *range(100))
    archive_streams(spark, "*", lake, url=url)
    streams = {key: headrace_server.xrange(key) for key in ("a", "b", "c")}

    def replay(prefix: str, **options: object) -> tuple[int, int]:
        done = replay_archive(spark, lake, url=url, prefix=prefix, **options)  # type: ignore[arg-type]
        return done.entries, done.skipped

    assert replay("1:", step_entries=40) == (262, 0)
    assert {key: headrace_server.xrange(f"1:{key}") for key in streams} == streams
    compact_archive(spark, lake)
    assert replay("2:") == (262, 0)
    assert {key: headrace_server.xrange(f"2:{key}") for key in streams} == streams
    if kind != KINDS[0].values[0]:
        return
    assert replay("2:") == (0, 262)
    headrace_server.xtrim("2:a", maxlen=0)
    headrace_server.delete("2:b")
    with pytest.raises(CannotReplay, match=rf"^the stream '2:a' has entries behind {FIRST_MS + 500}-2, which is not"):
        replay("2:")
    assert replay("2:", keys="b,c") == (100, 12)
    between = {"start": str(FIRST_MS + 610), "end": str(FIRST_MS + 620)}
    assert replay("3:", **between) == (10, 0)
    assert headrace_server.xrange("3:a") == streams["a"][110:120]
    headrace_server.flushall()
    assert replay("", keys="c") == (12, 0)
    assert headrace_server.xrange("c") == streams["c"]
