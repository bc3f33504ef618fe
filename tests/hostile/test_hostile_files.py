"""Files of every format, with a right checksum and wrong content: an error, or data that answers every command.

HEADRACE_LONG=1      a hundred times as many, of seeds never used before
HEADRACE_SEED=n      the file of that seed
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.campaign import LONG, SEED
from support.patience import PATIENCE_S

FILES = {"snapshot": 250, "append_file": 150, "payload": 1000, "manifest": 2000, "acl_file": 500, "configuration": 500}
TESTS = Path(__file__).parent.parent


@pytest.mark.parametrize("kind", FILES)
def test_a_hostile_file_is_refused_or_answers_every_command(kind: str, tmp_path: Path) -> None:
    first, count = (SEED, 1) if SEED is not None else (time.time_ns() // 1000 if LONG else 0, FILES[kind])
    count *= 100 if LONG and SEED is None else 1
    environment = {**os.environ, "PYTHONPATH": str(TESTS), "PYTHONFAULTHANDLER": "1"}
    ended = subprocess.run(
        [sys.executable, str(TESTS / "support" / "hostile_files.py"), kind, str(first), str(count), str(tmp_path)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
        timeout=PATIENCE_S * (60 if LONG else 2),
    )
    tried = ended.stdout.split()
    assert ended.returncode == 0, f"seed {tried[-1]}, status {ended.returncode}:\n{ended.stderr[-4000:]}"
    assert tried[-1] == "done"
