"""What measurements in clean processes share: rounds and their median, and a report.

    measure ──► fresh process ──► plain numbers ──► Report ──► a table on the screen, and build/bench/<name>.json

Each measurement runs in a process of its own, one at a time. It starts with an untouched heap, so that the growth of
its resident memory is what the measured thing costs, and the progress display, which belongs to the parent, takes no
time from it. Processor time is measured, so that other work on a shared machine disturbs less. The garbage collector
stays on, as it is where Headrace is used.
"""

from __future__ import annotations

import ctypes
import gc
import json
import multiprocessing
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from headrace.measuring.machine import machine

RESULTS = Path("build/bench")
WIDTH_WITHOUT_TERMINAL = 130

Row = dict[str, Any]
Result = TypeVar("Result")


# --- measuring -------------------------------------------------------------------------------------------------


def fresh(measure: Callable[..., Result], *arguments: object) -> Result:
    """Call a module's function in a new process and return what it returned."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(measure, *arguments).result()


def seconds(work: Callable[..., object], *arguments: object) -> float:
    """Time one call: processor seconds, which are those of the clock where nothing else wants the core.

    The garbage of earlier work is collected before.
    """
    gc.collect()
    start = time.process_time()
    work(*arguments)
    return time.process_time() - start


def median(samples: list[float]) -> float:
    """Take the middle of several rounds: one disturbed round does not move it."""
    return statistics.median(samples)


def spread(samples: list[float]) -> float:
    """Tell the percentage between the slowest and the fastest round; large on a machine that has other work."""
    return 100 * (max(samples) - min(samples)) / statistics.median(samples)


def resident_bytes(pid: int | str = "self") -> int:
    """Read how much memory a process really occupies."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
    found = re.search(r"^Rss:\s+(\d+)", rollup, re.MULTILINE)
    if found is None:
        raise RuntimeError(f"/proc/{pid}/smaps_rollup names no Rss")
    return 1024 * int(found[1])


def settled_resident_bytes() -> int:
    """Read this process's memory after giving back what it has freed, which would hide growth that comes next."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return resident_bytes()


# --- the machine -----------------------------------------------------------------------------------------------


def compiler() -> str:
    """Name the C compiler that setup.py uses, which need not be the one that compiled Python."""
    binary = shutil.which((os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0])
    if binary is None:
        return f"none here; Python's was {platform.python_compiler()}"
    return subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


# --- telling ---------------------------------------------------------------------------------------------------


def shown(cell: object) -> str:
    """Format a cell for people: three significant digits are more than the noise allows anyway."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "[green]✓[/]" if cell else "[red]✗[/]"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.1f}" if abs(cell) >= 10 else f"{cell:.2f}"
    return str(cell)


class Report:
    """Prints each table when its figures are there, and keeps all of them for the JSON file."""

    def __init__(self, name: str, steps: int):
        self.name = name
        self.console = Console() if sys.stdout.isatty() else Console(width=WIDTH_WITHOUT_TERMINAL)
        self.started = time.monotonic()
        self.machine = machine() | {"compiler": compiler()}
        self.tables: list[Row] = []
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )
        self.task = self.progress.add_task(name, total=steps)

    def measure(self, what: str, measure: Callable[..., Result], *arguments: object) -> Result:
        """Run one step in a fresh process, and say meanwhile what is being measured."""
        self.progress.update(self.task, description=what)
        result = fresh(measure, *arguments)
        self.progress.advance(self.task)
        return result

    def table(self, title: str, rows: list[Row], note: str = "") -> None:
        """Show rows that have the same columns."""
        self.tables.append({"title": title, "note": note, "rows": rows})
        table = Table(title=title, caption=note or None, title_justify="left", caption_justify="left")
        for column in rows[0]:
            texts = any(isinstance(row[column], str) for row in rows)
            table.add_column(column, justify="left" if texts else "right")
        for row in rows:
            table.add_row(*(shown(cell) for cell in row.values()))
        self.console.print(table, "")

    def say(self, text: str) -> None:
        """Print a sentence between the tables."""
        self.console.print(text)

    def save(self) -> None:
        """Write everything that was shown where scripts can read it."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        path = RESULTS / f"{self.name}.json"
        results = {
            "machine": self.machine,
            "seconds": round(time.monotonic() - self.started, 1),
            "tables": self.tables,
        }
        path.write_text(json.dumps(results, indent=2, ensure_ascii=False) + "\n", "utf-8")
        self.say(f"{results['seconds']:.0f} s; the same figures are in {path}")


@contextmanager
def report(name: str, steps: int) -> Iterator[Report]:
    """Show progress while it lasts, and save the report when everything was measured."""
    whole = Report(name, steps)
    whole.say("  ".join(f"[bold]{what}[/] {value}" for what, value in whole.machine.items()) + "\n")
    with whole.progress:
        yield whole
    whole.save()
