"""What the demo shows: events with their time, bars while it runs, tables at the end.

In a terminal the bars move; where the output goes to a file, a line every few seconds says the same.
"""

import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from headrace.demo.lag import LagRecord, Sample, draw
from headrace.demo.tally import Tally

_LINE_EVERY_S: Final = 5.0
_WIDEST: Final = 100
_SHADES: Final = "▁▂▃▄▅▆▇█"


class Show:
    """What a person sees of the demo."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._progress: Progress | None = None
        self._bars: dict[str, TaskID] = {}
        self._line_at = 0.0

    def say(self, sentence: str, style: str = "") -> None:
        """Print something that happened, with its time."""
        passed = int(time.monotonic() - self._began)
        line = Text.assemble((f"{passed // 60}:{passed % 60:02}  ", "dim"), (sentence, style))
        self._console.print(line, soft_wrap=True)

    def begin(self, messages: int, *, spark: bool) -> None:
        """Show the bars."""
        columns = (SpinnerColumn(), TextColumn("{task.description:<9}"), BarColumn(40), MofNCompleteColumn())
        self._progress = Progress(*columns, console=self._console, disable=not self._console.is_terminal)
        for name in ("sent", "processed", *(["archived"] if spark else [])):
            self._bars[name] = self._progress.add_task(name, total=messages)
        self._progress.start()

    def update(self, sample: Sample) -> None:
        """Move the bars."""
        done = {"sent": sample.sent, "processed": sample.processed, "archived": sample.archived}
        if self._progress is not None:
            for name, bar in self._bars.items():
                self._progress.update(bar, completed=done[name] or 0)
        if not self._console.is_terminal and time.monotonic() - self._line_at > _LINE_EVERY_S:
            self._line_at = time.monotonic()
            self.say(", ".join(f"{name} {done[name] or 0:,}" for name in self._bars))

    def waiting(self, what: str) -> "Waiting":
        """Show that something takes its time, until the block ends."""
        return Waiting(self._console, what)

    def end(self) -> None:
        """Stop moving."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def lag(self, record: LagRecord) -> None:
        """Draw how far the readers were behind."""
        width = min(self._console.width, _WIDEST) - 1
        for reader, title in (("processed", "sent, not yet processed"), ("archived", "sent, not yet archived")):
            points = record.behind(reader)
            if points:
                self._console.print()
                for line in draw(points, title, record.marks(), width):
                    self._console.print(Text(line), soft_wrap=True)

    def tally(self, tally: Tally, facts: list[str]) -> None:
        """Show the counts, the latencies, the windows, and what else there is to know."""
        tables = [_counts(tally), _latencies(tally), *([_windows(tally.windows)] if tally.windows else [])]
        for table in tables:
            self._console.print()
            self._console.print(table)
        self._console.print()
        for fact in facts:
            self._console.print(f"· {fact}")

    def files(self, files: list[tuple[Path, str]]) -> None:
        """Say where everything is."""
        self._console.print()
        self._console.print("Files:")
        for path, what in files:
            self._console.print(Text.assemble(f"  {path}  ", (what, "dim")), soft_wrap=True)
        self._console.print()


class Waiting:
    """A spinner in a terminal; nothing elsewhere."""

    def __init__(self, console: Console, what: str) -> None:
        self._status = console.status(what) if console.is_terminal else None

    def __enter__(self) -> None:
        if self._status is not None:
            self._status.start()

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()


def _counts(tally: Tally) -> Table:
    table = Table(title="Every message, counted", title_justify="left", title_style="bold")
    table.add_column("")
    for name in ("messages", "lost", "twice"):
        table.add_column(name, justify="right")
    for count in tally.counts:
        wrong = (Text(f"{number:,}", style="bold red" if number else "green") for number in (count.lost, count.twice))
        table.add_row(count.place, f"{count.messages:,}", *wrong)
    table.add_section()
    table.add_row("sent again after the crash", f"{tally.sent_again:,}")
    table.add_row("recognised as duplicates", f"{tally.recognised:,}")
    return table


def _latencies(tally: Tally) -> Table:
    table = Table(title="From a device, in milliseconds", title_justify="left", title_style="bold")
    table.add_column("")
    for share in tally.processed_within:
        table.add_column(share, justify="right")
    for name, within in (
        ("to the result of a worker", tally.processed_within),
        ("to a committed batch of the archive", tally.archived_within),
    ):
        if within:
            table.add_row(name, *(f"{milliseconds:,.0f}" for milliseconds in within.values()))
    return table


def _windows(windows: list[dict[str, Any]]) -> Table:
    """Show the mean of each window as a block, by device."""
    table = Table(title="Windows of five seconds, by Spark", title_justify="left", title_style="bold")
    table.add_column("dev", justify="right")
    table.add_column("messages", justify="right")
    table.add_column("mean temp")
    table.add_column("from … to", justify="right")
    devices: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in windows:
        devices[row["dev"]].append(row)
    for device, rows in sorted(devices.items()):
        means = [row["mean"] for row in rows]
        low, high = min(means), max(means)
        scale = (len(_SHADES) - 1) / ((high - low) or 1)
        strip = "".join(_SHADES[round((mean - low) * scale)] for mean in means)
        messages = sum(row["messages"] for row in rows)
        table.add_row(str(device), f"{messages:,}", strip, f"{low:.1f} … {high:.1f}")
    return table
