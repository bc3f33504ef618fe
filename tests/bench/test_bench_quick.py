"""`make bench-quick`: a line a workload, and an exit code that a merge can depend on."""

import io
from contextlib import nullcontext

import pytest
from rich.console import Console

from bench import quick as quick_module
from bench.floors import FLOORS
from bench.quick import in_memory, on_disk, quick
from headrace.measuring.samples import Finding
from headrace.measuring.targets import Target
from headrace.measuring.workloads import Streams


def test_every_floor_belongs_to_a_workload() -> None:
    workloads = [*in_memory(Streams(quick_module.MESSAGES)), on_disk("always"), on_disk("everysec")]
    names = {workload.name + figure.suffix for workload in workloads for figure in workload.figures} | {
        "in process: add"
    }
    assert set(FLOORS) <= names


@pytest.mark.parametrize(
    ("rounds", "code", "attempts"), [([500.0, 500.0], 0, 1), ([1.0, 500.0], 0, 2), ([1.0, 1.0], 1, 2)]
)
def test_what_is_below_its_floor_is_measured_again_before_it_counts(
    monkeypatch: pytest.MonkeyPatch, rounds: list[float], code: int, attempts: int
) -> None:
    lengths: list[float] = []

    def again(seconds: float) -> Finding:
        lengths.append(seconds)
        ours = rounds[len(lengths) - 1]
        sides = {"Headrace": [ours], "redis-server": [100.0]}
        return Finding("XADD, pipeline 16", "requests/s", more_is_better=True, rounds=sides)

    monkeypatch.setattr(quick_module, "measurements", lambda *_: [("redis-server", again)])
    monkeypatch.setattr(quick_module, "redis_command", lambda: ["redis-server"])
    shown = io.StringIO()
    assert quick(Console(file=shown, width=200), seconds=1.0) == code
    assert lengths == [1.0, 3.0][:attempts]
    assert ("Below the floor: XADD, pipeline 16." in shown.getvalue()) is bool(code)


def test_every_workload_gets_a_line(monkeypatch: pytest.MonkeyPatch, targets: list[Target]) -> None:
    monkeypatch.setattr(quick_module, "private_headrace", lambda *_: nullcontext(targets[0]))
    monkeypatch.setattr(quick_module, "private_redis", lambda *_: nullcontext(targets[1]))
    monkeypatch.setattr(quick_module, "fresh", lambda measure, *arguments: measure(*arguments))
    shown = io.StringIO()
    # So short a run proves nothing about speed: the code may be either.
    assert quick(Console(file=shown, width=300), messages=2_000, rounds=1, seconds=0.01) in {0, 1}
    for name in FLOORS:
        assert name.replace("200,000", "2,000") in shown.getvalue()
