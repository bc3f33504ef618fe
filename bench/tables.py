"""Findings as tables of Markdown: ratios first, the figures behind them second."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.goals import BY_WORKLOAD, Goal, is_share, share
from bench.run import Row, cell
from headrace.measuring.numbers import shown, times
from headrace.measuring.samples import Finding, Ratio
from headrace.measuring.targets import HEADRACE

FLAT = 2.0
"""What costs more than so many times as much in the longest stream as in the shortest grows."""


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, right: int = 0) -> str:
    """Write a table; so many columns on the left and on the right are text, the others numbers."""
    rule = ["---"] * left + ["---:"] * (len(header) - left - right) + ["---"] * right
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows)) + "\n"


def others(findings: Sequence[Finding]) -> list[str]:
    """The other servers, in the order in which they appear."""
    return [who for who in dict.fromkeys(who for finding in findings for who in finding.rounds) if who != HEADRACE]


def ratio_table(findings: Sequence[Finding]) -> str:
    """Show how many times as good Headrace is; for memory, which share it takes."""
    theirs = others(findings)
    goals = any(finding.workload in BY_WORKLOAD for finding in findings)
    costs = any(finding.processor_ratio(HEADRACE, who) for finding in findings for who in theirs)
    header = ["Headrace :"]
    for who in theirs:
        header += [who, "worst–best round"] if len(theirs) == 1 else [who]
    header += ["goal"] * goals + ["processor", "what limited Headrace", "and redis-server"] * costs
    rows = []
    for finding in findings:
        row = [finding.workload]
        for who in theirs:
            ratio = finding.ratio(HEADRACE, who)
            row += _ratio_cells(finding, ratio)[: 2 if len(theirs) == 1 else 1]
        if goals:
            row.append(goal_cell(finding, BY_WORKLOAD.get(finding.workload)))
        if costs:
            cost = finding.processor_ratio(HEADRACE, theirs[0])
            row.append(times(cost) if cost else "")
            row += [finding.limits.get(HEADRACE, ""), finding.limits.get(theirs[0], "")]
        rows.append(row)
    return markdown(header, rows, right=2 * costs)


def _ratio_cells(finding: Finding, ratio: Ratio | None) -> list[str]:
    if ratio is None:
        return ["–", ""]
    if is_share(finding):
        ratio = share(ratio)
    ranged = "" if math.isclose(ratio.low, ratio.high) else f"{ratio.low:.2f}–{ratio.high:.2f}"
    return [times(ratio.middle), ranged]


def goal_cell(finding: Finding, goal: Goal | None) -> str:
    """Show the goal of a finding, and whether it was reached."""
    if goal is None:
        return ""
    met = goal.met(finding)
    mark = "" if met is None else " ✓" if met else f" **missed by {goal.missed_by(finding):.0f} %**"
    return ("at most " if is_share(finding) else "") + times(goal.figure) + mark


def figure_table(findings: Sequence[Finding]) -> str:
    """Show medians, each with the percentage between its slowest and its fastest round."""
    names = [HEADRACE, *others(findings)]
    rows = []
    for finding in findings:
        row = [finding.workload, finding.unit]
        for who in names:
            if not finding.rounds.get(who):
                row.append("–")
            elif len(finding.rounds[who]) == 1:
                row.append(shown(finding.middle(who)))
            else:
                row.append(f"{shown(finding.middle(who))} ± {finding.spread(who):.0f} %")
        rows.append(row)
    return markdown(["", "unit", *names], rows, left=2)


def plain_table(rows: Sequence[Row]) -> str:
    """Write rows that are no comparison as they are."""
    header = list(rows[0])
    texts = sum(isinstance(rows[0][name], str) for name in header[:1])
    return markdown(header, [[cell(row.get(name)) for name in header] for row in rows], left=max(1, texts))


def growth_table(findings: Sequence[Finding]) -> str:
    """Show the cost of each operation at each size, and how much more the longest takes than the shortest."""
    sizes = sorted({finding.at for finding in findings if finding.at is not None})
    header = ["µs of the server's processor", "server", *(f"{size:,.0f}" for size in sizes), "longest : shortest"]
    rows = []
    for name in dict.fromkeys(finding.workload for finding in findings):
        here = {finding.at: finding for finding in findings if finding.workload == name}
        for who in [HEADRACE, *others(findings)]:
            costs = [here[size].middle(who) if size in here and here[size].rounds.get(who) else None for size in sizes]
            known = [cost for cost in costs if cost]
            factor = known[-1] / known[0] if len(known) > 1 else 1.0
            mark = f"**{times(factor)}**" if factor > FLAT else times(factor)
            rows.append([name, who, *(shown(cost) if cost else "–" for cost in costs), mark])
    return markdown(header, rows, left=2)
