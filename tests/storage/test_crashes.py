"""No power cut loses what was acknowledged, nor leaves what never was. See crash_life.

HEADRACE_SEED=n      live only the life of that seed; a failure prints its seed, the power cuts, and what differs
HEADRACE_LONG=1      100,000 states, of seeds never used before
"""

from collections import Counter
from random import SystemRandom

import pytest

from support.campaign import LONG, SEED, live_until, replayed_by
from support.storage.crash_life import Life, time_of

STATES = 6_000
STATES_OF_CAMPAIGN = 100_000
STEPS = 60

COMMANDS = (
    *("XADD", "XREADGROUP", "XACK", "XGROUP", "XCLAIM", "XAUTOCLAIM", "XNACK", "XDEL", "XDELEX", "XACKDEL", "XTRIM"),
    *("XSETID", "SET", "LPUSH", "RPOP", "SADD", "SREM", "PEXPIRE", "PERSIST", "DEL", "RENAME", "MOVE", "EXEC"),
    *("BGREWRITEAOF", "BGSAVE", "SAVE", "CONFIG", "HEADRACE"),
)
SITUATIONS = (
    *("states while starting", "states while rewriting", "killed processes", "killed while starting"),
    *("starts that cut the end of a file", "starts that found less than there was"),
    *("increments that end with prepared space", "increments without the end of a group"),
    *("increments without the beginning of a group", "increments without the middle of a group"),
    *("steps while the disk is busy", "steps while a base is adopted", "writes in two halves"),
    *("steps while an increment is opened", "states while an increment is opened"),
    *("steps while the increment changes", "states while the increment changes"),
    "snapshots from elsewhere",
    *("nodes moved to segments", "states with segments", "starts with segments"),
    *("rules: trimmed", "rules: dropped", "rules: redelivered", "rules: retried", "rules: buried", "rules: removed"),
    "rules: created",
)


def live(seed: int) -> Counter[str]:
    """Live the life of a seed; how often what happened in it."""
    life = Life(f"{seed}")
    with replayed_by(seed), time_of(life.clock):
        life.live(STEPS)
    return life.tally


@pytest.mark.skipif(SEED is None, reason="HEADRACE_SEED names no seed")
def test_the_life_of_one_seed() -> None:
    assert SEED is not None
    assert live(SEED)["states"]


@pytest.mark.slow
@pytest.mark.skipif(SEED is not None, reason="one seed is replayed")
def test_every_state_that_a_power_cut_may_leave_holds_what_was_promised() -> None:
    tally = live_until("states", STATES, 0, live)
    assert tally["states"] >= STATES
    for name in COMMANDS:
        assert tally[name] >= 20, f"{name} was answered {tally[name]} times"
    for situation in SITUATIONS:
        assert tally[situation] >= 20, f"{situation}: {tally[situation]}"


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not LONG or SEED is not None, reason="a campaign: HEADRACE_LONG=1")
def test_a_campaign_of_power_cuts() -> None:
    first = SystemRandom().randrange(2**32)
    assert live_until("states", STATES_OF_CAMPAIGN, first, live)["states"] >= STATES_OF_CAMPAIGN


@pytest.mark.skipif(SEED is not None, reason="one seed is replayed")
def test_a_seed_lives_the_same_life_again() -> None:
    assert live(3) == live(3)
