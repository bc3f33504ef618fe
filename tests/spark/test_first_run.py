"""A program as the README and docs/spark.md show it, started by its path with an empty environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import redis

from headrace.spark.errors import NoJava
from headrace.spark.java import find_java
from support.spark.frames import url_of
from support.spark.sessions import QUICK_JAVA

JOB = """\
import sys

from headrace.spark.java import prepare_java

prepare_java()
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
frame = spark.read.format("headrace").options(url=sys.argv[1], keys="s").schema("n int").load()
print([row["n"] for row in frame.collect()])
"""


def test_a_job_runs_without_activating_the_environment(headrace_server: redis.Redis, tmp_path: Path) -> None:
    try:
        find_java()
    except NoJava as missing:
        pytest.skip(str(missing))
    for number in range(3):
        headrace_server.xadd("s", {"n": number})
    (tmp_path / "job.py").write_text(JOB)
    done = subprocess.run(
        [sys.executable, "job.py", url_of(headrace_server)],
        env={"PATH": "/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1", "JDK_JAVA_OPTIONS": QUICK_JAVA},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert (done.returncode, done.stdout) == (0, "[0, 1, 2]\n"), done.stderr[-3000:]


def test_the_python_of_the_workers_is_this_one_unless_somebody_chose_another() -> None:
    program = "import headrace.spark, os; print(os.environ['PYSPARK_PYTHON'])"
    for chosen, expected in ({}, sys.executable), ({"PYSPARK_PYTHON": "python3.11"}, "python3.11"):
        bare = {"PATH": os.environ["PATH"], **chosen}
        told = subprocess.run([sys.executable, "-c", program], env=bare, capture_output=True, text=True, check=True)
        assert told.stdout.strip() == expected
