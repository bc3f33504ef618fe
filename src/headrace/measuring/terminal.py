"""Findings on the terminal: a live display during the measurement, then a table and bars.

The display is redrawn between measurements and never during one, so that it takes no processor time from the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from headrace.measuring.charts import colour_of
from headrace.measuring.numbers import shown, times
from headrace.measuring.samples import Finding

BAR = 46
EIGHTHS = " ▏▎▍▌▋▊▉█"


def bar(share: float, width: int = BAR) -> str:
    """Draw a share of the whole width, to an eighth of a character."""
    eighths = max(1, round(8 * width * share)) if share > 0 else 0
    return EIGHTHS[8] * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def plot(found: Sequence[Finding], names: Sequence[str]) -> Group:
    """Draw a bar for each server and finding; in each finding, the longest is the whole width."""
    parts: list[Text] = []
    widest = max(map(len, names), default=0)
    for finding in found:
        parts.append(Text(f"{finding.workload}, {finding.unit}", style="bold"))
        middles = {name: finding.middle(name) for name in names if finding.rounds.get(name)}
        most = max(middles.values(), default=0.0) or 1.0
        for name, value in middles.items():
            line = Text(f"  {name:{widest}} ")
            line.append(bar(value / most), style=colour_of(name, names))
            line.append(f" {shown(value)}", style="dim")
            parts.append(line)
    return Group(*parts)


def table(found: Sequence[Finding], names: Sequence[str]) -> Table:
    """Show medians and their spread, and how many times as good the first server is."""
    rows = Table(title_justify="left", caption_justify="left", box=None, pad_edge=False, header_style="bold")
    rows.add_column("workload", overflow="fold")
    rows.add_column("unit")
    pairs = names[1:]
    for name in pairs:
        rows.add_column(f"× {name}" if len(pairs) > 1 else "×", justify="right", no_wrap=True)
    for name in names:
        rows.add_column(name, justify="right", no_wrap=True)
        rows.add_column("± %", justify="right", no_wrap=True)
    for finding in found:
        cells = [finding.workload, finding.unit]
        for name in pairs:
            ratio = finding.ratio(names[0], name)
            cells.append("" if ratio is None else f"{times(ratio.middle)} ({ratio.low:.2f}–{ratio.high:.2f})")
        for name in names:
            there = bool(finding.rounds.get(name))
            cells += [shown(finding.middle(name)), f"{finding.spread(name):.0f}"] if there else ["–", ""]
        rows.add_row(*cells)
    return rows


class Display:
    """A bar of what is done, what is being measured, and the last findings below it."""

    def __init__(self, console: Console, steps: int, names: Sequence[str]):
        self._names = names
        self._found: list[Finding] = []
        self._progress = Progress(
            BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"), console=console
        )
        self._task = self._progress.add_task("", total=steps)
        self._live = Live(console=console, auto_refresh=False, transient=True)

    @contextmanager
    def shown(self) -> Iterator[Display]:
        """Show it until the block ends."""
        with self._live:
            yield self

    def told(self, what: str) -> None:
        """Say what is measured next."""
        self._progress.update(self._task, description=what)
        self._draw()
        self._progress.advance(self._task)

    def found(self, findings: Sequence[Finding]) -> None:
        """Show what was found."""
        self._found += findings
        self._draw()

    def _draw(self) -> None:
        parts: list[RenderableType] = [plot(self._found[-3:], self._names), ""] if self._found else []
        self._live.update(Group(*parts, self._progress), refresh=True)
