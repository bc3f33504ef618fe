"""Every example runs, and does what its first line says."""

import runpy
import sys
from pathlib import Path

import pytest
import redis
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples"
FIRST_MS = 1_763_200_000_000


def test_each_example(  # noqa: PLR0917
    spark: SparkSession,
    headrace_server: redis.Redis,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One after the other, on one server: files, a stream, an archive, the stream again."""
    ran: set[str] = set()
    assert spark is not None

    def run(name: str, *words: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, words)])
        for attempts_left in reversed(range(5)):
            try:
                runpy.run_path(str(EXAMPLES / name))
                break
            except StreamingQueryException as failed:
                # Spark gives a Python source 10 s to start; on a busy machine that is not always enough.
                if "failed to connect back" not in str(failed) or not attempts_left:
                    raise
        ran.add(name)
        return capsys.readouterr().out

    (tmp_path / "in").mkdir()
    for part in range(2):
        rows = "".join(f"d{number},{number}.5\n" for number in range(part * 10, part * 10 + 10))
        (tmp_path / "in" / f"{part}.csv").write_text(f"device,temp\n{rows}")
        run("load.py", url, tmp_path / "in", "sensor:1", tmp_path / "checkpoint")
    assert sorted(entry[b"temp"] for _, entry in headrace_server.xrange("sensor:1")) == sorted(
        b"%d.5" % number for number in range(20)
    )
    headrace_server.xadd("sensor:2", {"temp": 4}, id=f"{FIRST_MS}-0")
    run("archive.py", url, "sensor:*", tmp_path / "lake")
    run("replay.py", tmp_path / "lake", url, "again:", "1970-01-01", "2999-01-01")
    assert headrace_server.xrange("again:sensor:1") == headrace_server.xrange("sensor:1")
    assert headrace_server.xrange("again:sensor:2") == headrace_server.xrange("sensor:2")
    headrace_server.delete("sensor:2")
    told = run("audit.py", url, "sensor:*", tmp_path / "lake")
    assert told.count("missing in the archive") == 0
    assert f"|extra in the archive|sensor:2|{FIRST_MS}-0|" in told
    run("transform.py", url, "sensor:*", "averages")
    assert headrace_server.xrange("averages")[0][1] == {b"sensor": b"sensor:1", b"readings": b"20", b"temp": b"10"}
    assert "|  temp|     20|" in run("report.py", url, "sensor:*")
    assert ran == {path.name for path in EXAMPLES.glob("*.py")}
