"""What was found: samples of one round, and findings, which are the rounds of all servers side by side.

    a sample    one server, one round        {"rate": 412000.0, "p99": 1800.0, "processor": 2.1, …}
    a finding   one figure of a workload     {"Headrace": [r1, r2, …], "redis-server": [r1, r2, …]}
    a ratio     of the medians, with that of the worst and of the best round beside it; above 1, the first is better

Rounds alternate, so that round i of one server and of the other are neighbours in time: their ratios show the spread.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

Sample = dict[str, float]

OTHER_WORK: Final = "OTHER WORK"
BUSY: Final = 0.85
"""The share of a core from which on a process counts as the limit."""


class Figure(NamedTuple):
    """Which number of a sample is shown, and how."""

    name: str
    unit: str = "requests/s"
    more_is_better: bool = True
    suffix: str = ""


class Ratio(NamedTuple):
    """How many times as good, by the medians; and by the worst and the best pair of rounds."""

    middle: float
    low: float
    high: float


@dataclass
class Finding:
    """One figure of one workload: a number for each server and round."""

    workload: str
    unit: str
    more_is_better: bool
    table: str = ""
    at: float | None = None
    """Where it stands on the axis of a chart: the size of the stream, say."""
    rounds: dict[str, list[float]] = field(default_factory=dict)
    processor: dict[str, list[float]] = field(default_factory=dict)
    """Microseconds of the server's processor for a request, where the server is ours to look at."""
    limits: dict[str, str] = field(default_factory=dict)
    """What kept each server from more."""

    def middle(self, who: str) -> float:
        """The median of a server's rounds: one disturbed round does not move it."""
        return statistics.median(self.rounds[who])

    def spread(self, who: str) -> float:
        """The percentage between a server's slowest and fastest round; large on a machine that has other work."""
        return 100 * (max(self.rounds[who]) - min(self.rounds[who])) / (self.middle(who) or 1.0)

    def ratio(self, ours: str, theirs: str) -> Ratio | None:
        """Compare two servers, above 1 where the first is better; None where one of them was not measured."""
        if not self.rounds.get(ours) or not self.rounds.get(theirs):
            return None
        pairs = [self._better(our, their) for our, their in zip(self.rounds[ours], self.rounds[theirs], strict=False)]
        return Ratio(self._better(self.middle(ours), self.middle(theirs)), min(pairs), max(pairs))

    def processor_ratio(self, ours: str, theirs: str) -> float | None:
        """How many times less processor the first server took for a request."""
        our, their = self.processor.get(ours), self.processor.get(theirs)
        if not our or not their or not statistics.median(our):
            return None
        return statistics.median(their) / statistics.median(our)

    def _better(self, our: float, their: float) -> float:
        if self.more_is_better:
            return our / their if their else float("inf")
        return their / our if our else float("inf")

    def as_json(self) -> dict[str, Any]:
        """Give everything, for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Finding:
        """Take what `as_json` gave."""
        return cls(**data)


def limit(samples: list[Sample]) -> str:
    """Say what kept a server from answering more, judged by which processes used the cores of the machine."""
    if any("server busy" not in sample for sample in samples):
        return ""
    server, load, others = (
        statistics.median([sample[f"{who} busy"] for sample in samples]) for who in ("server", "load", "others")
    )
    if server >= BUSY:
        who = "server"
    elif load >= BUSY:
        who = "GENERATOR"
    else:
        who = OTHER_WORK if others >= 1 - BUSY else "round trips"
    return f"{who} ({100 * server:.0f}/{100 * load:.0f}/{100 * others:.0f})"


def findings(workload: str, table: str, figures: tuple[Figure, ...], rounds: dict[str, list[Sample]]) -> list[Finding]:
    """Make a finding of each figure of a workload that was measured."""
    return [
        Finding(
            workload=workload + figure.suffix,
            unit=figure.unit,
            more_is_better=figure.more_is_better,
            table=table,
            rounds={who: [sample[figure.name] for sample in samples] for who, samples in rounds.items()},
            processor={
                who: [sample["processor"] for sample in samples]
                for who, samples in rounds.items()
                if all("processor" in sample for sample in samples)
            },
            limits={who: limit(samples) for who, samples in rounds.items()},
        )
        for figure in figures
    ]
