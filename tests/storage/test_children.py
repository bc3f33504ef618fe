"""What a child does for the parent: everything that takes long, its own end included."""

import os
import time
from pathlib import Path

import pytest

from headrace.storage.child import ForkedJob, Outcome
from support.patience import PATIENCE_S
from support.server_process import ServerProcess


def test_a_child_that_has_reported_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """To give back gigabytes takes a child 100 ms and more after it has said how it went."""
    options: list[int] = []
    waitpid = os.waitpid

    def noting(pid: int, how: int) -> tuple[int, int]:
        options.append(how)
        return waitpid(pid, how)

    monkeypatch.setattr(os, "waitpid", noting)
    job = ForkedJob(lambda report: report(3))
    deadline = time.monotonic() + PATIENCE_S
    outcome: Outcome | None = None
    while outcome is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
        outcome = job.poll()
    assert outcome.error == ""
    assert job.keys_done == 3
    assert set(options) == {os.WNOHANG}


def test_the_child_puts_a_snapshot_in_its_place(tmp_path: Path) -> None:
    """Not the event loop: to sync the directory may take as long as what is written beside it."""
    note = tmp_path / "who"
    program = f"""
import os
from headrace.storage import saving
place_snapshot = saving.place_snapshot
def noting(*args):
    open({str(note)!r}, "w").write(str(os.getpid()))
    place_snapshot(*args)
saving.place_snapshot = noting
from headrace.cli.main import main
main()
"""
    with ServerProcess(tmp_path, "--save", "", launcher=("-c", program)) as server, server.client() as client:
        client.set("k", "v")
        client.bgsave()
        deadline = time.monotonic() + PATIENCE_S
        while client.info("persistence")["rdb_saves"] == 0:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert (tmp_path / "dump.rdb").exists()
        assert int(note.read_text()) != client.info("server")["process_id"]
        assert client.info("stats")["total_forks"] == 1
        assert client.info("stats")["latest_fork_usec"] > 0
