"""Whatever was done, at whatever time and under whatever settings, is there after a restart of any kind.

HEADRACE_SEED=n      live only the history of that seed; a failure prints its seed, its commands, and what differs
HEADRACE_LONG=1      200,000 histories, of seeds never used before
"""

from collections import Counter
from random import SystemRandom

import pytest

from support.campaign import LONG, SEED
from support.replay.any_command import writing_commands
from support.replay.replay_history import History

HISTORIES = 2_500
HISTORIES_OF_CAMPAIGN = 200_000
STEPS = 25

RESTARTS = ("kill", "stop", "rewrite", "reload", "load files")


def live(seed: int, tally: Counter[str]) -> None:
    history = History(seed, tally)
    try:
        history.live(STEPS)
    except Exception as error:
        error.add_note("\n".join(("The last lines were", *history.lines[-60:], f"HEADRACE_SEED={seed} replays this")))
        raise


@pytest.mark.skipif(SEED is None, reason="HEADRACE_SEED names no seed")
def test_the_history_of_one_seed() -> None:
    assert SEED is not None
    live(SEED, Counter[str]())


@pytest.mark.slow
@pytest.mark.skipif(SEED is not None, reason="one seed is replayed")
def test_every_restart_gives_back_the_whole_state() -> None:
    tally = Counter[str]()
    for seed in range(HISTORIES):
        live(seed, tally)
    for command in writing_commands():
        name = command.name.decode()
        done = tally[name] - tally[f"{name} refused"]
        assert done >= 5, f"{name} was written {tally[name]} times, and done {done} times"
    for restart in RESTARTS:
        assert tally[restart] >= 100, f"{restart}: {tally[restart]}"


@pytest.mark.long
@pytest.mark.timeout(36_000)
@pytest.mark.skipif(not LONG or SEED is not None, reason="a campaign: HEADRACE_LONG=1")
def test_a_campaign_of_histories() -> None:
    first = SystemRandom().randrange(2**32)
    tally = Counter[str]()
    for seed in range(first, first + HISTORIES_OF_CAMPAIGN):
        live(seed, tally)
    assert tally["kill"]
