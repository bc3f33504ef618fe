"""docs/benchmarks.md, made of the figures of a run: goals and misses first, then section by section, then the machine.

    build/bench/*.json ──► docs/benchmarks/figures.json ──► docs/benchmarks.md and docs/benchmarks/*.svg

The figures are kept beside the page, so that it can be written again without measuring again; what a profile shows
as the cause of a miss is kept by hand in bench/causes.md, and what was found by the other programs of bench/ in
replication.md, larger_than_memory.md, queues.md and structures.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from bench.goals import BY_WORKLOAD, GOALS, is_share
from bench.run import Row, cell
from bench.sections import SECTIONS, Section
from bench.tables import figure_table, goal_cell, growth_table, markdown, others, plain_table, ratio_table
from headrace.measuring.charts import Panel, RatioRow, bars, lines, ratios
from headrace.measuring.numbers import times
from headrace.measuring.samples import Finding
from headrace.measuring.targets import HEADRACE, REDIS

CAUSES = Path(__file__).with_name("causes.md")
REPLICATION = Path(__file__).with_name("replication.md")
LARGER = Path(__file__).with_name("larger_than_memory.md")
QUEUES = Path(__file__).with_name("queues.md")
STRUCTURES = Path(__file__).with_name("structures.md")
DOCS = Path("docs")
CHARTS = "benchmarks"
BARS = {"append", "durable", "memory", "in-process"}
WIDE = 40.0  # where the largest figure of a chart is so many times the smallest, its axis is logarithmic

INTRODUCTION = """# Benchmarks

Headrace beside redis-server, fakeredis and redis-py, all measured in one run on one machine by `make bench`, which
wrote this page. Rounds alternate between the servers, figures are medians, and each ratio has the ratios of its worst
and its best round beside it. Above 1×, Headrace is better, whether the figure is a rate or a latency. For memory,
the ratio is the share that Headrace takes, and less is better. A goal that is missed is marked, with by how much.

The figures are those of Headrace {version}. A later version has its own when `make bench` has measured it.
"""

REPEATING = """Measured on {dates} in {minutes:.0f} minutes. Both servers have their default settings, besides that
nothing is written to disk unless the section says so. One generator sends everything, that of `headrace bench`: one
thread, prepared requests, replies counted by their form. "What limited" says who had a core to itself meanwhile, in
brackets the percentage of a core that the server, the generator and everybody else had. Where that is not the server,
look at "processor": how many times less processor time Headrace took for a request.

<!-- not run: it would measure for twenty minutes; tests/bench runs every section, smaller -->
```console
$ make bench                                   # everything; writes this page
$ .venv/bin/python -m bench append groups      # some sections: see below
$ .venv/bin/python -m bench append --page      # a section, and the page with it
$ .venv/bin/python -m bench page               # the page again, after bench/causes.md or replication.md was edited
$ .venv/bin/python -m bench.followers          # what a follower costs its master, and confirmed writes
$ .venv/bin/python -m bench.full_sync          # a follower gets a gigabyte
$ .venv/bin/python -m bench.larger_than_memory # history on disk beside the same in memory
$ .venv/bin/python -m bench.rules              # what rules of queues cost; also bench.rule_turns, bench.delays
$ .venv/bin/python -m bench.structures         # commands that meet many pending records, groups or clients
$ make bench-quick                             # one line a workload; fails where a ratio is below its floor
$ .venv/bin/headrace bench --compare           # the same workloads from the command line, with your own settings
```

Sections: {names}. Every round is in [{charts}/figures.json]({charts}/figures.json).
"""


def load(path: Path) -> dict[str, Row]:
    """Read the figures of all sections that were measured."""
    sections: dict[str, Row] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return sections


def store(path: Path, sections: dict[str, Row]) -> None:
    """Write them, a finding a line, so that a difference can be read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(sections, ensure_ascii=False)
    path.write_text(text.replace('{"workload"', '\n{"workload"') + "\n", "utf-8")


def write_page(sections: dict[str, Row], docs: Path = DOCS, causes: Path = CAUSES) -> Path:
    """Write the page and its charts from the figures."""
    page = Page(sections, docs, read_causes(causes))
    return page.write()


def read_causes(path: Path) -> dict[str, str]:
    """Read what is written about each workload: a heading, and the text below it."""
    parts = re.split(r"^## +(.+)$", path.read_text("utf-8"), flags=re.MULTILINE)
    return {name.strip(): text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def slug(name: str) -> str:
    """Make the name of a file."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


class Page:
    """The page while it is written."""

    def __init__(self, sections: dict[str, Row], docs: Path, causes: dict[str, str]):
        self.docs = docs
        self.causes = causes
        self.sections = {section.name: sections[section.name] for section in SECTIONS if section.name in sections}
        self.findings = {
            name: [Finding.from_json(finding) for finding in data["findings"]] for name, data in self.sections.items()
        }
        versions = {data["versions"]["Headrace"] for data in self.sections.values()}
        self.parts: list[str] = [INTRODUCTION.format(version=" and ".join(sorted(versions)))]

    def write(self) -> Path:
        """Write everything."""
        (self.docs / CHARTS).mkdir(parents=True, exist_ok=True)
        self._goals()
        for section in SECTIONS:
            if section.name in self.sections:
                self._section(section)
        self.parts += [part.read_text("utf-8") for part in (REPLICATION, LARGER, QUEUES, STRUCTURES)]
        self._machine()
        path = self.docs / "benchmarks.md"
        path.write_text("\n".join(self.parts), "utf-8")
        return path

    def _chart(self, name: str, title: str, svg: str) -> None:
        (self.docs / CHARTS / f"{name}.svg").write_text(svg, "utf-8")
        self.parts.append(f"![{title}]({CHARTS}/{name}.svg)\n")

    # --- goals -----------------------------------------------------------------------------------------------------

    def _goals(self) -> None:
        measured = {finding.workload: finding for found in self.findings.values() for finding in found}
        pairs = [(goal, measured[goal.workload]) for goal in GOALS if goal.workload in measured]
        pairs = [(goal, finding) for goal, finding in pairs if goal.reached(finding) is not None]
        if not pairs:
            return
        # Tables that are no comparison bring their own verdicts.
        judged = [
            (title, row)
            for data in self.sections.values()
            for title, rows in data["tables"].items()
            for row in rows
            if row.get("met") is not None
        ]
        missed = [
            (goal.workload, f" by {goal.missed_by(finding):.0f} %") for goal, finding in pairs if not goal.met(finding)
        ]
        missed += [
            (str(next(iter(row.values()))), f" ({title}; goal {cell(row.get('goal', row.get('target')))})")
            for title, row in judged
            if not row["met"]
        ]
        goals = len(pairs) + len(judged)
        self.parts.append("## Goals\n")
        self.parts.append(f"{goals - len(missed)} of {goals} goals are reached.\n")
        rows = [self._ratio_row(finding, goal.theirs) for goal, finding in pairs]
        note = f"how many times as good as {REDIS}; thin line: worst to best round; dashes: the goal"
        self._chart("goals", "Headrace against its goals", ratios("Headrace against its goals", note, rows))
        rows_of_table = []
        for goal, finding in pairs:
            reached = goal.reached(finding)
            rows_of_table.append([goal.workload, times(reached.middle) if reached else "", goal_cell(finding, goal)])
        self.parts.append(markdown(["", f"Headrace : {REDIS}", "goal"], rows_of_table))
        if missed:
            self._missed(missed)

    def _missed(self, missed: Sequence[tuple[str, str]]) -> None:
        self.parts.append("### Missed, and what the profile shows as the cause\n")
        for name, by in missed:
            why = " ".join(self.causes.get(name, "No profile was taken of it yet.").split())
            self.parts.append(f"- **{name}**{by}: {why}")
        self.parts.append("")

    def _ratio_row(self, finding: Finding, theirs: str) -> RatioRow:
        ratio = finding.ratio(HEADRACE, theirs)
        goal = BY_WORKLOAD.get(finding.workload)
        figure = None if goal is None else 1 / goal.figure if is_share(finding) else goal.figure
        if ratio is None:
            return RatioRow(finding.workload, 1.0, 1.0, 1.0, figure)
        return RatioRow(finding.workload, *ratio, figure)

    # --- sections --------------------------------------------------------------------------------------------------

    def _section(self, section: Section) -> None:
        data, found = self.sections[section.name], self.findings[section.name]
        self.parts.append(f"## {section.title}\n")
        self.parts += [f"{section.about}\n"] * bool(section.about)
        self.parts += [f"{note}\n" for note in dict.fromkeys(data["notes"])]
        if section.name == "growth":
            self._growth(found)
            return
        for table in dict.fromkeys(finding.table for finding in found):
            here = [finding for finding in found if finding.table == table]
            if table != section.title:
                self.parts.append(f"### {table}\n")
            self._compare(section.name, table, here)
        for title, rows in data["tables"].items():
            self.parts += [f"### {title}\n", plain_table(rows)]

    def _compare(self, section: str, table: str, found: Sequence[Finding]) -> None:
        self._draw(section, table, found)
        if section == "generator":
            self.parts.append(_generator_table(found))
            return
        if others(found):
            self.parts.append(ratio_table(found))
        self.parts.append(figure_table(found))

    def _draw(self, section: str, table: str, found: Sequence[Finding]) -> None:
        """Draw rates and weights as bars, sizes as lines, and everything else as ratios."""
        if section == "generator":
            return
        title = table if found[0].unit in table.lower() else f"{table}, {found[0].unit}"
        if section == "startup":
            self._chart(slug(table), title, lines(title, "by messages in the directory", _start_up_panels(found)))
        elif section in BARS or not others(found):
            same = [finding for finding in found if finding.unit == found[0].unit]
            rows = [
                (finding.workload, {who: finding.middle(who) for who, each in finding.rounds.items() if each})
                for finding in same
            ]
            values = [value for _, row in rows for value in row.values() if value > 0]
            wide = max(values) / min(values) > WIDE
            better = "more" if same[0].more_is_better else "less"
            self._chart(slug(table), title, bars(title, f"medians; {better} is better", rows, logarithmic=wide))
        else:
            note = f"how many times as good as {REDIS}; thin line: worst to best round; dashes: the goal"
            self._chart(slug(table), table, ratios(table, note, [self._ratio_row(finding, REDIS) for finding in found]))

    def _growth(self, found: Sequence[Finding]) -> None:
        names = list(dict.fromkeys(finding.workload for finding in found))
        panels = [
            Panel(name, "µs", _lines([finding for finding in found if finding.workload == name])) for name in names
        ]
        title = "Cost of an operation by length of the stream"
        self._chart("growth", title, lines(title, "µs of the server's processor a request", panels))
        self.parts.append(growth_table(found))

    # --- the machine -----------------------------------------------------------------------------------------------

    def _machine(self) -> None:
        if not self.sections:
            return
        first = next(iter(self.sections.values()))
        self.parts.append("## The machine, and how to repeat it\n")
        rows = [[what, str(value)] for what, value in (first["machine"] | first["versions"]).items()]
        self.parts.append(markdown(["", ""], rows, left=2))
        self.parts.append(
            REPEATING.format(
                minutes=sum(data["seconds"] for data in self.sections.values()) / 60,
                dates=", ".join(sorted({data["date"] for data in self.sections.values()})),
                names=", ".join(section.name for section in SECTIONS),
                charts=CHARTS,
            )
        )


def _lines(found: Sequence[Finding]) -> dict[str, list[tuple[float, float]]]:
    names = list(dict.fromkeys(who for finding in found for who in finding.rounds))
    return {
        who: [(finding.at, finding.middle(who)) for finding in found if finding.at and finding.rounds.get(who)]
        for who in names
    }


def _start_up_panels(found: Sequence[Finding]) -> list[Panel]:
    return [
        Panel(title, "ms", _lines([finding for finding in found if finding.workload.endswith(form)]))
        for title, form in (("an append-only file of commands", "commands"), ("a base, after a rewrite", "a base"))
    ]


def _generator_table(found: Sequence[Finding]) -> str:
    names = list(found[0].rounds)
    rows = [
        [finding.workload, finding.unit, *(f"{finding.middle(who):,.3g}" if finding.middle(who) < 100 else
         f"{finding.middle(who):,.0f}" for who in names)]
        for finding in found
    ]  # fmt: skip
    return markdown(["", "unit", *names], rows, left=2)
