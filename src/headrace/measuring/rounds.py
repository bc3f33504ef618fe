"""Rounds that alternate: each server is measured a moment before or after the other.

    round 1:  Headrace, redis-server      round 2:  redis-server, Headrace      round 3:  …

A machine that gets slower in the middle therefore slows both. All other servers are idle while one is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import redis

from headrace.measuring.samples import Finding, Sample, findings
from headrace.measuring.targets import Target
from headrace.measuring.workloads import Workload, refusal

Thing = TypeVar("Thing")

Told = Callable[[str], None]
"""Is told what is being measured, before each measurement."""


def alternated(things: Sequence[Thing], turn: int) -> list[Thing]:
    """The order of a round."""
    return list(things)[:: -1 if turn % 2 else 1]


def measure(
    targets: Sequence[Target], workload: Workload, *, rounds: int, seconds: float, told: Told, table: str = ""
) -> list[Finding]:
    """Measure a workload on all servers, round by round."""
    found: dict[str, list[Sample]] = {target.name: [] for target in targets}
    for turn in range(rounds):
        for target in alternated(targets, turn):
            told(f"{workload.name}: {target.name}")
            try:
                workload.prepare(target)
                found[target.name].append(workload.measure(target, seconds))
            except redis.RedisError as error:
                raise refusal(error, target, workload) from error
    return findings(workload.name, table, workload.figures, found)
