"""The model of docs/scaling.md: what a rate takes follows from what a message costs, and the page shows just that."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from bench.scaling import RATES, table_of_plans
from bench.scaling_model import MEASURED, USED, Costs, Machine, plan

PAGE = Path(__file__).parents[2] / "docs" / "scaling.md"
COSTS = Costs(
    append_us=1.0,
    feed_us=0.5,
    repeat_us=1.0,
    serve_us=0.25,
    read_us=2.0,
    archive_us=8.0,
    append_bytes=100,
    effect_bytes=100,
    serve_bytes=25,
    memory_bytes=20,
    archive_bytes=5,
)


def test_servers_and_cores_follow_from_what_a_message_costs() -> None:
    found = plan(1_000_000, COSTS)
    assert found.first_limit == "loop"
    assert found.limits["loop"] == pytest.approx(USED * 1e6 / (1.0 + 0.5 + 2 * 0.25))
    assert (found.servers, found.replicas, found.cores, found.partitions) == (4, 4, 20, 20)
    assert found.network_bytes == 250_000 * (100 + 2 * 25)
    assert found.disk_bytes == 250_000 * 100
    assert found.hot_seconds == USED * 64e9 / (250_000 * 20)
    assert found.archive_bytes == 1_000_000 * 86_400 * 5


def test_whatever_is_short_says_how_many_servers_it_takes() -> None:
    slow_disk, slow_network = Machine(disk_bytes=1e6), Machine(network_bytes=1e6)
    assert (plan(1_000_000, COSTS, slow_disk).first_limit, plan(1_000_000, COSTS, slow_disk).servers) == ("disk", 200)
    narrow = plan(1_000_000, COSTS, slow_network)
    assert (narrow.first_limit, narrow.servers) == ("network", 300)
    assert plan(1_000_000, COSTS, replicas=0).servers == 3
    assert plan(1_000_000, COSTS, replicas=2).replicas == 10
    assert plan(1_000_000, COSTS, readers=1).cores == 16


@pytest.mark.parametrize("rate", RATES)
def test_every_server_has_as_many_streams_and_every_core_one_to_read(rate: int) -> None:
    for costs in (COSTS, MEASURED, replace(COSTS, append_us=20.0)):
        found = plan(rate, costs)
        assert found.partitions % found.servers == 0
        assert found.partitions >= max(found.cores, found.servers)


def test_the_page_has_the_constants_and_what_the_model_makes_of_them() -> None:
    page = PAGE.read_text()
    for name, value in vars(MEASURED).items():
        assert re.search(rf"^\| `{name}` \| {value:g} \|", page, re.MULTILINE), name
    for rate in RATES:
        found = plan(rate, MEASURED)
        figures = rate, found.servers, found.replicas, found.cores, found.partitions
        assert "| " + " | ".join(f"{figure:,}" for figure in figures) + " |" in page, rate
    console = Console(record=True, width=140)
    console.print(table_of_plans(MEASURED))
    assert f"{plan(RATES[-1], MEASURED).servers:,}" in console.export_text()
