"""Nodes that are not in memory: a stream with cold parts is the stream that it would be without."""

import gc
import random
from collections.abc import Callable

import pytest

from headrace.core.cold import ColdCache, ColdMiss, fetch
from headrace.core.entry_log import NodeLimits
from headrace.core.errors import ColdReadError
from headrace.core.group import Group
from headrace.core.memory import fail_after, fail_never
from headrace.core.offloading import adopt_run, pack_run, settle_run
from headrace.core.packed import take_nodes
from headrace.core.rax_map import RaxMap
from headrace.core.stream import Policy, Stream
from headrace.core.stream_id import StreamID
from support.memory_runs import MemoryRun, offload

LARGE = 1 << 30


def filled(entries: int, *, fields: int = 1, max_entries: int = 5) -> Stream:
    stream = Stream(NodeLimits(4096, max_entries))
    for number in range(1, entries + 1):
        stream.append(
            tuple(text for each in range(fields) for text in (b"f%d" % each, b"v%d" % number)), b"%d-1" % number
        )
    return stream


def cold(entries: int, *, run_bytes: int = 300, cache: ColdCache | None = None) -> tuple[Stream, list[MemoryRun]]:
    """Make a stream of which all but the tail is cold."""
    stream = filled(entries)
    runs = []
    cache = cache or ColdCache(LARGE)
    while run := offload(stream, cache, run_bytes):
        runs.append(run)
    return stream, runs


def identity(stream: Stream) -> object:
    return (
        list(stream.nodes()),
        len(stream),
        *(stream.first_id, stream.last_id, stream.max_deleted_id, stream.entries_added),
        *(stream.node_count, stream.rax_node_count),
    )


def test_all_but_the_tail_goes_and_every_question_has_the_same_answer() -> None:
    hot = filled(103)
    stream, runs = cold(103)
    assert len(runs) > 3
    assert sum(run.kept_nodes for run in runs) == 20
    assert identity(stream) == identity(hot)
    everything = list(hot.range())
    assert list(stream.range()) == everything
    assert list(stream.range(reverse=True)) == everything[::-1]
    for start in range(0, 105, 3):
        for end in range(start, 105, 7):
            wanted = everything[max(start - 1, 0) : end]
            assert list(stream.range(StreamID(start, 0), StreamID(end, 5))) == wanted
            assert list(stream.range(StreamID(start, 0), StreamID(end, 5), reverse=True)) == wanted[::-1]
    for number in range(105):
        id = StreamID(number, 1)
        assert stream.get(id) == hot.get(id)
        assert (id in stream) == (id in hot)


def test_a_stream_takes_little_memory_for_what_is_cold() -> None:
    stream = filled(100_000, fields=2, max_entries=100)
    before = stream.memory_usage
    cache = ColdCache(0)
    while offload(stream, cache, 2 << 20):
        pass
    assert before > 1_000_000
    assert stream.memory_usage < 10_000


def test_to_delete_thaws_one_node_and_to_empty_it_drops_one() -> None:
    stream, runs = cold(23, run_bytes=LARGE)
    (run,) = runs
    assert run.kept_nodes == 4
    assert stream.delete([StreamID(8, 1)]) == 1
    assert run.kept_nodes == 3
    assert [int(id.ms) for id, _ in stream.range()] == [number for number in range(1, 24) if number != 8]
    assert stream.delete([StreamID(number, 1) for number in range(11, 16)]) == 5
    assert run.kept_nodes == 2
    assert stream.node_count == 4
    assert stream.delete([StreamID(8, 1)]) == 0


def test_trimming_reads_no_part_that_goes_whole() -> None:
    cache = ColdCache(LARGE)
    stream, runs = cold(103, cache=cache)
    reads = cache.reads
    assert stream.trim_to_length(3) == 100
    assert cache.reads == reads
    assert all(run.kept_nodes == 0 for run in runs)
    assert stream.first_id == StreamID(101, 1)


def test_whoever_drops_a_stream_drops_its_parts() -> None:
    stream, runs = cold(103)
    twin = stream.copy()
    assert sum(run.kept_nodes for run in runs) == 40
    assert identity(twin) == identity(stream)
    del stream
    gc.collect()
    assert sum(run.kept_nodes for run in runs) == 20
    del twin
    gc.collect()
    assert sum(run.kept_nodes for run in runs) == 0
    assert sum(run.kept_bytes for run in runs) == 0


def test_appends_go_on_in_the_last_node_though_it_was_cold() -> None:
    hot = filled(23)
    stream, _ = cold(23)
    for each in (hot, stream):
        each.delete([StreamID(number, 1) for number in range(18, 24)])
        each.append((b"f0", b"next"), b"30-1")
    assert identity(stream) == identity(hot)


def test_damage_concerns_one_node() -> None:
    stream, runs = cold(103, cache=ColdCache(0))
    run = runs[0]
    good = run.data
    place = good.index(b"v7")
    run.data = good[: place - 3] + b"\xff" + good[place - 2 :]
    for number in range(1, 104):
        if 6 <= number <= 10:
            with pytest.raises(ColdReadError, match="damaged"):
                stream.get(StreamID(number, 1))
            with pytest.raises(ColdReadError, match="damaged"):
                stream.delete([StreamID(number, 1)])
        else:
            assert stream.get(StreamID(number, 1)) == [b"f0", b"v%d" % number]
    with pytest.raises(ColdReadError):
        list(stream.range())
    assert len(list(stream.range(StreamID(11, 0)))) == 93
    assert stream.trim_to_length(90) == 13


def test_a_cache_that_may_wait_reads_nothing_and_says_what_is_missing() -> None:
    cache = ColdCache(LARGE)
    stream, runs = cold(103, cache=cache)
    cache.forget(runs[0])
    reads = runs[0].blocks_read
    cache.may_wait = True
    missed = []
    while True:
        try:
            found = stream.get(StreamID(7, 1))
            break
        except ColdMiss as miss:
            missed.append((miss.run, miss.node))
            cache.admit(fetch(miss.run, miss.node, 0))
    assert found == [b"f0", b"v7"]
    assert missed == [(runs[0], -1), (runs[0], 1)]
    assert runs[0].blocks_read == reads + 1


def large_nodes() -> tuple[Stream, ColdCache, MemoryRun]:
    """Make four nodes, some larger than blocks, of which three are cold."""
    stream = Stream(NodeLimits(1 << 20, 3))
    for number, size in enumerate((10, 400_000, 10, 200_000, 3, 90_000, 131_072, 1, 1, 1), 1):
        stream.append((b"f", b"x" * size), b"%d-1" % number)
    cache = ColdCache(LARGE)
    run = offload(stream, cache, LARGE)
    assert run is not None
    return stream, cache, run


def test_who_reads_on_finds_what_lies_behind_a_miss_in_memory() -> None:
    stream, cache, run = large_nodes()
    for node in range(run.nodes):
        cache.forget(run)
        if node:
            cache.admit(fetch(run, node - 1))
        cache.admit(fetch(run, node, LARGE))
        reads = run.blocks_read
        assert len(list(stream.range(StreamID(3 * node + 1, 0)))) == 10 - 3 * node
        assert run.blocks_read == reads


def test_who_reads_backwards_finds_what_lies_before_a_miss_in_memory() -> None:
    stream, cache, run = large_nodes()
    cache.forget(run)
    cache.admit(fetch(run, run.nodes - 1))
    cache.admit(fetch(run, run.nodes - 2, LARGE))
    reads = run.blocks_read
    assert len(list(stream.range(reverse=True))) == 10
    assert run.blocks_read == reads


def test_who_reads_anywhere_reads_one_block() -> None:
    _, cache, run = large_nodes()
    cache.forget(run)
    reads = run.blocks_read
    cache.admit(fetch(run, 1, LARGE))
    assert run.blocks_read == reads + 1


def test_the_cache_forgets_what_was_used_longest_ago() -> None:
    cache = ColdCache(LARGE)
    stream, runs = cold(1000, cache=cache)
    for run in runs:
        cache.forget(run)
    assert cache.used == 0
    assert len(list(stream.range())) == 1000
    everything = cache.used
    cache.limit = everything // 2
    assert len(list(stream.range())) == 1000
    assert cache.used <= cache.limit
    reads = cache.reads
    stream.get(StreamID(990, 1))
    assert cache.reads == reads
    stream.get(StreamID(1, 1))
    assert cache.reads > reads


def test_nodes_that_change_while_they_are_written_stay_hot() -> None:
    stream, hot = filled(53), filled(53)
    packed = pack_run(stream, LARGE)
    assert packed is not None
    assert packed.nodes == 10
    for each in (stream, hot):
        each.delete([StreamID(13, 1)])  # in the third node
        each.delete([StreamID(number, 1) for number in range(26, 31)])  # all of the sixth
        each.trim_to_length(40)  # the first one goes, and of the second a part
    run = MemoryRun(ColdCache(LARGE), packed)
    assert settle_run(stream, run, packed.data) == 6
    assert identity(stream) == identity(hot)
    assert list(stream.range()) == list(hot.range())


def test_parts_are_adopted_without_reading_their_nodes() -> None:
    stream = filled(53)
    hot = identity(stream)
    state = (len(stream), stream.last_id, stream.max_deleted_id, stream.entries_added)
    cache = ColdCache(LARGE)
    loaded = Stream(NodeLimits(4096, 5))
    runs = []
    while packed := pack_run(stream, 300):
        runs.append(MemoryRun(cache, packed))
        adopt_run(loaded, runs[-1], 0, packed.nodes)
        stream.trim_to_id(StreamID(packed.last.ms, packed.last.seq + 1))
    ((last, tail),) = stream.nodes()
    loaded.load_node(last, tail)
    assert [run.blocks_read for run in runs] == [0] * len(runs)
    loaded.load_state(*state)
    assert identity(loaded) == hot


@pytest.mark.parametrize("seed", range(200))
def test_the_rax_is_told_as_if_it_led_to_every_node(seed: int) -> None:
    """IDs that begin alike in any number of bytes, some nodes hot between cold ones."""
    dice = random.Random(seed)
    stream, cache = Stream(NodeLimits(4096, 1 + seed % 2)), ColdCache(LARGE)
    start = dice.choice((1, 250, 65_500, 1 << 24, (1 << 40) - 3, 1 << 63))
    ids = {
        StreamID(
            start + dice.choice((0, 1, 2, dice.randrange(300), dice.randrange(1 << 17), dice.randrange(1 << 33))),
            dice.choice((0, 1, 255, 256, 257, dice.randrange(1, 1 << 20), dice.randrange(1 << 63))),
        )
        for _ in range(dice.randrange(1, 60))
    }
    for id in sorted(ids):
        stream.append((b"a", b"b"), id)
        if dice.random() < 0.15:
            offload(stream, cache, dice.choice((1, 50, 300, 1000)))
        if dice.random() < 0.1:
            stream.delete([dice.choice(list(stream.range()))[0]] if len(stream) else [])
        tree = RaxMap()
        for master, _ in stream.nodes():
            tree.insert(master.key, None)
        assert stream.rax_node_count == tree.numnodes


STEPS: list[Callable[[Stream, random.Random], object]] = [
    lambda stream, dice: [
        stream.append((b"name", b"x" * dice.randrange(40)), b"%d-*" % (stream.last_id.ms + dice.randrange(3)))
        for _ in range(dice.randrange(20))
    ],
    lambda stream, dice: stream.delete([_some_id(stream, dice) for _ in range(dice.randrange(1, 6))]),
    lambda stream, dice: stream.delete([id for id, _ in list(stream.range())[-dice.randrange(1, 9) :]]),
    lambda stream, dice: stream.trim_to_length(
        max(0, len(stream) - dice.randrange(30)), dice.random() < 0.5, dice.choice((0, 7)), dice.choice(list(Policy))
    ),
    lambda stream, dice: stream.trim_to_id(_some_id(stream, dice), dice.random() < 0.5, 0, dice.choice(list(Policy))),
    lambda stream, dice: list(stream.range(_some_id(stream, dice), None, 9, dice.random() < 0.5)),
    lambda stream, dice: stream.get(_some_id(stream, dice)),
    lambda stream, dice: take_nodes(stream, _some_id(stream, dice), stream.last_id, 500),
    lambda stream, dice: _group(stream).read_new(b"c", 1, dice.randrange(1, 12)),
    lambda stream, _: _group(stream).read_history(b"c", b"0", 1, 5),
    lambda stream, dice: _group(stream).acknowledge([_some_id(stream, dice) for _ in range(9)]),
    lambda stream, _: stream.set_id(StreamID(stream.last_id.ms + 1, 0)),
    lambda stream, _: identity(stream.copy()),
]


def _group(stream: Stream) -> Group:
    return stream.group(b"g") or stream.create_group(b"g")


def _some_id(stream: Stream, dice: random.Random) -> StreamID:
    span = stream.last_id.ms - stream.first_id.ms
    return StreamID(stream.first_id.ms + dice.randrange(-1 if stream.first_id.ms else 0, span + 2), dice.randrange(4))


@pytest.mark.parametrize("seed", range(60))
def test_random_histories_are_those_of_a_stream_in_memory(seed: int) -> None:
    dice = random.Random(seed)
    hot, mixed = (Stream(NodeLimits(dice_limit, 6)) for dice_limit in (400, 400))
    cache = ColdCache(dice.choice((0, 2000, LARGE)))
    runs: list[MemoryRun] = []
    for _ in range(200):
        step, fate = dice.choice(STEPS), dice.randrange(1 << 30)
        assert step(mixed, random.Random(fate)) == step(hot, random.Random(fate))
        while dice.random() < 0.4 and (run := offload(mixed, cache, dice.choice((1, 600, 3000)))):
            runs.append(run)
        assert identity(mixed) == identity(hot)
    assert runs
    del mixed
    gc.collect()
    assert [run.kept_nodes for run in runs] == [0] * len(runs)
    assert [run.kept_bytes for run in runs] == [0] * len(runs)


def test_no_memory_leaves_the_stream_as_it_was() -> None:
    stream, _ = cold(53, run_bytes=LARGE)
    before = identity(stream)
    for allowed in range(20):
        fail_after(allowed)
        try:
            stream.delete([StreamID(23, 1)])
            break
        except MemoryError:
            fail_never()
            assert identity(stream) == before
        finally:
            fail_never()
    assert allowed > 2
    assert len(stream) == 52
