"""Ratios, floors and goals: what follows from the rounds."""

import math

import pytest

from bench.floors import FLOORS, TOLERANCE, below_floor
from bench.goals import GOALS, Goal
from headrace.measuring.numbers import short, shown, times
from headrace.measuring.samples import Figure, Finding, findings, limit


def finding(
    ours: list[float], theirs: list[float], *, unit: str = "requests/s", name: str = "XADD, pipeline 16"
) -> Finding:
    return Finding(name, unit, more_is_better=unit == "requests/s", rounds={"Headrace": ours, "redis-server": theirs})


def test_a_ratio_is_that_of_the_medians_with_its_worst_and_best_round() -> None:
    assert finding([300, 200, 900], [100, 100, 150]).ratio("Headrace", "redis-server") == (3.0, 2.0, 6.0)


def test_of_a_latency_less_is_better() -> None:
    assert finding([10.0], [15.0], unit="µs").ratio("Headrace", "redis-server") == (1.5, 1.5, 1.5)


def test_without_another_server_there_is_no_ratio() -> None:
    assert finding([10.0], []).ratio("Headrace", "redis-server") is None
    assert not below_floor(finding([10.0], []), "redis-server")


def test_findings_survive_a_file() -> None:
    samples = {"Headrace": [{"rate": 5.0, "processor": 2.0}], "redis-server": [{"rate": 4.0, "processor": 3.0}]}
    (found,) = findings("XLEN", "table", (Figure("rate"),), samples)
    assert Finding.from_json(found.as_json()) == found
    assert found.processor_ratio("Headrace", "redis-server") == 1.5


@pytest.mark.parametrize(
    ("busy", "who"),
    [
        ((0.9, 0.5, 0.0), "server"),
        ((0.5, 0.9, 0.0), "GENERATOR"),
        ((0.5, 0.5, 0.5), "OTHER WORK"),
        ((0.5, 0.5, 0.1), "round trips"),
    ],
)
def test_the_limit_is_who_had_a_core_to_itself(busy: tuple[float, float, float], who: str) -> None:
    sample = dict(zip(("server busy", "load busy", "others busy"), busy, strict=True))
    assert limit([sample]).startswith(f"{who} (")


def test_a_ratio_is_below_its_floor_only_beyond_the_noise() -> None:
    floor = FLOORS["XADD, pipeline 16"]
    assert not below_floor(finding([floor * 100], [100]), "redis-server")
    assert not below_floor(finding([floor * (1 - TOLERANCE) * 100 + 1], [100]), "redis-server")
    assert below_floor(finding([floor * (1 - TOLERANCE) * 100 - 1], [100]), "redis-server")
    assert not below_floor(finding([1], [100], name="no floor"), "redis-server")


def test_where_other_work_had_the_cores_processor_time_counts_too() -> None:
    slow = finding([50], [100])
    slow.processor = {"Headrace": [1.0], "redis-server": [3.0]}
    assert below_floor(slow, "redis-server")
    slow.limits = {"Headrace": "OTHER WORK (30/20/150)", "redis-server": "server (90/20/0)"}
    assert not below_floor(slow, "redis-server")
    slow.processor["Headrace"] = [3.0]
    assert below_floor(slow, "redis-server")


def test_a_goal_of_memory_is_a_share() -> None:
    goal = Goal("a pending entry", 0.6)
    light, heavy = finding([50], [100], unit="bytes"), finding([75], [100], unit="bytes")
    assert goal.met(light)
    assert not goal.met(heavy)
    assert math.isclose(goal.missed_by(heavy), 25)


def test_a_goal_of_speed_is_a_multiple() -> None:
    goal = Goal("XADD", 2.0)
    assert goal.met(finding([200], [100]))
    assert not goal.met(finding([150], [100]))
    assert math.isclose(goal.missed_by(finding([150], [100])), 25)
    assert goal.met(finding([150], [])) is None


def test_no_goal_is_named_twice() -> None:
    assert len({goal.workload for goal in GOALS}) == len(GOALS)


def test_numbers_have_three_digits() -> None:
    assert [shown(number) for number in (1_234_567, 412_345, 999.6, 38.123, 0.01234)] == [
        *("1.23 million", "412,000", "1,000", "38.1", "0.0123"),
    ]
    assert [short(number) for number in (10_000_000, 412_345, 1_000, 38.123)] == ["10M", "412k", "1k", "38.1"]
    assert [times(ratio) for ratio in (0.994, 24.04, 412.2)] == ["0.99×", "24.0×", "412×"]
