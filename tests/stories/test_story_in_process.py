"""A task queue in one program: it runs empty, jobs fail, the clock is set, the program is killed, and comes back.

Every job whose `add` returned is done. A job is done twice only where a kill came between its doing and its
acknowledgement: at most one for each worker and kill.
"""

import random
import time
from collections import Counter
from pathlib import Path

import pytest

import headrace
from support.patience import PATIENCE_S
from support.stories.stage import SECONDS, Stage

STEPS_S = (-60, 60, -3600, 3600, -86_400, 86_400)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("program", "workers"), [("task_queue_threads.py", 4), ("task_queue_asyncio.py", 3)])
def test_every_job_of_a_queue_in_process_is_done(tmp_path: Path, program: str, workers: int) -> None:
    with Stage(tmp_path) as stage:
        kills = 0
        end = time.monotonic() + SECONDS
        while True:
            added, done = len(stage.lines("added")), len(stage.lines("done"))
            queue = stage.start(program, "data")
            stage.await_that(
                lambda queue=queue, added=added, done=done: (  # type: ignore[misc]
                    queue.poll() is not None
                    or (len(stage.lines("added")) > added + 50 and len(stage.lines("done")) > done + 50)
                ),
                "the queue works",
            )
            assert stage.start("second_program.py", "data").wait(PATIENCE_S) == 0
            for _ in range(random.randint(1, 3)):
                stage.clock.step(random.choice(STEPS_S))
                time.sleep(random.uniform(0.2, 1))
            if kills and time.monotonic() > end:
                break
            stage.kill(queue)
            kills += 1
        stage.stop(queue)
        assert stage.start("second_program.py", "data").wait(PATIENCE_S) == 1  # nobody has it open now
        stage.assert_nothing_was_reported()
        done_by_job = Counter(stage.lines("done"))
        added_jobs = stage.lines("added")
    with headrace.open(tmp_path / "data") as db:
        jobs = db.stream("jobs")
        stored = Counter(message["job"] for message in jobs)
        group = jobs.group("workers")
        assert (group.lag, group.pending()) == (0, [])
    assert len(set(added_jobs)) == len(added_jobs)
    assert max(stored.values()) == 1
    assert set(added_jobs) <= set(stored)
    assert set(stored) == set(done_by_job)
    assert done_by_job.total() - len(done_by_job) <= workers * kills
