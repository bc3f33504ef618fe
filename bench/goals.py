"""The goals, against redis-server in the same run.

A goal names a finding and how many times as good Headrace has to be; for memory, how large a share it may take.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.embedded import SERVER
from headrace.measuring.charts import NEARLY
from headrace.measuring.samples import Finding, Ratio
from headrace.measuring.targets import HEADRACE, REDIS


@dataclass(frozen=True)
class Goal:
    """One promise: at least so many times as good or, for memory, at most such a share."""

    workload: str
    figure: float
    theirs: str = REDIS

    def met(self, finding: Finding) -> bool | None:
        """Whether it was reached; None where the other server was not measured."""
        reached = self.reached(finding)
        if reached is None:
            return None
        return reached.middle <= self.figure / NEARLY if is_share(finding) else reached.middle >= self.figure * NEARLY

    def reached(self, finding: Finding) -> Ratio | None:
        """The ratio in the terms of the goal."""
        ratio = finding.ratio(HEADRACE, self.theirs)
        return share(ratio) if ratio is not None and is_share(finding) else ratio

    def missed_by(self, finding: Finding) -> float:
        """By how many percent it was missed."""
        reached = self.reached(finding)
        if reached is None:
            return 0.0
        part = reached.middle / self.figure
        return 100 * (part - 1 if is_share(finding) else 1 - part)


def is_share(finding: Finding) -> bool:
    """Whether people speak of it as a share: half the memory, not twice as light."""
    return finding.unit == "bytes"


def share(ratio: Ratio) -> Ratio:
    """Turn `so many times as good` into `such a share of theirs`."""
    return Ratio(1 / ratio.middle, 1 / ratio.high, 1 / ratio.low)


_SHAPES = ("constant values", "varying values", "varying names", "a value of 200 bytes")
_PENDING = [
    f"a pending entry, {consumers}, {a_ms} a ms{state}"
    for a_ms in ("1", "1,000")
    for consumers in ("1 consumer", "10 consumers")
    for state in ("", ", half acknowledged")
]

GOALS = [
    Goal("XADD, pipeline 1, 50 clients", 1.0),
    Goal("XADD, pipeline 16, 50 clients", 1.5),
    Goal("XADD, pipeline 64, 50 clients", 2.0),
    *(Goal(f"{way} COUNT {count}", 1.5) for way in ("XRANGE", "XREVRANGE") for count in ("1", "100", "10,000")),
    Goal("XREADGROUP COUNT 100", 1.5),
    *(
        Goal(f"XREADGROUP COUNT 10 + XACK, {consumers}", 1.5)
        for consumers in ("1 consumer", "4 consumers", "16 consumers")
    ),
    *(
        Goal(f"XREAD, {readers}, {part}", 1.0)
        for readers in ("1 blocked reader", "10 blocked readers", "100 blocked readers")
        for part in ("p50", "p99")
    ),
    *(Goal(f"always: XADD, pipeline {pipeline}", 1.5) for pipeline in (1, 16)),
    *(Goal(f"everysec: XADD, pipeline {pipeline}", 1.0) for pipeline in (1, 16)),
    *(Goal(f"a message, {shape}", 1.0) for shape in _SHAPES),
    *(Goal(name, 0.6) for name in _PENDING),
    Goal("in process: add", 20.0, SERVER),
]
BY_WORKLOAD = {goal.workload: goal for goal in GOALS}
