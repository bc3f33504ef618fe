"""What the exactly-once campaign is made of: a producer that never gives up, and a program to kill.

    Producer ──► in:0, in:1 ──► Job: spark_job.py, a process group of its own ──► out:0, out:1, Parquet
                 the server                 driver, executors, Python workers

The producer sends an entry again, under the same idempotent ID (IDMP), until it is acknowledged, and never after that.
An entry that a server loses stays missing, and one that it has twice stays twice.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from support.campaign import LONG
from support.spark import job as spark_job
from support.spark.frames import url_of
from support.spark.queries import may_be_started_again

KEYS = ("in:0", "in:1")
PATIENCE_S = 900 if LONG else 300  # a campaign seldom has a machine to itself

# What runs tasks: Python workers, and the executors that start them where those are processes of their own.
WORKER, EXECUTOR = b"pyspark.daemon", b"CoarseGrainedExecutorBackend"
SERVER, DRIVER = b"server", b"driver"


class Producer:
    """Numbers on two streams, from 0 on, until it is stopped."""

    def __init__(self, server: redis.Redis) -> None:
        port = server.connection_pool.connection_kwargs["port"]
        self._client = redis.Redis(port=port, protocol=2, retry=Retry(NoBackoff(), 0))
        self._stopping = threading.Event()
        self.count = 0
        self._add()
        for key in KEYS:  # a campaign stands still for longer than a stream remembers its producers
            self._client.execute_command("XCFGSET", key, "IDMP-DURATION", 86_400)
        self._pool = ThreadPoolExecutor(1)
        self._running = self._pool.submit(self._run)

    def stop(self) -> None:
        """Return when everything that was begun is acknowledged; raises what went wrong."""
        self._stopping.set()
        try:
            self._running.result()
        finally:
            self._pool.shutdown()
            self._client.close()

    def _run(self) -> None:
        while not self._stopping.wait(0.01):
            self._add()

    def _add(self) -> None:
        for key in KEYS:
            deadline = time.monotonic() + PATIENCE_S
            while True:
                try:
                    self._client.execute_command("XADD", key, "IDMP", "p", self.count, "*", "n", self.count)
                    break
                except (redis.ConnectionError, redis.TimeoutError):
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.05)
        self.count += 1


class Job:
    """The copying program."""

    def __init__(self, server: redis.Redis, directory: Path, master: str) -> None:
        self._server = server
        command = [sys.executable, spark_job.__file__, url_of(server), str(directory), master]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
        self._log = directory / "job.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    def copies_something(self) -> bool:
        """Wait for entries that were not there before; False: Spark could not run its queries."""
        before = self._server.xlen("out:0")
        deadline = time.monotonic() + PATIENCE_S
        while self._server.xlen("out:0") <= before:
            if self._process.poll() is not None:
                assert may_be_started_again(self._log.read_text()), self._log.read_text()[-5000:]
                return False
            assert time.monotonic() < deadline, f"nothing was copied: {self._log.read_text()[-5000:]}"
            time.sleep(0.05)
        return True

    def kill_one(self, what: bytes, chance: random.Random) -> bool:
        """Kill one of the processes that run tasks; False where there is none at the moment."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if what in path.read_bytes() and os.getsid(int(path.parent.name)) == self._process.pid:
                    found.append(int(path.parent.name))
        if found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(found), signal.SIGKILL)
        return bool(found)

    def kill(self) -> None:
        """Kill the driver and everything else; raises where it ended before by a mistake that is not Spark's."""
        ended = self._process.poll() is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        assert not ended or may_be_started_again(self._log.read_text()), self._log.read_text()[-5000:]
