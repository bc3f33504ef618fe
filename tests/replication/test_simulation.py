"""Whatever fails between three servers: all become equal again, and what was confirmed survives. See simulated_life.

HEADRACE_SEED=n      live only the life of that seed; a failure prints its seed, what servers said, and what differs
HEADRACE_LONG=1      100,000 schedules, of seeds never used before
"""

import gc
from collections import Counter
from functools import partial
from random import SystemRandom

import pytest

from support.campaign import LONG, SEED, live_until, replayed_by
from support.replication.simulated_life import Life
from support.replication.simulated_server import Process

PARTS = 5  # which several processes share
SCHEDULES = 10_000 // PARTS
SCHEDULES_WITHOUT = 1_000  # min-replicas-to-confirm
SCHEDULES_OF_CAMPAIGN = 100_000 // PARTS
SEEDS_OF_A_PART = 1_000
OF_A_LIFE = 50
SITUATIONS = (
    *(
        "promotions",
        "failovers",
        "failovers whose answer was lost",
        "masters that do not know yet",
        "chains",
        "lives with everysec",
        "power cuts",
    ),
    *("ended while starting", "full synchronisations", "partial synchronisations", "partial synchronisations refused"),
    *("XADD", "XREADGROUP", "XACK", "entries shown", "healed"),
    *("lives with a queue", "messages scheduled", "messages not delivered", "messages pending", "messages dead"),
    *("HEADRACE", "XNACK", "XAUTOCLAIM"),
)


def live(seed: int, *, confirms: bool) -> Counter[str]:
    """Live the life of a seed; how often what happened in it."""
    with replayed_by(seed):
        return Life(f"{seed}", confirms=confirms).live(OF_A_LIFE)


def live_schedules(schedules: int, first_seed: int, *, confirms: bool) -> Counter[str]:
    return live_until("schedules", schedules, first_seed, partial(live, confirms=confirms))


def check(tally: Counter[str]) -> None:
    """Fail where something hardly happened."""
    for situation in SITUATIONS:
        assert tally[situation] >= 3, f"{situation}: {tally[situation]}"


@pytest.mark.skipif(SEED is None, reason="HEADRACE_SEED names no seed")
@pytest.mark.parametrize("confirms", [True, False])
def test_the_life_of_one_seed(confirms: bool) -> None:
    assert SEED is not None
    assert live(SEED, confirms=confirms)["schedules"]


@pytest.mark.slow
@pytest.mark.skipif(SEED is not None, reason="one seed is replayed")
@pytest.mark.parametrize("part", range(PARTS))
def test_the_promoted_server_has_all_that_was_acknowledged_and_all_become_equal(part: int) -> None:
    tally = live_schedules(SCHEDULES, part * SEEDS_OF_A_PART, confirms=True)
    check(tally)
    assert tally["lost"] == 0


@pytest.mark.slow
@pytest.mark.skipif(SEED is not None, reason="one seed is replayed")
def test_without_confirmation_the_same_schedules_lose_something_and_all_become_equal() -> None:
    tally = live_schedules(SCHEDULES_WITHOUT, 0, confirms=False)
    check(tally)
    assert tally["lost"] > 0


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.skipif(not LONG or SEED is not None, reason="a campaign: HEADRACE_LONG=1")
@pytest.mark.parametrize("_part", range(PARTS))
def test_a_campaign_of_schedules(_part: int) -> None:
    first = SystemRandom().randrange(2**32)
    assert live_schedules(SCHEDULES_OF_CAMPAIGN, first, confirms=True)["lost"] == 0


@pytest.mark.skipif(SEED is not None, reason="one seed is replayed")
@pytest.mark.parametrize("confirms", [True, False])
def test_a_seed_lives_the_same_life_again(confirms: bool) -> None:
    assert live(3, confirms=confirms) == live(3, confirms=confirms)


@pytest.mark.skipif(SEED is not None, reason="one seed is replayed")
def test_a_life_leaves_no_server_in_memory() -> None:
    live(0, confirms=True)
    gc.collect()
    assert not [found for found in gc.get_objects() if isinstance(found, Process)]
