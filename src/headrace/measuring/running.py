"""What `headrace bench` does: workloads against a server, or this Headrace beside this machine's redis-server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from headrace.measuring.charts import RatioRow, bars, ratios
from headrace.measuring.machine import machine, versions
from headrace.measuring.rounds import measure
from headrace.measuring.samples import Finding
from headrace.measuring.targets import IN_MEMORY, Target, private_headrace, private_redis, redis_command
from headrace.measuring.terminal import Display, plot, table
from headrace.measuring.workloads import Shape, Streams, Workload, catalogue, chosen

DURABLE = ("--save", "", "--appendonly", "yes", "--appendfsync")


@dataclass(frozen=True)
class BenchOptions:
    """What the command line says."""

    url: str | None = None
    compare: bool = False
    appendfsync: str | None = None
    clients: int = 50
    pipeline: int = 1
    fields: int = 1
    value_size: int = 10
    messages: int = 100_000
    seconds: float = 1.0
    rounds: int = 3
    workloads: tuple[str, ...] = ()
    as_json: bool = False
    chart: Path | None = None

    def catalogue(self) -> list[Workload]:
        """Every workload, as these options shape it."""
        streams = Streams(self.messages, Shape(self.fields, self.value_size))
        return catalogue(streams, clients=self.clients, pipeline=self.pipeline)


def list_workloads(options: BenchOptions) -> None:
    """Print the names of all workloads, and what they are."""
    console = Console(highlight=False)
    for workload in options.catalogue():
        console.print(f"{workload.slug:18} {workload.name}", soft_wrap=True)


def run_bench(options: BenchOptions) -> int:
    """Measure, print, and write what was asked for; return the exit code."""
    workloads = chosen(options.catalogue(), list(options.workloads))
    # With --json the display goes to standard error, so that standard output is the result alone.
    console = Console(stderr=options.as_json, highlight=False)
    with _targets(options, console) as targets:
        names = [target.name for target in targets]
        about = {
            "machine": machine(),
            "versions": versions("redis"),
            "servers": {target.name: target.version() for target in targets},
        }
        found: list[Finding] = []
        display = Display(console, len(workloads) * options.rounds * len(targets), names)
        with display.shown():
            for workload in workloads:
                new = measure(targets, workload, rounds=options.rounds, seconds=options.seconds, told=display.told)
                display.found(new)
                found += new
    if options.as_json:
        print(json.dumps(about | {"findings": [finding.as_json() for finding in found]}, indent=2, ensure_ascii=False))  # noqa: T201
    else:
        _print(console, about, found, names, options.rounds)
    if options.chart is not None:
        options.chart.write_text(_chart(found, names), "utf-8")
        console.print(f"The chart is in {options.chart}.", soft_wrap=True)
    return 0


@contextmanager
def _targets(options: BenchOptions, console: Console) -> Iterator[list[Target]]:
    """Start or reach the servers to measure, and leave them as they were."""
    settings = (*DURABLE, options.appendfsync) if options.appendfsync else IN_MEMORY
    with ExitStack() as stack:
        targets = []
        if options.url is None or options.compare:
            targets.append(stack.enter_context(private_headrace(settings)))
        if options.url is not None:
            target = Target.at_url(options.url)
            stack.callback(target.close)
            targets.append(target)
        elif options.compare and redis_command() is None:
            console.print("There is no redis-server here, so that Headrace is measured alone.", style="yellow")
        elif options.compare:
            targets.append(stack.enter_context(private_redis(settings)))
        yield targets


def _print(
    console: Console, about: dict[str, Any], found: Sequence[Finding], names: Sequence[str], rounds: int
) -> None:
    console.print("  ".join(f"[bold]{what}[/] {value}" for what, value in about["machine"].items()), soft_wrap=True)
    console.print("  ".join(f"[bold]{name}[/] is {version}" for name, version in about["servers"].items()))
    console.print()
    console.print(plot(found, names))
    console.print()
    console.print(table(found, names))
    console.print()
    console.print(f"Medians of {rounds} rounds; ± %: from the slowest to the fastest.", style="dim", soft_wrap=True)
    if len(names) > 1:
        console.print(
            f"×: how many times as good {names[0]} is, and in brackets that of the worst and the best pair of rounds.",
            style="dim",
            soft_wrap=True,
        )


def _chart(found: Sequence[Finding], names: Sequence[str]) -> str:
    """Draw ratios where two servers were measured, and rates where one was."""
    note = "medians; to the right of 1×, the first is better"
    if len(names) > 1:
        rows = [
            RatioRow(finding.workload, *ratio)
            for finding in found
            if (ratio := finding.ratio(names[0], names[1])) is not None
        ]
        return ratios(f"{names[0]} : {names[1]}", note, rows)
    rows_of_bars = [(f"{finding.workload}, {finding.unit}", {names[0]: finding.middle(names[0])}) for finding in found]
    return bars(f"Stream workloads on {names[0]}", "medians", rows_of_bars, logarithmic=True)
