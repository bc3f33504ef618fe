"""`headrace pipeline` from outside: exit codes, JSON, one sentence for what is wrong, and a run that is killed."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from headrace.cli.app import app
from headrace.core.errors import HeadraceError
from headrace.pipelines.lake import Lake
from headrace.pipelines.layout import open_archive
from support.campaign import LONG
from support.spark.sessions import QUICK_JAVA

DEADLINE_S = 240


@pytest.fixture
def run(spark: SparkSession, url: str) -> Callable[..., Result]:
    """Run a command in this process, on the Spark that is there."""
    assert spark is not None

    def command(*words: str | Path) -> Result:
        named = [] if "--url" in words else ["--url", url]
        return CliRunner().invoke(app, ["pipeline", *map(str, words), *named])

    return command


def test_commands_and_their_exit_codes(
    run: Callable[..., Result], headrace_server: redis.Redis, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("n,text\n1,one\n2,two\n")
    lake = tmp_path / "lake"
    dry = run("load", tmp_path / "a.csv", "--key", "s", "--dry-run").output
    assert dry == f"Would load 2 entries from {tmp_path / 'a.csv'}, with the columns n, text.\n"
    assert not headrace_server.keys()
    result = run("load", tmp_path / "a.csv", "--key", "s")
    assert (result.exit_code, result.output.partition(" from ")[0]) == (0, "Loaded 2 entries")
    dry = run("archive", "s,no", lake, "--trim", "--dry-run").output
    assert (
        dry
        == f"Would archive 2 entries of 1 stream in {lake}, which is new, and then trim the streams.\n  s: 2 entries\n"
    )
    assert not lake.exists()
    result = run("archive", "s", lake, "--trim", "--json")
    assert result.exit_code == 0
    assert json.loads(result.output) == {
        "path": str(lake),
        "entries": 2,
        "batches": 1,
        "trimmed": {"s": 2},
        "fates": [],
    }
    assert run("archive", "s", lake, "--dry-run").output == f"Would archive 0 entries of 0 streams in {lake}.\n"
    headrace_server.delete("s")
    assert run("replay", lake, "--dry-run").output == "Would replay 2 entries to 1 stream.\n"
    assert not headrace_server.exists("s")
    assert run("replay", lake).output == "Replayed 2 entries to 1 stream.\n"
    assert run("audit", lake).output == "Equal: 2 entries in 1 range.\n"
    headrace_server.xdel("s", headrace_server.xrange("s")[1][0])
    result = run("audit", lake)
    assert (result.exit_code, result.output.splitlines()[-1]) == (3, "Different: 1 entry in 1 of 1 range.")
    assert "has it, the stream does not" in result.output
    sql = "SELECT n + 1 AS m FROM t"
    result = run("transform", sql, "--stream", "t=s", "--schema", "t=n int", "--key", "more")
    assert (result.exit_code, result.output) == (0, "Wrote 1 row to more.\n")
    result = run("report", "s", tmp_path / "page.html")
    assert (result.exit_code, result.output) == (0, f"Wrote {tmp_path / 'page.html'}: 1 entry of 1 stream.\n")


def test_wrong_usage_is_2_and_what_fails_is_a_sentence(run: Callable[..., Result], tmp_path: Path) -> None:
    assert run("load", tmp_path, "--key", "s", "--option", "sep").exit_code == 2
    assert run("transform", "SELECT 1", "--stream", "nothing").exit_code == 2
    assert run("replay", tmp_path, "--speed", "-1").exit_code == 2
    assert run("archive", "s").exit_code == 2
    result = run("archive", "s", tmp_path / "lake", "--url", "redis://127.0.0.1:1")
    assert isinstance(result.exception, HeadraceError)
    assert str(result.exception).startswith("option 'url' is 'redis://127.0.0.1:1': the server does not answer")


def headrace(*words: str | Path, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "headrace.cli.main", "pipeline", *map(str, words)]
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    ours = {"PYTHONPATH": paths, "JAVA_TOOL_OPTIONS": QUICK_JAVA}
    return subprocess.Popen(
        command,
        env=os.environ | ours | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_without_spark_or_java_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    hidden = tmp_path / "sitecustomize.py"
    hidden.write_text("import sys\nsys.modules['pyspark'] = None\n")
    job = headrace("audit", tmp_path, PYTHONPATH=os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    assert job.communicate(timeout=DEADLINE_S) == (
        "",
        "headrace: this needs Spark and there is none: pip install 'headrace[spark]'\n",
    )
    assert job.returncode == 1
    hidden.write_text(
        "import headrace.spark.java as java\njava._homes = lambda: []\njava._packaged_java = lambda: None\n"
    )
    job = headrace("audit", tmp_path, PYTHONPATH=os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    told, wrong = job.communicate(timeout=DEADLINE_S)
    assert (told, job.returncode) == ("", 1)
    assert wrong.startswith("headrace: Spark needs Java 17 or later and there is none: ")
    assert wrong.count("\n") == 1
    assert importlib.util.find_spec("pyspark") is not None


@pytest.mark.timeout(600)
@pytest.mark.skipif(not LONG, reason="make test-long runs it; tests/spark/test_exactly_once.py kills such a query here")
def test_an_archive_that_is_killed_has_every_entry_once_when_it_is_run_again(
    spark: SparkSession, headrace_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"

    def add(numbers: range) -> None:
        with headrace_server.pipeline(transaction=False) as pipeline:
            for number in numbers:
                pipeline.xadd(f"s:{number % 2}", {"n": number})
            pipeline.execute()

    def wait(job: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline
            assert job.poll() is None, job.communicate()
            time.sleep(0.02)

    def commits() -> int:
        return max((int(file.stem) for file in (lake / "_spark_metadata").glob("[0-9]*")), default=-1) + 1

    def committed() -> int:
        return sum(mark.added or 0 for mark in Lake(str(lake)).extent().marks.values())

    words = (
        *("archive", "s:*", lake, "--continuous", "--every", "1 second", "--max-entries", "50"),
        *("--url", url, "--master", "local[2]"),
    )
    add(range(2000))
    job = headrace(*words)
    try:
        wait(job, lambda: commits() >= 2)
    finally:
        job.kill()  # its process alone: nobody tells Java
        job.communicate()
    assert commits() < 40
    add(range(2000, 2100))
    job = headrace(*words[:4], *words[6:])
    try:
        wait(job, lambda: committed() == 2100)
        job.send_signal(signal.SIGINT)
        told, wrong = job.communicate(timeout=DEADLINE_S)
    finally:
        job.kill()
        job.wait()
    assert (told, wrong) == ("", "headrace: archiving s:* was interrupted; run it again to go on\n")
    assert job.returncode == 130
    for frame in (open_archive(spark, str(lake)), every_file(spark, lake)):
        numbers = [int(row["fields"][0]["value"]) for row in frame.select("fields").collect()]
        assert sorted(numbers) == list(range(2100))


def every_file(spark: SparkSession, lake: Path):  # type: ignore[no-untyped-def]
    """Return what readers see that know nothing of Spark's log of files."""
    return spark.read.parquet(*(str(file) for file in lake.glob("key=*/date=*/*.parquet")))
