"""History on disk is measured: smaller here than `python -m bench.larger_than_memory` does it."""

from pathlib import Path

import pytest
from rich.console import Console

from bench import larger_than_memory


def test_appending_reading_and_starting_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(larger_than_memory, "TIMES", [2])
    monkeypatch.setattr(larger_than_memory, "ROUNDS", 1)
    monkeypatch.setattr(larger_than_memory, "PACES", [5])
    monkeypatch.setattr(larger_than_memory, "PACED_S", 1)
    monkeypatch.setattr(larger_than_memory, "redis_command", lambda: None)
    console = Console(record=True, width=140)
    larger_than_memory.pacing(console, tmp_path, 12)
    larger_than_memory.reading(console, tmp_path, 12)
    larger_than_memory.start(console, tmp_path, 12)
    told = console.export_text()
    for name in ("append", "kept", "scan, XRANGE", "random read", "group read", "dd reads", "rewrite, s"):
        assert name in told
