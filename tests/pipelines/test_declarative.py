"""The Spark Declarative Pipeline of the examples: streams to a table, to a view of it, and to a stream, each once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import redis

from bench.standalone import LOOPBACK
from headrace.spark.errors import NoJava
from headrace.spark.java import prepare_java
from support.campaign import LONG
from support.spark.sessions import QUICK_JAVA

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarative"
ATTEMPTS = 3
PATIENCE_S = 900


def run_pipeline(directory: Path) -> None:
    """Run it where its catalog is; Spark gives a Python source 10 s to start, which is not always enough."""
    command = ["spark-pipelines", "run", "--spec", str(directory / "spark-pipeline.yml")]
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    command += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    environment = os.environ | LOOPBACK
    environment |= {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
        "PYSPARK_PYTHON": sys.executable,
        "JDK_JAVA_OPTIONS": QUICK_JAVA,
    }
    for _ in range(ATTEMPTS):
        done = subprocess.run(
            command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        if done.returncode == 0:
            return
        assert "failed to connect back" in done.stdout + done.stderr, done.stderr[-5000:]
    pytest.fail(f"Spark could not run the pipeline in {ATTEMPTS} attempts")


@pytest.mark.timeout(7200)
@pytest.mark.skipif(not LONG, reason="two Sparks of its own: make test-long runs it")
def test_each_run_takes_what_came_since_the_last(headrace_server: redis.Redis, url: str, tmp_path: Path) -> None:
    pytest.importorskip("yaml", reason="spark-pipelines needs PyYAML: pip install 'pyspark[pipelines]' brings it")
    try:
        prepare_java()
    except NoJava as missing:
        pytest.skip(str(missing))
    shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
    spec = tmp_path / "spark-pipeline.yml"
    text = spec.read_text().replace("file:///srv/checkpoints/readings", f"file://{tmp_path}/storage")
    spec.write_text(text.replace("redis://127.0.0.1:6379", url))

    def add(temperatures: range) -> None:
        for temperature in temperatures:
            headrace_server.xadd(f"sensor:{temperature % 3}", {"temp": temperature})

    def alarms() -> list[tuple[float, bytes]]:
        return sorted((float(entry[b"temp"]), entry[b"sensor"]) for _, entry in headrace_server.xrange("alarms"))

    def table(name: str) -> list[tuple[object, ...]]:
        files = (tmp_path / "warehouse" / name).glob("*.parquet")
        return sorted(tuple(row.values()) for file in files for row in pq.read_table(file).to_pylist())

    add(range(36))
    run_pipeline(tmp_path)
    assert alarms() == [(float(number), b"sensor:%d" % (number % 3)) for number in range(30, 36)]
    add(range(36, 39))
    run_pipeline(tmp_path)
    assert alarms() == [(float(number), b"sensor:%d" % (number % 3)) for number in range(30, 39)]
    assert sorted(row[2] for row in table("readings")) == [float(number) for number in range(39)]  # type: ignore[type-var]
    assert table("averages") == [("sensor:0", 13, 18.0), ("sensor:1", 13, 19.0), ("sensor:2", 13, 20.0)]
