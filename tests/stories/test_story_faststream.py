"""A task queue on FastStream: workers and the server are killed, the clock is set, the queue runs empty.

Every job that was acknowledged to its producer is done.
"""

import random
import time
from pathlib import Path

import pytest

from support.stories.stage import SECONDS, Stage

pytest.importorskip("faststream")


@pytest.mark.timeout(900)
def test_every_job_of_a_faststream_queue_is_done(tmp_path: Path) -> None:
    with Stage(tmp_path) as stage:
        stage.serve()
        with stage.client() as client:
            client.xgroup_create("jobs", "workers", "0", mkstream=True)
        producer = stage.start("faststream_producer.py", "p0")
        workers = [stage.start("faststream_worker.py", f"w{n}") for n in range(2)]
        end = time.monotonic() + SECONDS
        turn = 0
        while turn < 4 or time.monotonic() < end:
            started = {f"w{n}" for n in range(2 + turn // 3)}
            stage.await_that(lambda started=started: started <= set(stage.lines("ready")), "the workers are there")  # type: ignore[misc]
            before = len(stage.lines("done"))
            stage.await_that(lambda before=before: len(stage.lines("done")) > before + 10, "jobs are done")  # type: ignore[misc]
            match turn % 3:
                case 0:
                    stage.restart()
                case 1:
                    stage.clock.step(random.choice([-60, 60]))
                case 2:
                    stage.kill(workers.pop(0))
                    workers.append(stage.start("faststream_worker.py", f"w{2 + turn // 3}"))
            turn += 1
        stage.stop(producer)
        with stage.client() as client:
            stage.await_that(
                lambda: (
                    client.xinfo_groups("jobs")[0]["lag"] == 0 and client.xpending("jobs", "workers")["pending"] == 0
                ),
                "nothing is left",
            )
            length = client.xlen("jobs")
        stage.assert_nothing_was_reported()
        added, done = stage.lines("added"), set(stage.lines("done"))
        assert set(added) <= done
        assert len(set(added)) <= length
