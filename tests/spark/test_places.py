"""The same pipeline gives the same answer wherever it runs: here, on a small cluster, from one server and from three.

The cluster is two executors with processes of their own, started by Spark itself or by the workers of a standalone
master. The program goes there by spark-submit and registers nothing; neither does a client of Spark Connect.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis
from pyspark.sql import SparkSession

from bench.standalone import LOOPBACK, standalone_cluster
from headrace.spark.errors import NoJava
from headrace.spark.java import prepare_java
from support.campaign import LONG
from support.server_process import ServerProcess
from support.spark import connect_client as spark_connect_client
from support.spark import pipeline as spark_pipeline
from support.spark.frames import url_of
from support.spark.sessions import QUICK_JAVA, SETTINGS


@pytest.fixture
def three_servers(tmp_path: Path) -> Iterator[list[redis.Redis]]:
    """Clients of three servers."""
    with ExitStack() as running:
        clients = []
        for place in range(3):
            directory = tmp_path / f"server{place}"
            directory.mkdir()
            server = running.enter_context(ServerProcess(directory, "--appendonly", "no"))
            clients.append(running.enter_context(redis.Redis(port=server.port)))
        yield clients


def fill(servers: list[redis.Redis]) -> None:
    """Put the same 6 streams on servers, however many."""
    for place in range(6):
        with servers[place % len(servers)].pipeline(transaction=False) as pipeline:
            for number in range(500):
                at = 1_700_000_000_000 + number * 60_000
                entry = {"sensor": f"s{(number + place) % 7}", "value": number * 37 % 100 + place / 10}
                pipeline.xadd(f"readings:{place}", entry, id=f"{at}-{place}")
            pipeline.execute()


def submit(program: str, *arguments: str, master: str, **more: str) -> None:
    """Run a program with spark-submit, with more in its environment."""
    settings = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
    command = ["spark-submit", "--master", master, *settings, "--conf", "spark.executor.memory=1g", program, *arguments]
    environment = os.environ | {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])} | more
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=540)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]  # a traceback goes to stdout


@pytest.mark.timeout(600)
@pytest.mark.skipif(not LONG, reason="a cluster of three Java processes: make test-long runs it")
def test_the_answer_is_the_same_here_on_a_cluster_and_with_three_servers(
    spark: SparkSession, headrace_server: redis.Redis, three_servers: list[redis.Redis], tmp_path: Path
) -> None:
    fill([headrace_server])
    fill(three_servers)
    places = [tmp_path / name for name in ("here", "cluster", "three")]
    for place in places:
        place.mkdir()
    urls = ",".join(map(url_of, three_servers))
    expected = spark_pipeline.run(spark, url_of(headrace_server), places[0])
    assert (len(expected["averages"]), len(expected["alarms"]), len(expected["lake"])) == (63, 300, 3000)
    submit(spark_pipeline.__file__, urls, str(places[1]), master="local-cluster[2,1,1024]")
    assert json.loads((places[1] / "answer.json").read_text()) == expected
    three_servers[0].delete("alarms")
    assert spark_pipeline.run(spark, urls, places[2]) == expected


@pytest.mark.timeout(1200)
@pytest.mark.skipif(not LONG, reason="a cluster of five Java processes: make test-long runs it")
def test_the_answer_is_the_same_on_a_standalone_cluster(
    spark: SparkSession, headrace_server: redis.Redis, tmp_path: Path
) -> None:
    fill([headrace_server])
    places = [tmp_path / name for name in ("here", "cluster", "daemons")]
    for place in places:
        place.mkdir()
    expected = spark_pipeline.run(spark, url_of(headrace_server), places[0])
    headrace_server.delete("alarms")
    with standalone_cluster(places[2]) as master:
        submit(spark_pipeline.__file__, url_of(headrace_server), str(places[1]), master=master, **LOOPBACK)
    assert json.loads((places[1] / "answer.json").read_text()) == expected
    executors = {log.parent.parent.parent.name for log in places[2].glob("work*/app-*/*/stderr")}
    assert executors == {"work0", "work1"}


@pytest.mark.timeout(600)
@pytest.mark.skipif(not LONG, reason="a server of Spark Connect and its client: make test-long runs it")
def test_a_client_of_spark_connect_reads_and_writes(headrace_server: redis.Redis, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio: pip install 'pyspark[connect]' brings it")
    for number in range(10):
        headrace_server.xadd("in", {"n": number})
    try:
        java = prepare_java()
    except NoJava as missing:
        pytest.skip(str(missing))
    command = [sys.executable, spark_connect_client.__file__, url_of(headrace_server), str(tmp_path / "checkpoint")]
    environment = os.environ | {
        "JAVA_HOME": str(java),
        "JDK_JAVA_OPTIONS": QUICK_JAVA,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
    }
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=540)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]  # a traceback goes to stdout
    assert done.stdout.splitlines()[-1] == "pyspark.sql.connect.session"
    for key in ("batched", "streamed"):
        assert [int(entry[b"n"]) for _, entry in headrace_server.xrange(key)] == list(range(10))
