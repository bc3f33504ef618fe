"""A task queue of processes around a server: workers and server are killed, the clock is set, the queue runs empty.

Every job that was acknowledged to its producer is in the stream once, and is done.
"""

import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from support.stories.stage import SECONDS, Stage


@pytest.mark.timeout(900)
def test_every_job_of_a_queue_of_processes_is_done(tmp_path: Path) -> None:
    with Stage(tmp_path) as stage:
        stage.serve()
        producers = [stage.start("queue_producer.py", f"p{n}") for n in range(2)]
        workers = [stage.start("queue_worker.py", f"w{n}") for n in range(3)]
        end = time.monotonic() + SECONDS
        turn = ahead = 0
        while turn < 4 or time.monotonic() < end:
            before = len(stage.lines("done"))
            stage.await_that(lambda before=before: len(stage.lines("done")) > before + 20, "jobs are done")  # type: ignore[misc]
            match turn % 4:
                case 0:
                    stage.restart(signal.SIGKILL)
                case 1:
                    stage.kill(workers.pop(0))
                    workers.append(stage.start("queue_worker.py", f"w{turn + 3}"))
                case 2:
                    step = random.choice([-60, 60])
                    stage.clock.step(step)
                    ahead += step
                case 3:
                    stage.restart(signal.SIGTERM)
            turn += 1
        stage.clock.step(max(-ahead, 0))  # else what a killed worker had is idle only when the clock has caught up
        for producer in producers:
            stage.stop(producer)
        with stage.client() as client:
            stage.await_that(
                lambda: (
                    client.xinfo_groups("jobs")[0]["lag"] == 0 and client.xpending("jobs", "workers")["pending"] == 0
                ),
                "nothing is left",
            )
            stored = Counter(fields["job"] for _, fields in client.xrange("jobs"))
        for worker in workers:
            stage.stop(worker)
        stage.assert_nothing_was_reported()
        added, done = stage.lines("added"), stage.lines("done")
        assert max(stored.values()) == 1
        assert set(added) == set(stored) == set(done)
