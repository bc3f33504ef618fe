"""A standalone cluster on the loopback: a master and some workers, each a process of Spark's own.

Master ◄─── Worker ──► executor ──► Python workers
   ▲  └──── Worker ──► executor ──► Python workers
   └─────── whoever names spark://127.0.0.1:port as its master
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from headrace.measuring.targets import free_port
from headrace.spark.java import prepare_java

PATIENCE_S = 300
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# Everything listens on the loopback, also the driver of whoever runs a program there.
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1"}


@contextmanager
def standalone_cluster(directory: Path, workers: int = 2, memory: str = "1g") -> Iterator[str]:
    """Run a cluster of workers of one core each, with its files in a directory; give its url; raises NoJava."""
    environment = os.environ | LOOPBACK
    environment |= {
        "JAVA_HOME": str(prepare_java()),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JAVA,
        "PYSPARK_PYTHON": sys.executable,
        # Executors inherit it: they import the sources and the tests as this process does.
        "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
    }
    port, page = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    place = ("--host", "127.0.0.1")
    with ExitStack() as running:

        def start(role: str, *words: str) -> None:
            launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
            command = [str(launcher), f"org.apache.spark.deploy.{role}", *place, *words]
            log = running.enter_context((directory / f"{role}.log").open("ab"))
            process = subprocess.Popen(command, env=environment, cwd=directory, stdout=log, stderr=log)
            running.callback(process.wait)
            running.callback(process.kill)

        start("master.Master", "--port", str(port), "--webui-port", str(page))
        for number in range(workers):
            room = ("--cores", "1", "--memory", memory, "--work-dir", str(directory / f"work{number}"))
            start("worker.Worker", *room, "--webui-port", "0", master)
        _await_workers(page, directory, workers)
        yield master


def _await_workers(page: int, directory: Path, workers: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    alive = 0
    while alive < workers:
        told = "".join(log.read_text(errors="replace")[-2000:] for log in directory.glob("*.log"))
        if time.monotonic() > deadline:
            raise TimeoutError(f"{alive} of {workers} workers are there:\n{told}")
        time.sleep(0.2)
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=60) as reply:
                alive = json.load(reply)["aliveworkers"]
        except OSError:
            continue
