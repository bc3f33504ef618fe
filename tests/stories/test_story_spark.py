"""An ingestion into Parquet, as docs/pipelines.md describes it, over days that go wrong.

    producers ─► events ─► headrace pipeline archive --continuous --trim ─► lake ─► pyarrow

    1. a producer sends in bursts, the server is killed under both and comes back, then nothing comes for a while
    2. somebody deletes the stream and fills it again, from earlier IDs on
    3. and again, with the very same IDs
    4. the archive falls behind, and the stream is deleted under it: the archive ends and names what is lost
    5. it goes on with --allow-loss from the stream that is there by then (HEADRACE_LONG=1: another Spark, 20 s)

In the end every number is in the lake once, or was counted as lost.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.dataset as pads
import pytest
import redis

from support.campaign import LONG
from support.ports import free_port
from support.spark.host import SparkHost
from support.spark.sessions import QUICK_JAVA, workers_path
from support.starting import wait_for

PRODUCER = Path(__file__).parent / "programs" / "ingest_producer.py"
PATIENCE_S = 900  # which only a fault reaches, however busy the machine is
ROUNDS = 10 if LONG else 1
BATCH = 40


class Ingestion:
    """The server, the programs around it, and what they wrote."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        self.client = redis.Redis(port=self.port)
        self.url = f"redis://127.0.0.1:{self.port}"
        self.produced = 0
        self._running: list[subprocess.Popen[str]] = []
        (directory / "data").mkdir()
        self._server = self._serve()

    def _serve(self) -> subprocess.Popen[str]:
        server = self.start("serve", "--port", str(self.port), "--dir", "data")
        wait_for(server, self.client)  # type: ignore[arg-type]
        return server

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start `headrace`."""
        environment = os.environ | {"JAVA_TOOL_OPTIONS": QUICK_JAVA, "PYTHONPATH": workers_path()}
        said = (self.directory / f"{words[0]}.err").open("a")
        with said:
            self._running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "headrace.cli.main", *words],
                    cwd=self.directory,
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=said,
                    text=True,
                )
            )
        return self._running[-1]

    def restart(self) -> None:
        """Kill the server and start it again."""
        self._server.kill()
        self._server.wait()
        self._server = self._serve()

    def produce(self, count: int, *first_id: int) -> subprocess.Popen[str]:
        """Start a producer of the next numbers."""
        words = [self.port, "events", self.produced, count, *first_id]
        self.produced += count
        self._running.append(subprocess.Popen([sys.executable, str(PRODUCER), *map(str, words)], text=True))
        return self._running[-1]

    def produce_all(self, count: int, *first_id: int) -> None:
        """Produce, and wait until all of it is acknowledged."""
        assert self.produce(count, *first_id).wait(PATIENCE_S) == 0

    def said(self) -> str:
        """What the archive has said on its standard error."""
        return (self.directory / "pipeline.err").read_text()

    def until(self, happened: Callable[[], bool], archive: subprocess.Popen[str]) -> None:
        """Wait for something that happens while the archive runs."""
        deadline = time.monotonic() + PATIENCE_S
        while not happened():
            assert archive.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.1)

    def archived(self) -> list[int]:
        """Return the numbers in the lake, as somebody reads it who has no Spark."""
        table = pads.dataset(self.directory / "lake", format="parquet").to_table(columns=["fields"])
        return sorted(int(fields[0]["value"]) for fields in table.column("fields").to_pylist())

    def close(self) -> None:
        """End everything."""
        for process in self._running:
            process.kill()
            process.wait()


@pytest.fixture
def ingestion(tmp_path: Path) -> Iterator[Ingestion]:
    """A server with nothing in it."""
    running = Ingestion(tmp_path)
    yield running
    running.close()


@pytest.mark.timeout(3 * PATIENCE_S)
def test_every_message_is_in_the_lake_once_or_counted_as_lost(ingestion: Ingestion) -> None:
    pytest.importorskip("pyspark", reason="there is no pyspark: pip install 'headrace[spark]' brings it")
    client = ingestion.client
    words = ("events", "lake", "--url", ingestion.url, "--trim")
    archive = ingestion.start(
        *("pipeline", "archive", *words, "--continuous", "--every", "1 second", "--max-entries", str(BATCH))
    )

    def all_archived() -> bool:
        return bool(client.xlen("events") == 0)

    for _ in range(ROUNDS):
        # 1. In bursts, with a server that is killed; then nothing comes.
        producer = ingestion.produce(3 * BATCH)
        ingestion.until(lambda: client.exists("events") == 1, archive)
        ingestion.restart()
        assert producer.wait(PATIENCE_S) == 0
        ingestion.until(all_archived, archive)
        time.sleep(2)
        # 2. and 3. Filled again from earlier IDs on, and once more with those very IDs.
        for _ in range(2):
            client.delete("events")
            ingestion.produce_all(BATCH + 20, 1)
            ingestion.until(all_archived, archive)
        client.delete("events")
    assert "the stream 'events', read up to " in ingestion.said()
    assert "deleted and made anew, and is read from its beginning" in ingestion.said()

    # 4. Deleted while the archive is behind; it has planned a batch since the last entry came, and knows of all.
    ingestion.produce_all(8 * BATCH, 1)
    for _ in range(2):
        length = client.xlen("events")
        ingestion.until(lambda before=length: client.xlen("events") < before, archive)  # type: ignore[misc]
    client.delete("events")
    assert archive.wait(PATIENCE_S) == 1, ingestion.said()
    last_words = ingestion.said().splitlines()[-1]
    assert "entries were deleted with stream 'events'" in last_words
    assert "before the query had read them" in last_words
    archived = ingestion.archived()
    assert len(archived) == len(set(archived)), "nothing is archived twice"
    lost = ingestion.produced - len(archived)
    assert f": {lost} entries were deleted" in last_words, "what is not archived is counted as lost"
    if not LONG:
        return

    # 5. What is there by then.
    ingestion.produce_all(30)
    host = SparkHost(ingestion.directory)
    try:
        code, output = host.run(["pipeline", "archive", *words, "--allow-loss", "--json"], {})
        assert code == 0, output
        done = json.loads(output[output.index("{") :])
        assert sum(fate["lost"] for fate in done["fates"]) == lost
        archived = ingestion.archived()
        assert len(archived) == len(set(archived)), "nothing is archived twice"
        assert set(range(ingestion.produced - 30, ingestion.produced)) <= set(archived)
        assert 0 < lost == ingestion.produced - len(archived), "what is not archived is counted as lost"
        code, output = host.run(["pipeline", "audit", "lake", "--url", ingestion.url], {})
        assert code == 3
        assert f"events: {lost} entries gone before they were archived" in output
        assert "Incomplete: the archive lacks what the streams had" in output
    finally:
        host.close()
