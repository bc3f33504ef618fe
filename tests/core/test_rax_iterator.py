"""An iterator of a radix tree steps as one over a sorted list would, while the tree changes under it."""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from headrace import core
from headrace.core.memory import fail_after, fail_never
from headrace.core.rax_map import RaxMap
from support.campaign import LONG


def tree_of(*keys: bytes) -> RaxMap:
    tree = RaxMap()
    for key in keys:
        tree[key] = key.decode()
    return tree


def nearest(ordered: list[bytes], op: str, key: bytes) -> bytes | None:
    """The element that a seek finds in a sorted list of keys; None where there is none."""
    if op == "^":
        return ordered[0] if ordered else None
    if op == "$":
        return ordered[-1] if ordered else None
    if op == "=":
        return key if key in ordered else None
    if op in (">", ">="):
        place = bisect_right(ordered, key) if op == ">" else bisect_left(ordered, key)
        return ordered[place] if place < len(ordered) else None
    place = bisect_left(ordered, key) if op == "<" else bisect_right(ordered, key)
    return ordered[place - 1] if place else None


CROWDED_KEYS = st.lists(st.sampled_from([b"a", b"b", b"c", b"ab", b"aaaa"]), max_size=6).map(b"".join)
STREAM_KEYS = st.builds(lambda ms, seq: struct.pack(">QQ", ms, seq), st.integers(0, 700), st.integers(0, 300))
LONG_KEYS = st.integers(0, 60).map(lambda size: b"ab" * size)
KEYS = CROWDED_KEYS | STREAM_KEYS | LONG_KEYS
OPS = st.sampled_from(["^", "$", "=", ">", ">=", "<", "<="])


class IteratorAndSortedList(RuleBasedStateMachine):
    @initialize(keys=st.lists(KEYS, max_size=25))
    def fill(self, keys: list[bytes]) -> None:
        self.tree = RaxMap()
        self.model: dict[bytes, int | None] = {}
        for key in keys:
            self.tree[key] = self.model[key] = len(key)
        self.walk = self.tree.iterator()
        self.current: bytes | None = None
        self.given = False

    @rule(op=OPS, key=KEYS)
    def seek(self, op: str, key: bytes) -> None:
        self.current = nearest(sorted(self.model), op, key)
        self.given = False
        assert self.walk.seek(op, key) == (self.current is not None)

    @precondition(lambda self: self.current is not None)
    @rule(op=OPS)
    def seek_from_its_own_key(self, op: str) -> None:
        self.seek(op, self.current)

    @rule(times=st.integers(1, 4))
    def next(self, times: int) -> None:
        for _ in range(times):
            self.step(self.walk.next, ">")

    @rule(times=st.integers(1, 4))
    def prev(self, times: int) -> None:
        for _ in range(times):
            self.step(self.walk.prev, "<")

    def step(self, call: Callable[[], tuple[bytes, Any] | None], direction: str) -> None:
        if self.current is None:
            assert call() is None
            return
        target = nearest(sorted(self.model), direction if self.given else direction + "=", self.current)
        assert call() == (None if target is None else (target, self.model[target]))
        assert self.walk.key == (self.current if target is None else target)
        self.current = target
        self.given = True

    @rule(key=KEYS, value=st.none() | st.integers(1, 9))
    def insert(self, key: bytes, value: int | None) -> None:
        self.tree[key] = self.model[key] = value

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model)))
        del self.tree[key], self.model[key]

    @precondition(lambda self: self.current in self.model)
    @rule()
    def remove_the_current_key(self) -> None:
        assert self.current is not None
        del self.tree[self.current], self.model[self.current]

    @precondition(lambda self: self.current in self.model)
    @rule(value=st.none() | st.integers(10, 19))
    def replace_the_current_value(self, value: int | None) -> None:
        assert self.current is not None
        self.tree[self.current] = self.model[self.current] = value

    @precondition(lambda self: len(self.model) > 20)
    @rule()
    def clear(self) -> None:
        self.tree.clear()
        self.model.clear()


TestIteratorAndSortedList = pytest.mark.slow(IteratorAndSortedList.TestCase)
TestIteratorAndSortedList.settings = settings(
    max_examples=3000 if LONG else 200, stateful_step_count=100 if LONG else 50, deadline=None
)

TREE = [b"", b"alien", b"baloon", b"chromodynamic", b"romane", b"romanus", b"romulus", b"rubens", b"ruber", b"rubicon"]
SOUGHT = sorted({*TREE, *(key[:-1] for key in TREE), *(key + b"\x00" for key in TREE), b"rom", b"zoo", b"ro\xff", b"A"})


@pytest.mark.parametrize("op", ["^", "$", "=", ">", ">=", "<", "<="])
@pytest.mark.parametrize(
    "keys", [TREE, TREE[1:], TREE[:1], []], ids=["all", "no empty key", "only the empty key", "none"]
)
def test_a_seek_finds_the_nearest_element_and_the_first_step_gives_it(op: str, keys: list[bytes]) -> None:
    walk = tree_of(*keys).iterator()
    for key in SOUGHT:
        for call in (walk.next, walk.prev):
            target = nearest(keys, op, key)
            assert walk.seek(op, key) == (target is not None)
            assert call() == (None if target is None else (target, target.decode()))


def test_the_iterator_turns_round_at_any_element() -> None:
    walk = tree_of(*TREE).iterator()
    for place in range(1, len(TREE)):
        walk.seek("=", TREE[place])
        assert walk.next() == (TREE[place], TREE[place].decode())
        assert walk.prev() == (TREE[place - 1], TREE[place - 1].decode())
        assert walk.next() == (TREE[place], TREE[place].decode())


def test_the_end_keeps_the_key_and_stays_the_end_until_the_next_seek() -> None:
    tree = tree_of(b"tap", b"toad")
    walk = tree.iterator()
    assert walk.next() is None
    walk.seek("$")
    assert walk.next() == (b"toad", "toad")
    assert walk.next() is None
    assert walk.key == b"toad"
    tree[b"zoo"] = "zoo"
    assert walk.next() is None
    assert walk.prev() is None
    assert walk.seek(">", walk.key)
    assert walk.next() == (b"zoo", "zoo")


def test_an_element_removed_after_the_seek_is_not_given() -> None:
    tree = tree_of(b"tap", b"tape", b"toad")
    walk = tree.iterator()
    walk.seek("=", b"tape")
    del tree[b"tape"]
    assert walk.next() == (b"toad", "toad")
    walk.seek("=", b"toad")
    del tree[b"toad"]
    assert walk.prev() == (b"tap", "tap")


def test_every_element_may_be_removed_while_it_is_visited() -> None:
    tree = tree_of(*TREE)
    seen = []
    for key in tree:
        seen.append(key)
        del tree[key]
    assert seen == TREE
    assert len(tree) == 0


def test_the_iterator_keeps_its_tree_alive() -> None:
    walk = tree_of(b"tap").iterator()
    walk.seek("^")
    assert walk.next() == (b"tap", "tap")


@pytest.mark.parametrize("op", ["", "==", "=>", "<<", ">=x", "^=", "é", ">\x00"])
def test_an_unknown_seek_is_refused_in_a_sentence(op: str) -> None:
    with pytest.raises(ValueError, match="a seek is one of"):
        tree_of(b"tap").iterator().seek(op, b"tap")


@pytest.mark.parametrize(("op", "key"), [(None, b""), (b"=", b""), ("=", "tap"), ("=", None)])
def test_a_seek_with_other_types_is_refused(op: str, key: bytes) -> None:
    with pytest.raises(TypeError):
        tree_of(b"tap").iterator().seek(op, key)


def test_an_iterator_short_of_memory_raises_and_works_again_after_a_seek() -> None:
    deep = [b"ab" * size for size in range(40)]
    tree = tree_of(*deep)
    refused = 0
    for allocations in count():
        walk = tree.iterator()
        fail_after(allocations)
        try:
            found = walk.seek("$")
        except MemoryError:
            fail_never()
            refused += 1
            assert walk.next() is None
            assert walk.seek("$")
            assert walk.next() == (deep[-1], deep[-1].decode())
        else:
            assert found
            break
        finally:
            fail_never()
    assert refused >= 2


@given(keys=st.sets(KEYS, max_size=25), start=KEYS, end=KEYS | st.none())
def test_ranges_and_prefixes_give_what_a_sorted_list_gives(keys: set[bytes], start: bytes, end: bytes | None) -> None:
    tree = core.RaxMap()
    for key in keys:
        tree[key] = len(key)
    ordered = [(key, len(key)) for key in sorted(keys)]
    assert list(tree.range(start, end)) == [
        pair for pair in ordered if start <= pair[0] and (end is None or pair[0] < end)
    ]
    assert list(tree.prefix(start)) == [pair for pair in ordered if pair[0].startswith(start)]
    assert list(tree.range()) == list(tree.prefix(b"")) == ordered
