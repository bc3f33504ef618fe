"""Hypothesis looks for the shortest run of steps after which a stream and its model differ."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.core.group import Verdict
from headrace.core.stream import Policy
from support.stream_model import GREATEST, ID, MOST, ZERO
from support.stream_twins import Twins

GROUPS = st.sampled_from([b"g1", b"g2", b"g3"])
CONSUMERS = st.sampled_from([b"a", b"b", b"c"])
POLICIES = st.sampled_from(Policy)
COUNTS = st.sampled_from([0, 1, 2, 7])
LIMITS = st.tuples(st.sampled_from([0, 1, 60, 150, 4096]), st.sampled_from([0, 1, 2, 3, 100]))
MILLISECONDS = st.integers(0, 40)  # both clocks: those of IDs and those of deliveries
NEAR = st.integers(0, 150)  # what Twins.near makes an ID of
NEAR_IDS = st.lists(NEAR, min_size=1, max_size=6)
DELIVERIES = st.none() | st.sampled_from([0, 1, 5, 2**32 - 3, 2**32 - 2, MOST - 1, MOST])
TEXTS = st.sampled_from([b"", b"v", b"12", b"-4096", b"99999999999", b"y" * 64]) | st.binary(max_size=8)
FIELDS = st.lists(st.tuples(st.sampled_from([b"f", b"g"]), TEXTS), min_size=1, max_size=3)
REQUESTS = (
    st.none()
    | MILLISECONDS
    | st.tuples(MILLISECONDS, st.integers(0, 4))
    | st.sampled_from([(2**63, 0), (2**64 - 1, 5), GREATEST])
)


class StreamMachine(RuleBasedStateMachine):
    @initialize(limits=LIMITS, entries=st.integers(0, 12))
    def begin(self, limits: tuple[int, int], entries: int) -> None:
        """Often with entries and a group that may read them, so that most runs get somewhere."""
        self.twins = Twins(*limits)
        for _ in range(entries):
            self.twins.append((b"f", b"v"), None, 1)
        if entries:
            self.twins.create_group(b"g1", ZERO, None)

    def ids(self, numbers: list[int]) -> list[ID]:
        return [self.twins.near(number) for number in numbers]

    def group(self, name: bytes) -> bytes:
        """The group of that name where there is one, else any."""
        groups = self.twins.model.groups
        return name if name in groups else next(iter(groups))

    def has_group(self) -> bool:
        return bool(self.twins.model.groups)

    # --- entries -----------------------------------------------------------------------------------------------

    @rule(fields=FIELDS, request=REQUESTS, now=MILLISECONDS)
    def append(self, fields: list[tuple[bytes, bytes]], request: ID | int | None, now: int) -> None:
        self.twins.append(tuple(text for pair in fields for text in pair), request, now)

    @rule(count=st.integers(1, 12))
    def append_several(self, count: int) -> None:
        for _ in range(count):
            self.twins.append((b"f", b"v"), None, 0)

    @rule(numbers=NEAR_IDS, policy=POLICIES)
    def delete(self, numbers: list[int], policy: Policy) -> None:
        self.twins.delete(self.ids(numbers), policy)

    @rule(length=st.integers(0, 30), approximate=st.booleans(), limit=COUNTS, policy=POLICIES)
    def trim_to_length(self, length: int, approximate: bool, limit: int, policy: Policy) -> None:
        self.twins.trim_to_length(length, approximate, limit, policy)

    @rule(number=NEAR, approximate=st.booleans(), limit=COUNTS, policy=POLICIES)
    def trim_to_id(self, number: int, approximate: bool, limit: int, policy: Policy) -> None:
        self.twins.trim_to_id(self.twins.near(number), approximate, limit, policy)

    @rule(
        number=NEAR,
        added=st.none() | st.sampled_from([-1, 0, 50, MOST - 1, MOST]),
        deleted=st.none() | NEAR,
    )
    def set_id(self, number: int, added: int | None, deleted: int | None) -> None:
        self.twins.set_id(self.twins.near(number), added, None if deleted is None else self.twins.near(deleted))

    @rule(limits=LIMITS)
    def set_limits(self, limits: tuple[int, int]) -> None:
        self.twins.set_limits(*limits)

    # --- groups ------------------------------------------------------------------------------------------------

    @rule(name=GROUPS, id=st.just(ZERO) | NEAR, position=st.none() | st.integers(0, 30))
    def create_group(self, name: bytes, id: ID | int, position: int | None) -> None:
        self.twins.create_group(name, self.twins.near(id) if isinstance(id, int) else id, position)

    @rule(name=GROUPS)
    def destroy_group(self, name: bytes) -> None:
        self.twins.destroy_group(name)

    @precondition(has_group)
    @rule(name=GROUPS, number=NEAR, position=st.none() | st.integers(0, 30))
    def group_set_id(self, name: bytes, number: int, position: int | None) -> None:
        self.twins.group_set_id(self.group(name), self.twins.near(number), position)

    @precondition(has_group)
    @rule(name=GROUPS, consumer=CONSUMERS, now=MILLISECONDS)
    def create_consumer(self, name: bytes, consumer: bytes, now: int) -> None:
        self.twins.create_consumer(self.group(name), consumer, now)

    @precondition(has_group)
    @rule(name=GROUPS, consumer=CONSUMERS)
    def delete_consumer(self, name: bytes, consumer: bytes) -> None:
        self.twins.delete_consumer(self.group(name), consumer)

    @precondition(has_group)
    @rule(name=GROUPS, consumer=CONSUMERS, now=MILLISECONDS, count=COUNTS, noack=st.booleans())
    def read_new(self, name: bytes, consumer: bytes, now: int, count: int, noack: bool) -> None:
        self.twins.read_new(self.group(name), consumer, now, count, noack)

    @precondition(has_group)
    @rule(name=GROUPS, consumer=CONSUMERS, number=NEAR, now=MILLISECONDS, count=COUNTS)
    def read_history(self, name: bytes, consumer: bytes, number: int, now: int, count: int) -> None:
        self.twins.read_history(self.group(name), consumer, self.twins.near(number), now, count)

    @precondition(has_group)
    @rule(name=GROUPS, consumer=CONSUMERS, min_idle=st.integers(0, 20), now=MILLISECONDS, count=COUNTS)
    def read_stale(self, name: bytes, consumer: bytes, min_idle: int, now: int, count: int) -> None:
        self.twins.read_stale(self.group(name), consumer, min_idle, now, count)

    @precondition(has_group)
    @rule(name=GROUPS, numbers=NEAR_IDS)
    def acknowledge(self, name: bytes, numbers: list[int]) -> None:
        self.twins.acknowledge(self.group(name), self.ids(numbers))

    @rule(name=GROUPS, numbers=NEAR_IDS, policy=POLICIES)
    def acknowledge_and_delete(self, name: bytes, numbers: list[int], policy: Policy) -> None:
        self.twins.acknowledge_and_delete(name, self.ids(numbers), policy)

    @precondition(has_group)
    @rule(
        name=GROUPS,
        consumer=CONSUMERS,
        numbers=NEAR_IDS,
        min_idle=st.integers(-1, 20),
        now=MILLISECONDS,
        time=st.none() | st.integers(-1, 41),
        deliveries=DELIVERIES,
        force=st.booleans(),
        just_id=st.booleans(),
    )
    def claim(
        self,
        name: bytes,
        consumer: bytes,
        numbers: list[int],
        min_idle: int,
        now: int,
        *,
        time: int | None,
        deliveries: int | None,
        force: bool,
        just_id: bool,
    ) -> None:
        ids = self.ids(numbers)
        self.twins.claim(
            self.group(name),
            consumer,
            ids,
            min_idle,
            now,
            time=time,
            deliveries=deliveries,
            force=force,
            just_id=just_id,
        )

    @precondition(has_group)
    @rule(
        name=GROUPS,
        consumer=CONSUMERS,
        min_idle=st.integers(0, 20),
        number=NEAR,
        now=MILLISECONDS,
        count=st.sampled_from([1, 2, 100]),
        just_id=st.booleans(),
    )
    def auto_claim(
        self, name: bytes, consumer: bytes, min_idle: int, number: int, now: int, *, count: int, just_id: bool
    ) -> None:
        start = self.twins.near(number)
        self.twins.auto_claim(self.group(name), consumer, min_idle, start, now, count=count, just_id=just_id)

    @precondition(has_group)
    @rule(name=GROUPS, numbers=NEAR_IDS, verdict=st.sampled_from(Verdict), deliveries=DELIVERIES, force=st.booleans())
    def release(self, name: bytes, numbers: list[int], verdict: Verdict, deliveries: int | None, force: bool) -> None:
        self.twins.release(self.group(name), self.ids(numbers), verdict, deliveries, force)

    # --- walks and whole streams -------------------------------------------------------------------------------

    @rule(start=st.none() | NEAR, end=st.none() | NEAR, count=COUNTS, reverse=st.booleans())
    def open_walk(self, start: int | None, end: int | None, count: int, reverse: bool) -> None:
        self.twins.open_walk(
            ZERO if start is None else self.twins.near(start),
            GREATEST if end is None else self.twins.near(end),
            count,
            reverse,
        )

    @precondition(lambda self: bool(self.twins.walks))
    @rule(number=st.integers(0, 5))
    def step_walk(self, number: int) -> None:
        self.twins.step_walk(number)

    @rule()
    def continue_with_copy(self) -> None:
        self.twins.continue_with_copy()

    @rule(compatibility=st.sampled_from(["auto", "8.8"]))
    def continue_with_restored(self, compatibility: str) -> None:
        self.twins.continue_with_restored(compatibility)

    @rule()
    def compare_everything(self) -> None:
        self.twins.check_everything()

    @invariant()
    def counters_agree(self) -> None:
        if hasattr(self, "twins"):
            self.twins.check_counters()

    def teardown(self) -> None:
        if hasattr(self, "twins"):
            self.twins.check_everything()


StreamMachine.TestCase.settings = settings(stateful_step_count=60)
TestStreamAgainstItsModel = pytest.mark.slow(StreamMachine.TestCase)
