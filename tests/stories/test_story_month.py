"""A month of one key by a clock that runs fast: an event an hour, seven days kept, notes for two days, four restarts.

Every event is read once, what is kept is what the last seven days brought, and a note is gone when its time is.
"""

import signal
import time
from pathlib import Path

import pytest

from support.patience import PATIENCE_S
from support.stories.stage import SECONDS, Stage

HOURS = 30 * 24
TWO_DAYS_MS = 2 * 24 * 3_600_000


@pytest.mark.timeout(900)
def test_a_month_of_one_key(tmp_path: Path) -> None:
    with Stage(tmp_path) as stage:
        stage.serve("--auto-aof-rewrite-min-size", "16kb")
        with stage.client() as client:
            client.xgroup_create("events", "readers", "0", mkstream=True)
            # An event that is sent again is recognised for a day, which is two seconds while the clock runs fast.
            client.execute_command("XCFGSET", "events", "IDMP-DURATION", 24 * 3600)
        fast = HOURS * 3600 / SECONDS
        stage.clock.run_at(fast)
        writer = stage.start("month_writer.py", str(HOURS))
        reader = stage.start("month_reader.py", str(HOURS))
        for part, how in enumerate([signal.SIGKILL, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL], 1):
            stage.await_that(lambda part=part: len(stage.lines("added")) >= part * HOURS // 5, "time goes by")  # type: ignore[misc]
            stage.clock.run_at(1)
            stage.restart(how)
            with stage.client() as client:
                stage.await_that(lambda: "cmdstat_time" in client.info("commandstats"), "the writer goes on")
            stage.clock.run_at(fast)
            if reader.poll() is None:
                stage.kill(reader)
                reader = stage.start("month_reader.py", str(HOURS))
        assert writer.wait(PATIENCE_S) == 0
        assert reader.wait(PATIENCE_S) == 0
        stage.clock.run_at(1)
        events = [line.split() for line in stage.lines("added")]
        assert [int(number) for number, _, _ in events] == list(range(HOURS))
        assert sorted(map(int, stage.lines("read"))) == list(range(HOURS))
        for _ in range(2):
            with stage.client() as client:
                last = int(events[-1][2])
                client.xtrim("events", minid=last, approximate=False)
                kept = [(fields["number"], id) for id, fields in client.xrange("events")]
                assert kept == [(number, id) for number, id, _ in events if int(id.split("-")[0]) >= last]
                assert 0 < len(kept) < HOURS
                [group] = client.xinfo_groups("events")
                assert (group["pending"], group["lag"], group["entries-read"]) == (0, 0, HOURS)
                assert client.xinfo_stream("events")["entries-added"] == HOURS
                now = client.time()[0] * 1000
                notes = {number: client.get(f"note:{number}") for number in range(HOURS)}
                for number, id, _ in events:
                    ends_ms = int(id.split("-")[0]) + TWO_DAYS_MS
                    if ends_ms > now + 60_000:
                        assert notes[int(number)] is not None, number
                assert sum(note is not None for note in notes.values()) < HOURS // 2
            stage.restart()
        stage.assert_nothing_was_reported()
        assert abs(stage.clock.time() - time.time()) > 86_400
