"""One run of a section: says what is being measured, prints what was found, and keeps it for the page.

    section ──► Run.compare(workload) ──► a line on the screen ──► build/bench/<section>.json ──► the page

The run decides how long rounds are and how many there are, so that a test can run a whole section in seconds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.status import Status

from headrace.measuring.machine import machine, versions
from headrace.measuring.numbers import shown, times
from headrace.measuring.rounds import measure
from headrace.measuring.samples import Finding
from headrace.measuring.targets import HEADRACE, Target, redis_version
from headrace.measuring.workloads import Workload

RESULTS = Path("build/bench")
PACKAGES = ("redis", "hiredis", "fakeredis", "uvloop", "pyspark", "pyarrow")

Row = dict[str, Any]


@dataclass(frozen=True)
class Scale:
    """How much is measured."""

    messages: int = 1_000_000
    rounds: int = 5
    seconds: float = 0.5
    growth: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    start_up: tuple[int, ...] = (10_000, 100_000, 1_000_000)


@dataclass
class Run:
    """What a section uses to measure, and what it found."""

    section: str
    scale: Scale = field(default_factory=Scale)
    console: Console = field(default_factory=lambda: Console(highlight=False))
    findings: list[Finding] = field(default_factory=list)
    tables: dict[str, list[Row]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.started = time.monotonic()
        self.when = time.strftime("%Y-%m-%d", time.gmtime())
        self.machine = machine()
        # It is redrawn once a second at most, because its thread takes processor time from what is measured.
        self._status = Status("", console=self.console, refresh_per_second=1)

    def told(self, what: str) -> None:
        """Say what is measured next."""
        if self.console.is_terminal:
            self._status.update(f"{self.section}: {what}")
            self._status.start()

    def compare(
        self,
        targets: Sequence[Target],
        workload: Workload,
        table: str,
        *,
        at: float | None = None,
        seconds: float = 0,
        rounds: int = 0,
    ) -> None:
        """Measure a workload on all servers, and keep what was found; at most so many rounds, where that is said."""
        found = measure(
            targets,
            workload,
            rounds=min(rounds or self.scale.rounds, self.scale.rounds),
            seconds=seconds or self.scale.seconds,
            told=self.told,
            table=table,
        )
        for finding in found:
            finding.at = at
            self.keep(finding)

    def keep(self, finding: Finding) -> None:
        """Keep a finding, and show it in a line."""
        self.findings.append(finding)
        self._status.stop()
        self.console.print(line(finding), soft_wrap=True)

    def keep_table(self, title: str, rows: list[Row]) -> None:
        """Keep a table whose rows are no comparison, and show it."""
        if not rows:
            return
        self.tables[title] = rows
        self._status.stop()
        self.console.print(title, soft_wrap=True, style="bold")
        for row in rows:
            cells = (f"{name} {cell(value)}" for name, value in row.items() if value is not None)
            self.console.print("  " + "   ".join(cells), soft_wrap=True)

    def note(self, text: str) -> None:
        """Keep a sentence, and say it."""
        self.notes.append(text)
        self._status.stop()
        self.console.print(text, soft_wrap=True, style="yellow")

    def as_json(self) -> Row:
        """Everything that the page needs."""
        return {
            "section": self.section,
            "date": self.when,
            "seconds": round(time.monotonic() - self.started, 1),
            "machine": self.machine,
            "versions": versions(*PACKAGES) | {"redis-server": redis_version() or "none here"},
            "rounds": self.scale.rounds,
            "findings": [finding.as_json() for finding in self.findings],
            "tables": self.tables,
            "notes": self.notes,
        }

    def save(self) -> Row:
        """Write what was found where the page finds it."""
        self._status.stop()
        RESULTS.mkdir(parents=True, exist_ok=True)
        results = self.as_json()
        path = RESULTS / f"{self.section}.json"
        path.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
        self.console.print(f"{self.section}: {results['seconds']:.0f} s; every round is in {path}\n", soft_wrap=True)
        return results


def cell(value: object) -> str:
    """Write a figure of a table."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, int):
        return f"{value:,}"
    return shown(value) if isinstance(value, float) else str(value)


def line(finding: Finding) -> str:
    """Say a finding in one line: the ratio to each other server, then the medians."""
    others = [who for who in finding.rounds if who != HEADRACE]
    parts = [f"  {finding.workload:58}"]
    for who in others:
        ratio = finding.ratio(HEADRACE, who)
        parts.append(f"{times(ratio.middle):>6} ({ratio.low:.2f}–{ratio.high:.2f}) of {who}" if ratio else "")
    parts += [f"{who} {shown(finding.middle(who))}" for who in finding.rounds]
    return "   ".join(parts) + f" {finding.unit}"
