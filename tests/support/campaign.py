"""How long the tests run: a few minutes before a merge, or a campaign of hours.

`HEADRACE_LONG=1` (make test-long) makes it a campaign. `HEADRACE_BRIEF=1` (make test-asan, make coverage) leaves a
fifth of the examples of hypothesis, where each takes many times as long. `HEADRACE_SEED=n` replays the seed that a
failure named.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

LONG = os.environ.get("HEADRACE_LONG") == "1"
BRIEF = os.environ.get("HEADRACE_BRIEF") == "1"
SEED = int(os.environ["HEADRACE_SEED"]) if os.environ.get("HEADRACE_SEED") else None


@contextmanager
def replayed_by(seed: int) -> Iterator[None]:
    """Let a failure name the seed that replays it."""
    try:
        yield
    except Exception as error:
        error.add_note(f"HEADRACE_SEED={seed} replays this")
        raise


def live_until(what: str, least: int, first_seed: int, live: Callable[[int], Counter[str]]) -> Counter[str]:
    """Live the lives of one seed after the other until something was counted so often; the counts of all of them."""
    tally = Counter[str]()
    for seed in count(first_seed):
        tally += live(seed)
        if tally[what] >= least:
            return tally
    raise AssertionError
