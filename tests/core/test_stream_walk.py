"""A long random walk of a stream and its model through everything that the Python face can do.

The walk is seeded: where it fails it names the seed, and HEADRACE_SEED=<seed> replays that stretch alone.
"""

import os
import random

import pytest

from headrace.core.group import Verdict
from headrace.core.stream import Policy
from support.campaign import LONG
from support.stream_model import GREATEST, ID, MOST, ZERO
from support.stream_twins import Twins

SEED = os.environ.get("HEADRACE_SEED")
STRETCHES = 5000 if LONG else 60
STEPS = 400

GROUPS = (b"g1", b"g2", b"a-group-whose-name-is-longer-than-thirty-two-bytes")
CONSUMERS = (b"a", b"b", b"c", b"")
DELIVERIES = (None, None, None, 0, 1, 7, 2**32 - 3, 2**32 - 2, 2**32 - 1, MOST - 1, MOST)
# (max_bytes, max_entries): nodes of one entry, of a few, of hundreds (whose counters grow wide), and the defaults.
LIMITS = ((4096, 100), (1, 0), (120, 0), (0, 3), (300, 5), (0, 300), (100_000, 0))
NAMES = (b"f", b"field", b"7", b"-1", b"x" * 70)
VALUES = (
    b"",
    b"v",
    b"0",
    b"-0",
    b"007",
    b"127",
    b"128",
    b"-4097",
    b"40000",
    b"9999999",
    b"2147483648",
    b"9223372036854775807",
    b"9223372036854775808",
    b"y" * 63,
    b"y" * 64,
    b"y" * 128,
    b"y" * 4096,
)


class RandomWalk:
    """Takes random steps; what is common in use is common here, so that streams grow, age and empty."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.twins = Twins(*self.rng.choice(LIMITS))
        self.now = 1000
        self.origin = self.rng.choice((0, 0, 0, 2**40, 2**63 - 20, 2**64 - 200))
        self.steps = [
            (self.append, 20),
            (self.append_many, 2),
            (self.delete, 6),
            (self.trim_to_length, 2),
            (self.trim_to_id, 3),
            (self.set_id, 1.5),
            (self.set_limits, 0.3),
            (self.create_group, 2),
            (self.destroy_group, 0.3),
            (self.group_set_id, 1.5),
            (self.change_consumers, 1),
            (self.read_new, 12),
            (self.read_history, 3),
            (self.read_stale, 5),
            (self.acknowledge, 5),
            (self.acknowledge_and_delete, 3),
            (self.claim, 6),
            (self.auto_claim, 4),
            (self.release, 4),
            (self.open_walk, 2),
            (self.step_walk, 8),
            (self.copy, 0.3),
            (self.restore, 0.3),
        ]
        self.actions = [action for action, _ in self.steps]
        self.weights = [weight for _, weight in self.steps]

    def run(self, steps: int) -> None:
        for step in range(steps):
            self.rng.choices(self.actions, self.weights)[0]()
            self.twins.check_counters()
            if step % 50 == 0:
                self.twins.check_everything()
        self.twins.check_everything()

    # --- values ------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def time(self) -> int:
        """Mostly on, sometimes standing still, and now and then a clock that was set back."""
        self.now = max(0, self.now + self.rng.choice((0, 0, 1, 1, 2, 5, 20, -7)))
        return self.now

    def id(self) -> ID:
        if self.chance(0.05):
            return self.rng.choice((ZERO, GREATEST, self.twins.model.last_id, self.twins.model.first_id))
        return self.twins.near(self.rng.randrange(400))

    def ids(self) -> list[ID]:
        return [self.id() for _ in range(self.rng.choice((1, 1, 2, 5, 12)))]

    def group(self) -> bytes | None:
        groups = self.twins.model.groups
        return self.rng.choice(sorted(groups)) if groups else None

    def consumer(self) -> bytes:
        return self.rng.choice(CONSUMERS)

    def policy(self) -> Policy:
        return self.rng.choice(tuple(Policy))

    def fields(self) -> tuple[bytes, ...]:
        count = self.rng.choice((1, 1, 1, 1, 2, 2, 3)) if self.chance(0.99) else 70
        names = NAMES[:2] if self.chance(0.8) else NAMES
        values = VALUES[:-1] if self.chance(0.97) else VALUES
        return tuple(self.rng.choice(kind) for _ in range(count) for kind in (names, values))

    # --- entries -----------------------------------------------------------------------------------------------

    def append(self) -> None:
        last_ms, last_seq = self.twins.model.last_id
        ms = max(self.origin, last_ms) + self.rng.choice((-1, 0, 0, 0, 1, 1, 3))
        ms = min(max(ms, 0), 2**64 - 1)
        seq = self.rng.choice((0, 0, 1, 2, last_seq + 1, max(last_seq - 1, 0)))
        request = self.rng.choice((None, ms, (ms, min(seq, 2**64 - 1))))
        self.twins.append(self.fields(), request, ms)

    def append_many(self) -> None:
        fields = self.fields()
        for _ in range(self.rng.choice((5, 20, 150))):
            self.twins.append(fields, None, 0)

    def delete(self) -> None:
        self.twins.delete(self.ids(), self.policy())

    def trim_to_length(self) -> None:
        length = self.rng.randrange(self.twins.model.length + 2)
        self.twins.trim_to_length(length, self.chance(0.5), self.rng.choice((0, 0, 1, 5, 30)), self.policy())

    def trim_to_id(self) -> None:
        self.twins.trim_to_id(self.id(), self.chance(0.5), self.rng.choice((0, 0, 1, 5, 30)), self.policy())

    def set_id(self) -> None:
        if self.chance(0.02):
            self.twins.set_id(GREATEST, None, None)
        added = self.rng.choice((None, None, 0, self.twins.model.entries_added + 5, -1, MOST, MOST - 3))
        max_deleted = self.rng.choice((None, None, ZERO, self.id(), (0, 1)))
        self.twins.set_id(self.id(), added, max_deleted)
        if self.chance(0.3):
            # Rewriting what was deleted lets the last ID go back, as far as the last tombstone that is still stored.
            self.twins.set_id(self.twins.model.last_id, None, (0, 1))
            self.twins.set_id(next(reversed(self.twins.model.alive), ZERO), None, None)

    def set_limits(self) -> None:
        self.twins.set_limits(*self.rng.choice(LIMITS))

    # --- groups ------------------------------------------------------------------------------------------------

    def create_group(self) -> None:
        self.twins.create_group(self.rng.choice(GROUPS), self.id(), self.rng.choice((None, None, 0, 3, 10**6)))

    def destroy_group(self) -> None:
        self.twins.destroy_group(self.rng.choice(GROUPS))

    def group_set_id(self) -> None:
        if group := self.group():
            positions = (None, None, 0, self.twins.model.entries_added)
            self.twins.group_set_id(group, self.id(), self.rng.choice(positions))

    def change_consumers(self) -> None:
        if group := self.group():
            if self.chance(0.5):
                self.twins.create_consumer(group, self.consumer(), self.time())
            else:
                self.twins.delete_consumer(group, self.consumer())

    def read_new(self) -> None:
        if group := self.group():
            count = self.rng.choice((0, 1, 1, 2, 5, 50))
            self.twins.read_new(group, self.consumer(), self.time(), count, self.chance(0.1))

    def read_history(self) -> None:
        if group := self.group():
            after = ZERO if self.chance(0.5) else self.id()
            self.twins.read_history(group, self.consumer(), after, self.time(), self.rng.choice((0, 1, 5)))

    def read_stale(self) -> None:
        if group := self.group():
            min_idle = self.rng.choice((0, 0, 1, 5, 20))
            self.twins.read_stale(group, self.consumer(), min_idle, self.time(), self.rng.choice((0, 1, 5)))

    def acknowledge(self) -> None:
        if group := self.group():
            self.twins.acknowledge(group, self.ids())

    def acknowledge_and_delete(self) -> None:
        self.twins.acknowledge_and_delete(self.rng.choice(GROUPS), self.ids(), self.policy())

    def claim(self) -> None:
        if group := self.group():
            now = self.time()
            self.twins.claim(
                group,
                self.consumer(),
                self.ids(),
                self.rng.choice((-1, 0, 0, 1, 5, 20)),
                now,
                time=self.rng.choice((None, None, 0, now - 3, now - 10, now + 1, -1)),
                deliveries=self.rng.choice(DELIVERIES),
                force=self.chance(0.5),
                just_id=self.chance(0.3),
            )

    def auto_claim(self) -> None:
        if group := self.group():
            min_idle, count = self.rng.choice((0, 1, 5, 20)), self.rng.choice((1, 2, 5, 100))
            start = ZERO if self.chance(0.5) else self.id()
            self.twins.auto_claim(
                group, self.consumer(), min_idle, start, self.time(), count=count, just_id=self.chance(0.3)
            )

    def release(self) -> None:
        if group := self.group():
            verdict = self.rng.choice(tuple(Verdict))
            self.twins.release(group, self.ids(), verdict, self.rng.choice(DELIVERIES), self.chance(0.3))

    # --- walks and whole streams -------------------------------------------------------------------------------

    def open_walk(self) -> None:
        if len(self.twins.walks) < 4:
            start = ZERO if self.chance(0.5) else self.id()
            end = GREATEST if self.chance(0.5) else self.id()
            self.twins.open_walk(start, end, self.rng.choice((0, 0, 0, 1, 10)), self.chance(0.5))

    def step_walk(self) -> None:
        if self.twins.walks:
            self.twins.step_walk(self.rng.randrange(4))

    def copy(self) -> None:
        self.twins.continue_with_copy()

    def restore(self) -> None:
        self.twins.continue_with_restored(self.rng.choice(("auto", "8.8")))


@pytest.mark.slow
@pytest.mark.timeout(7200 if LONG else 300)
def test_a_stream_does_what_its_model_does_on_a_long_random_walk() -> None:
    first = random.SystemRandom().randrange(2**32) if LONG else 0
    for seed in [int(SEED)] if SEED else range(first, first + STRETCHES):
        try:
            RandomWalk(seed).run(STEPS)
        except BaseException as failure:
            failure.add_note(f"replay with HEADRACE_SEED={seed}")
            raise
