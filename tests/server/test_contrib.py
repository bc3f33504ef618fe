"""contrib/: a dashboard and alert rules name only metrics that there are; the unit is one of Type=notify."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRIB = ROOT / "contrib"
METRIC = re.compile(r"\b((?:redis|headrace)_[a-z_]+)\b")
PARTS = re.compile("_(bucket|sum|count)$")


def exposed() -> set[str]:
    """Return the names of all metrics, as the modules that make them have them."""
    sources = (ROOT / "src/headrace/server/metrics").glob("*.py")
    return {name for source in sources for name in METRIC.findall(source.read_text())}


@pytest.mark.parametrize("path", ["grafana/headrace.json", "prometheus/alerts.yml"])
def test_what_is_watched_is_measured(path: str) -> None:
    named = {PARTS.sub("", name) for name in METRIC.findall((CONTRIB / path).read_text())}
    assert len(named) > 10
    assert named <= exposed()


def test_every_alert_says_why_it_is_one() -> None:
    rules = (CONTRIB / "prometheus/alerts.yml").read_text().split("- alert: ")[1:]
    assert len(rules) >= 10
    for rule in rules:
        assert all(f"{word}: " in rule for word in ("expr", "severity", "summary", "reason")), rule


def test_every_panel_says_what_it_shows() -> None:
    board = json.loads((CONTRIB / "grafana/headrace.json").read_text())
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert len(panels) >= 15
    assert all(panel["description"] and panel["targets"] for panel in panels)
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_the_unit_waits_for_the_data_and_watches_the_loop() -> None:
    unit = (CONTRIB / "systemd/headrace.service").read_text()
    for line in ("Type=notify", "WatchdogSec=30", "Restart=always"):
        assert f"\n{line}\n" in unit
    assert "--supervised systemd" in unit
