"""A dashboard that polls while producers and workers run, the server is killed, and the clock is set.

What it is told fits together at every look, and counters never go down.
"""

import random
import signal
import time
from pathlib import Path

import pytest

from support.stories.stage import SECONDS, Stage


@pytest.mark.timeout(900)
def test_what_a_dashboard_shows_fits_together(tmp_path: Path) -> None:
    with Stage(tmp_path) as stage:
        stage.serve()
        with stage.client() as client:
            client.xgroup_create("jobs", "workers", "0", mkstream=True)
        programs = [
            stage.start("dashboard.py"),
            stage.start("queue_producer.py", "p0"),
            stage.start("queue_worker.py", "w0"),
            stage.start("queue_worker.py", "w1"),
        ]
        end = time.monotonic() + SECONDS
        turn = 0
        while time.monotonic() < end or turn < 3:
            polls = len(stage.lines("polls"))
            stage.await_that(lambda polls=polls: len(stage.lines("polls")) > polls + 10, "somebody polls")  # type: ignore[misc]
            if turn % 3 == 0:
                stage.restart(random.choice([signal.SIGKILL, signal.SIGTERM]))
            else:
                stage.clock.step(random.choice([-60, 60]))
            turn += 1
        for program in programs:
            stage.stop(program)
        stage.assert_nothing_was_reported()
        assert stage.lines("doubts") == []
        assert set(stage.lines("added")) >= set(stage.lines("done"))
