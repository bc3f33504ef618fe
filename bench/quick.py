"""`make bench-quick`: one line a workload, in under two minutes; exits with status 1 where a ratio is below its floor.

A workload below its floor is measured again, longer, before it counts: on a machine with other work, once is no proof.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from rich.console import Console

from bench.durable import SETTINGS
from bench.embedded import SERVER, WORKLOADS
from bench.embedded import measure as measure_in_process
from bench.floors import FLOORS, below_floor
from bench.harness import fresh
from headrace.measuring import workloads
from headrace.measuring.numbers import shown, times
from headrace.measuring.rounds import alternated, measure
from headrace.measuring.samples import Finding
from headrace.measuring.targets import HEADRACE, REDIS, Target, private_headrace, private_redis, redis_command
from headrace.measuring.workloads import Streams, Workload, chosen, looking, xadd

MESSAGES = 200_000
SECONDS = 0.3
ROUNDS = 5
PATIENCE = 3
"""A second attempt has rounds so many times as long."""

Measurement = Callable[[float], Finding]


def in_memory(streams: Streams) -> list[Workload]:
    """The workloads of servers without persistence."""
    return [
        *(xadd(pipeline=pipeline) for pipeline in (1, 16, 64)),
        workloads.xrange(streams, 100),
        workloads.xrange(streams, 100, reverse=True),
        workloads.xread(streams),
        workloads.xreadgroup(streams),
        workloads.consume(streams, 4),
        workloads.wake(100),
        workloads.xautoclaim(streams),
        *chosen(looking(streams), ["xpending-list", "xlen"]),
        workloads.xdel(streams, shuffled=True),
    ]


def on_disk(policy: str) -> Workload:
    """XADD under a policy of persistence."""
    plain = xadd(name=f"{policy}: XADD, pipeline 16", pipeline=16)

    def prepare(target: Target) -> None:
        target.client.config_set("appendfsync", policy)
        plain.prepare(target)

    return Workload(policy, plain.name, plain.measure, prepare, plain.figures)


def _measured(targets: list[Target], workload: Workload, rounds: int) -> Measurement:
    def again(seconds: float) -> Finding:
        found = measure(targets, workload, rounds=rounds, seconds=seconds, told=lambda _: None)
        return next((finding for finding in found if finding.workload in FLOORS), found[0])

    return again


def _in_process(port: int, rounds: int) -> Measurement:
    def again(seconds: float) -> Finding:
        found: dict[str, list[float]] = {HEADRACE: [], SERVER: []}
        for turn in range(rounds):
            for who in alternated(list(found), turn):
                found[who].append(fresh(measure_in_process, 0, who, port, min(1.0, seconds)))
        return Finding(WORKLOADS[0].name, "messages/s", more_is_better=True, rounds=found)

    return again


def measurements(stack: ExitStack, messages: int, rounds: int) -> Iterator[tuple[str, Measurement]]:
    """Everything that is measured, with the servers that Headrace is compared with."""
    with ExitStack() as memory:
        targets = [memory.enter_context(private_headrace()), memory.enter_context(private_redis())]
        for workload in in_memory(Streams(messages)):
            yield REDIS, _measured(targets, workload, rounds)
        port = int(targets[1].client.connection_pool.connection_kwargs["port"])
        yield SERVER, _in_process(port, min(rounds, 3))
    targets = [stack.enter_context(private_headrace(SETTINGS)), stack.enter_context(private_redis(SETTINGS))]
    for policy in ("always", "everysec"):
        yield REDIS, _measured(targets, on_disk(policy), rounds)


def quick(console: Console, *, messages: int = MESSAGES, rounds: int = ROUNDS, seconds: float = SECONDS) -> int:
    """Measure everything that has a floor; return the exit code."""
    if redis_command() is None:
        console.print("There is no redis-server here to compare with; apt-get install redis-server brings one.")
        return 0
    began, fallen = time.monotonic(), []
    with ExitStack() as stack:
        for theirs, again in measurements(stack, messages, rounds):
            finding = again(seconds)
            if below_floor(finding, theirs):
                finding = again(PATIENCE * seconds)
            fell = below_floor(finding, theirs)
            fallen += [finding.workload] * fell
            console.print(said(finding, theirs, fell), soft_wrap=True)
    console.print(f"{time.monotonic() - began:.0f} s", style="dim")
    if fallen:
        console.print(f"Below the floor: {'; '.join(fallen)}.", style="red", soft_wrap=True)
    return 1 if fallen else 0


def said(finding: Finding, theirs: str, fell: bool) -> str:
    """Say a finding in one line."""
    ratio, floor = finding.ratio(HEADRACE, theirs), FLOORS.get(finding.workload)
    if ratio is None:
        return finding.workload
    figures = f"{shown(finding.middle(HEADRACE))} : {shown(finding.middle(theirs))} {finding.unit}"
    verdict = "[red]below the floor[/]" if fell else "[green]ok[/]" if floor else ""
    low_high = f"{ratio.low:.2f}–{ratio.high:.2f}"
    return (
        f"{finding.workload:44} {times(ratio.middle):>7}  {low_high:>12}  floor {floor or 0:<5} {figures:42} {verdict}"
    )
