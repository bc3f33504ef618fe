"""The fixtures of `headrace.testing`, in a project of a stranger."""

import subprocess
import sys
from pathlib import Path

CONFTEST = 'pytest_plugins = ["headrace.testing"]\n'
TESTS = """
import headrace

def test_near(headrace_db):
    headrace_db.stream("s").add(n=1)
    assert len(headrace_db.stream("s")) == 1

def test_near_again(headrace_db):
    assert headrace_db.streams() == []

def test_far(headrace_url):
    with headrace.connect(headrace_url) as db:
        db.stream("s").add(n=1)
        assert [message["n"] for message in db.stream("s").group("g").consumer("c", timeout=0)] == ["1"]

def test_far_again(headrace_url):
    with headrace.connect(headrace_url) as db:
        assert db.streams() == []
"""


def test_a_project_gets_databases_and_servers_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "4 passed" in run.stdout, run.stdout + run.stderr
