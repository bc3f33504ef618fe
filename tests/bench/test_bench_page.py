"""The page is made of figures alone: goals and misses first, charts that are well-formed, tables with every row."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

from bench.page import load, read_causes, store, write_page
from bench.run import Row
from bench.sections import SECTIONS

BOTH = {"Headrace": [300.0, 310.0, 290.0], "redis-server": [200.0, 190.0, 210.0]}


def found(
    name: str, table: str, *, unit: str = "requests/s", at: float | None = None, rounds: Row | None = None
) -> Row:
    return {
        "workload": name,
        "unit": unit,
        "more_is_better": unit in {"requests/s", "messages/s"},
        "table": table,
        "at": at,
        "rounds": rounds or BOTH,
        "processor": {},
        "limits": {},
    }


def section(*findings: Row, tables: Row | None = None, notes: tuple[str, ...] = ()) -> Row:
    return {
        "date": "2026-11-15",
        "seconds": 61.0,
        "machine": {"CPU": "a <fast> one", "cores": "2"},
        "versions": {"Headrace": "0.1.0", "redis-server": "7.0.15"},
        "rounds": 3,
        "findings": list(findings),
        "tables": tables or {},
        "notes": list(notes),
    }


FIGURES: dict[str, Row] = {
    "append": section(
        found("XADD, pipeline 16, 50 clients", "XADD by clients and pipeline"),
        found("XADD, pipeline 64, 50 clients", "XADD by clients and pipeline"),
    ),
    "read": section(found("XRANGE COUNT 100", "Ranges"), found("XREAD, 1 blocked reader, p50", "Waking", unit="µs")),
    "startup": section(
        *(
            found(f"{size:,} messages, {form}", "Start-up time", unit="ms", at=size)
            for size in (1_000, 10_000)
            for form in ("commands", "a base")
        )
    ),
    "memory": section(found("a message, constant values", "Bytes a message", unit="bytes")),
    "in-process": section(
        found(
            "in process: add",
            "In process",
            unit="messages/s",
            rounds={"Headrace": [9e5], "fakeredis": [4e3], "redis-py, redis-server": [2e4]},
        )
    ),
    "growth": section(*(found(name, "Growth", unit="µs", at=at) for name in ("XADD", "XLEN") for at in (1e4, 1e5))),
    "core": section(tables={"The core": [{"operation": "append", "million/s": 3.5, "target": 3.0, "met": True}]}),
    "generator": section(
        found("Headrace: XADD", "The load generator", rounds={"headrace bench": [5.0], "redis-benchmark": [4.0]})
    ),
    "spark": section(
        tables={"Jobs of Spark": [{"what": "read: Headrace", "figure": 1.5, "goal": "≥ 2/s", "met": False}]},
        notes=("Spark was not measured twice.",),
    ),
}


def test_the_page_tells_goals_misses_and_every_finding(tmp_path: Path) -> None:
    causes = tmp_path / "causes.md"
    causes.write_text("How to keep this.\n\n## XADD, pipeline 64, 50 clients\n\nHalf of it is\nparsing.\n")
    page = write_page(FIGURES, tmp_path, causes).read_text()
    assert "4 of 8 goals are reached." in page
    assert "- **read: Headrace** (Jobs of Spark; goal ≥ 2/s): No profile was taken of it yet." in page
    assert "**XADD, pipeline 64, 50 clients** by 25 %: Half of it is parsing." in page
    assert "| XADD, pipeline 16, 50 clients | 1.50× | 1.38–1.63 | 1.50× ✓ |" in page
    assert "at most 1.00×" in page
    assert "Spark was not measured twice." in page
    for name, data in FIGURES.items():
        title = next(each.title for each in SECTIONS if each.name == name)
        assert f"## {title}\n" in page
        for finding in data["findings"]:
            assert f"| {finding['workload']} |" in page


def test_every_chart_is_there_and_well_formed(tmp_path: Path) -> None:
    page = write_page(FIGURES, tmp_path).read_text()
    charts = re.findall(r"!\[[^]]*\]\(([^)]+)\)", page)
    assert len(charts) == len(set(charts)) == 8
    for chart in charts:
        drawing = ET.fromstring((tmp_path / chart).read_text())  # noqa: S314 — ours
        assert drawing.tag.endswith("svg")
        assert "nan" not in (tmp_path / chart).read_text()


def test_headrace_alone_makes_a_page_too(tmp_path: Path) -> None:
    alone = {"Headrace": [5.0, 6.0]}
    figures = {
        name: data | {"findings": [finding | {"rounds": alone} for finding in data["findings"]]}
        for name, data in FIGURES.items()
        if name != "generator"
    }
    page = write_page(figures, tmp_path).read_text()
    assert "## Goals" not in page
    assert "| XRANGE COUNT 100 | requests/s | 5.5 ± 18 % |" in page


def test_the_same_figures_make_the_same_page(tmp_path: Path) -> None:
    path = tmp_path / "benchmarks" / "figures.json"
    store(path, FIGURES)
    assert load(path) == FIGURES == json.loads(path.read_text())
    first = write_page(FIGURES, tmp_path).read_text()
    assert write_page(load(path), tmp_path).read_text() == first


def test_causes_are_read_by_heading() -> None:
    assert all(name and text for name, text in read_causes(Path("bench/causes.md")).items())
