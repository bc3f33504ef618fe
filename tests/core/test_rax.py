"""The radix tree holds what a dict holds, in order, in the shape that Redis gives it, whatever fails on the way."""

import gc
import random
import struct
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from itertools import count, pairwise, takewhile
from typing import TYPE_CHECKING, Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.core.memory import fail_after, fail_never
from headrace.core.rax_drawing import draw
from headrace.core.rax_map import RaxMap
from support.campaign import LONG

if TYPE_CHECKING:
    from headrace.core.rax_drawing import NodeShape, TreeShape


def stream_key(ms: int, seq: int = 0) -> bytes:
    return struct.pack(">QQ", ms, seq)


def tree_of(*keys: bytes) -> RaxMap:
    tree = RaxMap()
    for key in keys:
        tree[key] = key.decode("latin-1")
    return tree


def nodes_of(tree: RaxMap) -> "Iterator[NodeShape]":
    to_do = [tree.shape()["head"]]
    while to_do:
        node = to_do.pop()
        to_do.extend(node["children"])
        yield node


def expected_nodes(keys: Iterable[bytes]) -> int:
    """How many nodes a tree of these keys has: the head, the keys, the forks and the nodes right below a fork."""
    nodes = {b"", *keys}
    ordered = sorted(keys)
    for lower, upper in pairwise(ordered):
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(lower, upper, strict=False)))
        fork = lower[:shared]
        if fork != lower:
            nodes |= {fork, lower[: len(fork) + 1], upper[: len(fork) + 1]}
    return len(nodes)


def assert_well_formed(tree: RaxMap, merged: bool = True) -> None:
    shape = tree.shape()
    keys = nodes = 0
    to_do = [(shape["head"], False)]
    while to_do:
        node, below_single = to_do.pop()
        nodes += 1
        keys += node["is_key"]
        edges, children = node["edges"], node["children"]
        if node["kind"] == "compressed":
            assert len(edges) >= 2
            assert len(children) == 1
        else:
            assert list(edges) == sorted(set(edges))
            assert len(children) == len(edges)
        assert node["is_key"] or not node["has_value"]
        assert children or node["is_key"] or nodes == 1, "a leaf that is no key"
        single = len(children) == 1
        assert not (merged and below_single and single and not node["is_key"]), "a chain that should have been merged"
        to_do.extend((child, single) for child in children)
    assert keys == shape["numele"] == tree.numele == len(tree)
    assert nodes == shape["numnodes"] == tree.numnodes


def assert_same(tree: RaxMap, model: dict[bytes, Any]) -> None:
    assert list(tree.items()) == sorted(model.items())
    assert len(tree) == len(model)


def picture(tree: RaxMap) -> "tuple[TreeShape, list[tuple[bytes, Any]]]":
    """Everything that an insertion without memory must leave alone."""
    return tree.shape(), list(tree.items())


CROWDED_KEYS = st.lists(st.sampled_from([b"a", b"b", b"c", b"ab", b"aaaa"]), max_size=6).map(b"".join)
STREAM_KEYS = st.builds(stream_key, st.integers(0, 700) | st.integers(0, 2**64 - 1), st.integers(0, 300))
KEYS = CROWDED_KEYS | STREAM_KEYS | st.binary(max_size=3)
VALUES = st.none() | st.integers(1, 9)
ABSENT = b"longer than any key that is drawn"


class TreeAndDict(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.tree = RaxMap()
        self.model: dict[bytes, int | None] = {}
        self.merged = True

    @rule(key=KEYS, value=VALUES)
    def insert(self, key: bytes, value: int | None) -> None:
        assert self.tree.insert(key, value) == (key not in self.model)
        self.model[key] = value

    @rule(key=KEYS, value=VALUES)
    def try_insert(self, key: bytes, value: int | None) -> None:
        assert self.tree.try_insert(key, value) == (key not in self.model)
        self.model.setdefault(key, value)

    @rule(key=KEYS, value=VALUES, allocations=st.integers(0, 4))
    def insert_short_of_memory(self, key: bytes, value: int | None, allocations: int) -> None:
        before = picture(self.tree)
        fail_after(allocations)
        try:
            self.tree.insert(key, value)
        except MemoryError:
            fail_never()
            assert picture(self.tree) == before
        else:
            self.model[key] = value
        finally:
            fail_never()

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model)))
        assert self.tree.remove(key) == self.model.pop(key)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), allocations=st.integers(0, 2))
    def remove_short_of_memory(self, data: st.DataObject, allocations: int) -> None:
        key = data.draw(st.sampled_from(sorted(self.model)))
        fail_after(allocations)
        try:
            assert self.tree.remove(key) == self.model.pop(key)
        finally:
            fail_never()
        self.merged = False

    @rule(key=KEYS)
    def remove_what_may_be_absent(self, key: bytes) -> None:
        if key in self.model:
            assert self.tree.remove(key) == self.model.pop(key)
        else:
            with pytest.raises(KeyError):
                self.tree.remove(key)

    @rule(key=KEYS)
    def find(self, key: bytes) -> None:
        assert self.tree.find(key, "absent") == self.model.get(key, "absent")
        assert (key in self.tree) == (key in self.model)

    @rule(key=KEYS)
    def find_floor(self, key: bytes) -> None:
        floor = max((k for k in self.model if k <= key), default=ABSENT)
        assert self.tree.find_floor(key, "absent") == self.model.get(floor, "absent")

    @precondition(lambda self: len(self.model) > 12)
    @rule()
    def clear(self) -> None:
        self.tree.clear()
        self.model.clear()
        self.merged = True

    @invariant()
    def they_agree(self) -> None:
        assert_same(self.tree, self.model)
        assert_well_formed(self.tree, self.merged)
        if self.merged:
            assert self.tree.numnodes == expected_nodes(self.model)
        first, last = min(self.model, default=ABSENT), max(self.model, default=ABSENT)
        assert self.tree.find_first("absent") == self.model.get(first, "absent")
        assert self.tree.find_last("absent") == self.model.get(last, "absent")


TestTreeAndDict = pytest.mark.slow(TreeAndDict.TestCase)
TestTreeAndDict.settings = settings(
    max_examples=3000 if LONG else 200, stateful_step_count=100 if LONG else 50, deadline=None
)


@pytest.mark.parametrize(
    ("ids", "nodes"),
    [
        ([], 1),
        ([(1, 0)], 2),
        ([(1, 0), (2, 0)], 6),
        ([(1, 0), (1, 100), (1, 200)], 5),
        ([(1, 0), (1, 256)], 6),
    ],
)
def test_node_counts_are_those_of_redis_8_10(ids: list[tuple[int, int]], nodes: int) -> None:
    assert tree_of(*(stream_key(*entry) for entry in ids)).numnodes == nodes


@given(st.lists(KEYS, unique=True, max_size=30), st.randoms(use_true_random=False))
def test_the_shape_depends_on_the_keys_and_not_on_the_order_of_changes(
    keys: list[bytes], chance: random.Random
) -> None:
    shuffled = list(keys)
    chance.shuffle(shuffled)
    passing = [key + b"b" for key in keys if key + b"b" not in keys] + [key[:1] for key in keys if key[:1] not in keys]
    detour = tree_of(*shuffled, *passing)
    for key in set(passing):
        detour.remove(key)
    plain = tree_of(*keys)
    assert detour.shape()["head"] == plain.shape()["head"]


def test_removing_everything_leaves_one_small_empty_node() -> None:
    tree = RaxMap()
    keys = [stream_key(random.Random(n).getrandbits(64), n) for n in range(2000)]
    for key in keys:
        tree[key] = key
    for key in keys:
        del tree[key]
    assert (tree.numele, tree.numnodes) == (0, 1)
    assert tree.allocated < 64


def test_node_counts_follow_redis_through_additions_and_deletions(redis_server: redis.Redis) -> None:
    redis_server.config_set("stream-node-max-entries", 1)
    chance = random.Random(7)
    tree, ms, seq = RaxMap(), 0, 0
    alive: list[tuple[int, int]] = []
    for _ in range(2000 if LONG else 300):
        if alive and chance.random() < 0.45:
            entry = alive.pop(chance.randrange(len(alive)))
            redis_server.xdel("s", "{}-{}".format(*entry))
            tree.remove(stream_key(*entry))
        else:
            if chance.random() < 0.5:
                seq += chance.choice([1, 1, 2, 100, 256, 70000])
            else:
                ms, seq = ms + chance.choice([1, 1, 255, 256, 65536, 2**33]), chance.choice([0, 1, 500])
            redis_server.xadd("s", {"f": "v"}, id=f"{ms}-{seq}")
            tree[stream_key(ms, seq)] = None
            alive.append((ms, seq))
        info = redis_server.xinfo_stream("s")
        assert (info["radix-tree-keys"], info["radix-tree-nodes"]) == (tree.numele, tree.numnodes)


# One tree and one new key for each numbered insertion of rax.pyx.
INSERTIONS = {
    "1 at a fork": ([b"ta", b"to"], b"t"),
    "1 at the head": ([b"tap"], b""),
    "1 with a value over None": ([b"tap", None, b"toad"], b"tap"),
    "2a below a fork": ([b"ta", b"to"], b"tin"),
    "2a below a leaf": ([b"tap"], b"taps"),
    "2b below a leaf": ([b"tap"], b"taper"),
    "2b in an empty tree": ([], b"tap"),
    "3": ([b"tapes"], b"tap"),
    "3 at the first byte": ([b"tapes"], b"t"),
    "3 in a run that is a key": ([b"t", b"tapes"], b"tap"),
    "4a": ([b"tapes"], b"taxi"),
    "4b": ([b"tapes"], b"mat"),
    "4b in a run that is a key": ([b"t", b"tapes"], b"toad"),
    "4c": ([b"tapes"], b"taped"),
    "4c with a tail": ([b"tapes"], b"tapering"),
}


@pytest.mark.parametrize(("keys", "key"), INSERTIONS.values(), ids=INSERTIONS)
def test_an_insertion_that_lacks_any_of_its_memory_changes_nothing(keys: list[bytes | None], key: bytes) -> None:
    tree = RaxMap()
    for place, name in enumerate(keys):
        if name is not None:
            tree[name] = None if None in keys else place + 1
    before = picture(tree)
    for allocations in count():
        fail_after(allocations)
        try:
            tree.insert(key, "value")
        except MemoryError:
            fail_never()
            assert picture(tree) == before
        else:
            break
        finally:
            fail_never()
    assert allocations > 0
    assert tree[key] == "value"
    assert_well_formed(tree)
    assert tree.numnodes == expected_nodes(list(tree))


def test_replacing_a_value_needs_no_memory() -> None:
    tree = tree_of(b"tap", b"tapes")
    fail_after(0)
    try:
        assert not tree.insert(b"tap", "other")
    finally:
        fail_never()
    assert list(tree.items()) == [(b"tap", "other"), (b"tapes", "tapes")]


def test_a_tree_that_gets_no_memory_is_not_made() -> None:
    fail_after(0)
    try:
        with pytest.raises(MemoryError):
            RaxMap()
    finally:
        fail_never()


@pytest.mark.parametrize("allocations", range(4))
def test_a_removal_without_memory_succeeds_and_a_later_one_merges_what_was_left(allocations: int) -> None:
    tree = tree_of(b"tap", b"tapes", b"taxi", b"taxis")
    fail_after(allocations)
    try:
        del tree[b"tap"], tree[b"taxi"], tree[b"taxis"]
    finally:
        fail_never()
    assert list(tree) == [b"tapes"]
    assert_well_formed(tree, merged=False)
    tree[b"tapestry"] = 1
    del tree[b"tapes"]
    assert list(tree.items()) == [(b"tapestry", 1)]
    assert_well_formed(tree)


def test_a_fork_holds_all_256_bytes() -> None:
    keys = [bytes([byte]) for byte in range(256)]
    random.Random(1).shuffle(keys)
    tree = tree_of(*keys)
    assert list(tree) == sorted(keys)
    assert tree.numnodes == 257
    tree.clear()
    assert (tree.numnodes, list(tree)) == (1, [])


def test_a_key_of_a_megabyte_is_two_nodes() -> None:
    long_key = random.Random(2).randbytes(1 << 20)
    tree = tree_of(long_key)
    assert tree.numnodes == 2
    tree[long_key[:-1]] = 1
    tree[long_key[:77] + b"\x00" + long_key] = 2
    assert tree.find_floor(long_key + b"x") == long_key.decode("latin-1")
    assert sorted(tree) == list(tree)
    assert tree.remove(long_key[:77] + b"\x00" + long_key) == 2
    assert tree.remove(long_key[:-1]) == 1
    assert tree.numnodes == 2


def test_no_depth_overflows_the_stack() -> None:
    """Run with 128 kB of stack: a few bytes a level would be too much."""
    depth = 30_000 if LONG else 8_000
    problems: list[BaseException] = []

    def build_and_tear_down() -> None:
        try:
            tree = RaxMap()
            for size in range(depth):
                tree[b"a" * size] = size
            assert tree.numnodes == depth
            assert [value for _, value in tree.items()] == list(range(depth))
            assert tree.draw().count("●") == depth
            assert sum(1 for _ in nodes_of(tree)) == depth
            del tree[b"a" * (depth - 1)]
            tree.clear()
            assert tree.numnodes == 1
            for size in range(depth):
                tree[b"a" * size] = None
        except BaseException as problem:  # noqa: BLE001
            problems.append(problem)

    former = threading.stack_size(128 * 1024)
    try:
        thread = threading.Thread(target=build_and_tear_down)
        thread.start()
    finally:
        threading.stack_size(former)
    thread.join()
    assert not problems


def test_common_prefixes_are_stored_once() -> None:
    prefix = bytes(range(256)) * 40
    tree = tree_of(*(prefix + bytes([byte]) for byte in range(100)))
    assert len(prefix) < tree.allocated < 2 * len(prefix)


def test_allocated_is_the_sum_of_what_the_nodes_take() -> None:
    # A leaf with a value fills 16 bytes, a run of 16 with its child 32; malloc rounds both up.
    tree = RaxMap()
    head = tree.allocated
    tree[stream_key(1)] = "value"
    assert head < 48 <= tree.allocated <= 96


def test_none_is_a_value_and_not_an_absence() -> None:
    tree = tree_of(b"tap")
    assert tree.insert(b"toad", None)
    assert not tree.try_insert(b"toad", 1)
    assert b"toad" in tree
    assert tree.find(b"toad", "absent") is None
    assert not tree.insert(b"toad", 2)
    assert not tree.insert(b"toad", None)
    assert tree.remove(b"toad") is None
    assert b"toad" not in tree


@pytest.mark.parametrize("key", [None, "tap", 1, bytearray(b"tap")])
def test_a_key_that_is_not_bytes_is_refused(key: Any) -> None:
    tree = tree_of(b"tap")
    calls: list[Callable[[], object]] = [
        lambda: tree.insert(key, 1),
        lambda: tree.try_insert(key, 1),
        lambda: tree.remove(key),
        lambda: tree.find(key),
        lambda: tree.find_floor(key),
        lambda: tree[key],
        lambda: key in tree,
        lambda: tree.__setitem__(key, 1),
        lambda: tree.__delitem__(key),
    ]
    for call in calls:
        with pytest.raises(TypeError, match=r"bytes|None"):
            call()
    assert list(tree.items()) == [(b"tap", "tap")]


def test_an_absent_key_is_named_in_the_error() -> None:
    tree = tree_of(b"tap")
    for call in (tree.remove, tree.__getitem__, tree.__delitem__):
        with pytest.raises(KeyError, match="toad"):
            call(b"toad")


class Value:
    home: RaxMap

    def __init__(self, on_death: Callable[[], None] = lambda: None) -> None:
        self.on_death = on_death

    def __del__(self) -> None:
        self.on_death()


@pytest.mark.parametrize("part", ["remove", "insert", "clear"])
def test_a_value_dies_only_when_the_tree_is_whole_and_may_use_it(part: str) -> None:
    tree = tree_of(b"tape", b"toad")
    seen: list[list[bytes]] = []

    def on_death() -> None:
        tree[b"tax"] = "new"
        seen.append(list(tree))

    tree[b"tap"] = Value(on_death)
    if part == "remove":
        tree.remove(b"tap")
        assert seen == [[b"tape", b"tax", b"toad"]]
    elif part == "insert":
        tree[b"tap"] = None
        assert seen == [[b"tap", b"tape", b"tax", b"toad"]]
    else:
        tree.clear()
        assert seen == [[b"tax"]]
    assert_well_formed(tree)


def test_values_live_as_long_as_they_are_in_the_tree() -> None:
    tree = RaxMap()
    values = {key: Value() for key in (b"tap", b"tape", b"toad")}
    alive = {key: weakref.ref(value) for key, value in values.items()}
    for key, value in values.items():
        tree[key] = value
    values.clear()
    del value
    assert all(reference() is tree[key] for key, reference in alive.items())
    tree.remove(b"tap")
    tree[b"tape"] = None
    assert [key for key, reference in alive.items() if reference()] == [b"toad"]
    del tree
    assert alive[b"toad"]() is None


def test_a_cycle_through_the_tree_is_collected() -> None:
    tree = RaxMap()
    value = Value()
    value.home = tree
    tree[b"tap"] = value
    alive = weakref.ref(value)
    del tree, value
    gc.collect()
    assert alive() is None


def test_the_picture_reads_as_its_keys_do() -> None:
    tree = tree_of(b"tap", b"tape", b"toad")
    assert tree.draw() == "\n".join(["[t] [ao]", "    ├─ a [p] ● [e] ●", '    └─ o "ad" ●'])
    assert RaxMap().draw() == ""
    assert tree_of(b"").draw() == "●"
    assert draw(tree_of(b'say "\\"').tree) == r'"say\x20\"\\\"" ●'


def test_the_picture_of_stream_keys_shows_where_they_part() -> None:
    tree = tree_of(stream_key(1), stream_key(1, 256), stream_key(1, 257))
    zeros = r"\x00" * 7 + r"\x01" + r"\x00" * 6
    margin = " " * (len(zeros) + 3)
    assert tree.draw().splitlines() == [
        f'"{zeros}" [\\x00\\x01]',
        f"{margin}├─ \\x00 [\\x00] ●",
        f"{margin}└─ \\x01 [\\x00\\x01]",
        f"{margin}        ├─ \\x00 ●",
        f"{margin}        └─ \\x01 ●",
    ]


def test_the_shape_is_plain_data() -> None:
    tree = tree_of(b"tap")
    tree[b"tapes"] = None
    leaf = {"kind": "leaf", "edges": b"", "is_key": True, "has_value": False, "children": []}
    middle = {"kind": "compressed", "edges": b"es", "is_key": True, "has_value": True, "children": [leaf]}
    head = {"kind": "compressed", "edges": b"tap", "is_key": False, "has_value": False, "children": [middle]}
    assert tree.shape() == {"numele": 2, "numnodes": 3, "allocated": tree.allocated, "head": head}
