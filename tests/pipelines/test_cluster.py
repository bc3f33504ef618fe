"""`headrace pipeline … --master` on clusters of this machine: what comes out is what comes out here."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import redis

from bench.standalone import LOOPBACK, standalone_cluster
from support import pipeline_commands
from support.campaign import LONG
from support.nasty_streams import fill
from support.spark.sessions import QUICK_JAVA

PATIENCE_S = 600

pytestmark = [
    pytest.mark.skipif(not LONG, reason="clusters of several Java processes: make test-long runs them"),
    pytest.mark.timeout(1800),
]


def environment() -> dict[str, str]:
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    ours = {"PYTHONPATH": paths, "JAVA_TOOL_OPTIONS": QUICK_JAVA, "PYSPARK_PYTHON": sys.executable}
    return os.environ | LOOPBACK | ours


def test_every_job_on_a_standalone_cluster(headrace_server: redis.Redis, url: str, tmp_path: Path) -> None:
    fill(headrace_server)
    rows = [f"{number + 1}-{number},d{number % 3},{number / 8:.3f}\n" for number in range(300)]
    (tmp_path / "in.csv").write_text("id,device,temp\n" + "".join(reversed(rows)))
    lake, page = str(tmp_path / "lake"), str(tmp_path / "page.html")
    sql = "SELECT _key AS device, count(*) AS many, max(temp) AS most FROM readings GROUP BY _key ORDER BY _key"
    commands = [
        ["load", str(tmp_path / "in.csv"), "--key-column", "device", "--id-column", "id"],
        ["archive", "*", lake, "--max-entries", "200"],
        ["replay", lake, "--prefix", "again:"],
        ["audit", lake, "--whole", "--keys", "d*,plain"],
        ["transform", sql, "--stream", "readings=d?", "--schema", "readings=temp double", "--key", "most"],
        ["report", "d?", page],
    ]
    (tmp_path / "daemons").mkdir()
    with standalone_cluster(tmp_path / "daemons") as master:
        done = subprocess.run(
            [sys.executable, pipeline_commands.__file__, master],
            input=json.dumps([[*words, "--url", url] for words in commands]),
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S * 2,
        )
    # spark-submit sends what a Python program says, errors included, to its standard output.
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    results = json.loads(done.stdout)
    assert [code for code, _ in results] == [0] * len(commands), results
    told = [said.strip() for _, said in results]
    assert told[0].startswith("Loaded 300 entries from ")
    assert told[1] == f"Archived {300 + 403} entries in {lake}."
    assert told[2] == "Replayed 703 entries to 8 streams."
    assert told[3].startswith("Equal: 500 entries in ")
    assert told[4:] == ["Wrote 3 rows to most.", f"Wrote {page}: 300 entries of 3 streams."]
    for key in (b"d0", b"d1", b"d2", b"plain", b"a,b*[x]\\", b"k\xff:/", b""):
        assert headrace_server.xrange(b"again:" + key) == headrace_server.xrange(key), key
    most = [tuple(entry.values()) for _, entry in headrace_server.xrange("most")]
    assert most == [(b"d0", b"100", b"37.125"), (b"d1", b"100", b"37.25"), (b"d2", b"100", b"37.375")]


def test_an_archive_goes_on_and_trims_on_executors_until_it_is_ended(
    headrace_server: redis.Redis, url: str, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    words = ["archive", "s:*", str(lake), "--continuous", "--every", "1 second", "--trim"]
    words += ["--url", url, "--master", "local-cluster[2,1,1024]"]
    job = subprocess.Popen(
        [sys.executable, "-m", "headrace.cli.main", "pipeline", *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, "the archive does not go on"
            assert job.poll() is None, job.communicate()
            time.sleep(0.1)

    try:
        for step in range(3):
            with headrace_server.pipeline(transaction=True) as pipeline:
                for number in range(step * 100, step * 100 + 100):
                    pipeline.xadd(f"s:{number % 2}", {"n": number})
                pipeline.execute()
            wait(lambda: headrace_server.xlen("s:0") == headrace_server.xlen("s:1") == 0)
        job.send_signal(signal.SIGTERM)
        told, wrong = job.communicate(timeout=PATIENCE_S)
    finally:
        job.kill()
        job.wait()
    assert (told, wrong) == ("", "headrace: archiving s:* was ended; run it again to go on\n")
    assert job.returncode == 143
    deadline = time.monotonic() + PATIENCE_S
    while left := processes_of(job.pid):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    files = [str(file) for file in lake.glob("key=*/date=*/*.parquet")]
    numbers = [int(fields[0]["value"]) for file in files for fields in pq.read_table(file)["fields"].to_pylist()]
    assert sorted(numbers) == list(range(300))


def processes_of(session: int) -> list[str]:
    """Return the command lines of what a job started and left behind."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(path.name)) == session and (line := (path / "cmdline").read_bytes()):
                found.append(line[:200].decode(errors="replace"))
        except OSError:
            continue
    return found
