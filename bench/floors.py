"""Below which ratio to redis-server a workload may not fall: what `make bench-quick` holds a change to.

A floor is the ratio that quiet runs have always reached, rounded down. A run is below it when its ratio is smaller than
the floor by more than the tolerance, twice in a row. When other processes used the cores meanwhile, the clock says
little: then it is enough that the ratio of the servers' processor time reaches the floor.
"""

from __future__ import annotations

from headrace.measuring.samples import OTHER_WORK, Finding
from headrace.measuring.targets import HEADRACE

TOLERANCE = 0.15

FLOORS: dict[str, float] = {
    "XADD, pipeline 1": 0.95,
    "XADD, pipeline 16": 1.45,
    "XADD, pipeline 64": 2.0,
    "XRANGE COUNT 100": 1.8,
    "XREVRANGE COUNT 100": 1.8,
    "XREAD COUNT 100": 1.8,
    "XREADGROUP COUNT 100": 4.0,
    "XREADGROUP COUNT 10 + XACK, 4 consumers": 1.4,
    "XREAD, 100 blocked readers, p50": 0.9,
    "XAUTOCLAIM COUNT 100, 200,000 pending": 4.0,
    "XPENDING - + 100, 200,000 pending": 1.5,
    "XLEN, pipeline 16": 1.1,
    "XDEL, 100 IDs at random": 2.0,
    "always: XADD, pipeline 16": 1.4,
    "everysec: XADD, pipeline 16": 1.5,
    "in process: add": 15.0,
}


def below_floor(finding: Finding, theirs: str) -> bool:
    """Whether a finding is below its floor by more than noise; what has no floor or no other side never is."""
    ratio = finding.ratio(HEADRACE, theirs)
    floor = FLOORS.get(finding.workload)
    if ratio is None or floor is None:
        return False
    bound = floor * (1 - TOLERANCE)
    disturbed = any(who.startswith(OTHER_WORK) for who in finding.limits.values())
    cost = finding.processor_ratio(HEADRACE, theirs) if disturbed else None
    return ratio.middle < bound and (cost is None or cost < bound)
