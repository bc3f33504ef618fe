"""Every section of `make bench` runs, at a scale of milliseconds, and fills its tables."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from bench import core_rates, durable, embedded, generator, growth, memory, serving, startup
from bench import servers as servers_module
from bench.goals import GOALS
from bench.page import write_page
from bench.run import Run, Scale
from bench.sections import BY_NAME, SECTIONS
from headrace.measuring.targets import HEADRACE, REDIS, Target

TINY = Scale(messages=2_000, rounds=1, seconds=0.01, growth=(500, 1_000), start_up=(500,))
_RUNS: dict[str, Run] = {}
"""What several tests look at is run once."""


@pytest.fixture
def run_section(targets: list[Target], monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Run]:
    """Run a section on servers that run already, in this process."""

    @contextmanager
    def servers(_run: Run, _settings: tuple[str, ...] = ()) -> Iterator[list[Target]]:
        for target in targets:
            target.client.flushall()
        yield targets

    for module in (serving, memory, growth, generator):
        monkeypatch.setattr(module, "servers", servers)
    for module in (memory, core_rates):
        monkeypatch.setattr(module, "fresh", lambda measure, *arguments: measure(*arguments))
    monkeypatch.setattr(core_rates, "ENTRIES", 1_000)
    monkeypatch.setattr(core_rates, "ROUNDS", 1)

    def run(name: str) -> Run:
        if name not in _RUNS:
            _RUNS[name] = Run(name, TINY, Console(file=io.StringIO()))
            BY_NAME[name].measure(_RUNS[name])
        return _RUNS[name]

    return run


@pytest.mark.parametrize("name", ["append", "read", "groups", "manage", "memory", "growth"])
def test_a_section_compares_both_servers(name: str, run_section: Callable[[str], Run]) -> None:
    run = run_section(name)
    assert run.findings
    for finding in run.findings:
        assert {HEADRACE, REDIS} <= set(finding.rounds)
        if "resident" not in finding.workload:  # so few messages need no new pages
            assert all(min(rounds) > 0 for rounds in finding.rounds.values()), finding.workload


def test_every_goal_of_these_sections_is_measured(run_section: Callable[[str], Run]) -> None:
    names = {
        finding.workload for name in ("append", "read", "groups", "memory") for finding in run_section(name).findings
    }
    elsewhere = ("always: ", "everysec: ", "in process: ")
    assert [
        goal.workload for goal in GOALS if not goal.workload.startswith(elsewhere) and goal.workload not in names
    ] == []


def test_the_generator_is_compared_with_redis_benchmark(run_section: Callable[[str], Run]) -> None:
    run = run_section("generator")
    assert len(run.findings) == 8 or run.notes


def test_the_core_is_measured_without_a_server(run_section: Callable[[str], Run]) -> None:
    (rows,) = run_section("core").tables.values()
    assert all(row["million/s"] > 0 for row in rows)


def test_writing_to_disk_is_measured() -> None:
    run = Run("durable", TINY, Console(file=io.StringIO()))
    durable.durable(run)
    assert [finding.workload for finding in run.findings if finding.workload.startswith("always")]
    assert len(run.tables) == 1


def test_starts_are_measured() -> None:
    run = Run("startup", TINY, Console(file=io.StringIO()))
    startup.start_up(run)
    assert [finding.at for finding in run.findings] == [0, 500, 500]


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("who", [HEADRACE, embedded.CLIENT, embedded.FAKEREDIS, embedded.SERVER])
def test_in_process_use_is_measured(number: int, who: str, targets: list[Target]) -> None:
    if who == embedded.FAKEREDIS:
        pytest.importorskip("fakeredis")
    port = int(targets[1].client.connection_pool.connection_kwargs["port"])
    assert embedded.measure(number, who, port, 0.0) > 0


def test_a_run_becomes_a_page(run_section: Callable[[str], Run], tmp_path: Path) -> None:
    figures = {name: run_section(name).as_json() for name in ("manage", "growth")}
    page = write_page(figures, tmp_path).read_text()
    assert "XINFO STREAM" in page
    assert len(SECTIONS) == len(BY_NAME)


def test_without_a_redis_server_headrace_is_measured_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(servers_module, "redis_command", lambda: None)
    run = Run("groups", TINY, Console(file=io.StringIO()))
    serving.groups(run)
    assert run.notes == [servers_module.ALONE]
    assert all(set(finding.rounds) == {HEADRACE} for finding in run.findings)
    assert servers_module.ALONE in write_page({"groups": run.as_json()}, tmp_path).read_text()
