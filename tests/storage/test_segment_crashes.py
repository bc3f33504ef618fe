"""Whatever a published base names is whole after any power cut. See segment_life.

HEADRACE_SEED=n      live only the life of that seed; a failure prints its seed and the power cuts
HEADRACE_LONG=1      200,000 states, of seeds never used before
"""

from collections import Counter
from random import SystemRandom

import pytest

from support.campaign import LONG, SEED, live_until, replayed_by
from support.storage.segment_life import SegmentLife

STATES = 20_000
STATES_OF_CAMPAIGN = 200_000
STEPS = 60


def live(seed: int) -> Counter[str]:
    """Live the life of a seed; how often what happened in it."""
    life = SegmentLife(f"{seed}")
    with replayed_by(seed):
        life.live(STEPS)
    return life.tally


@pytest.mark.skipif(SEED is None, reason="HEADRACE_SEED names no seed")
def test_the_life_of_one_seed() -> None:
    assert SEED is not None
    assert live(SEED)["states"]


@pytest.mark.slow
@pytest.mark.skipif(SEED is not None, reason="one seed is replayed")
def test_every_state_that_a_power_cut_may_leave_has_what_a_base_names() -> None:
    tally = live_until("states", STATES, 0, live)
    for what in ("written", "published", "removed", "compacted", "orphans"):
        assert tally[what] >= 100, f"{what}: {tally[what]}"
    for operation in ("create", "write", "sync", "rename", "unlink"):
        assert tally[f"before {operation}"] >= 100, f"before {operation}: {tally[f'before {operation}']}"


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not LONG or SEED is not None, reason="a campaign: HEADRACE_LONG=1")
def test_a_campaign_of_power_cuts() -> None:
    first = SystemRandom().randrange(2**32)
    assert live_until("states", STATES_OF_CAMPAIGN, first, live)["states"] >= STATES_OF_CAMPAIGN
