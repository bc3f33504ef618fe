"""The heap of timers against a plain list; and a client that leaves the waiting room leaves nothing in it."""

import gc
import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.blocking.waking import run_due
from headrace.engine.timers import Timer, TimerHeap
from support.in_process import InProcess

NOON = 1_700_000_000_000
FAR_MS = 1_000_000_000


@given(st.lists(st.tuples(st.sampled_from(["add", "add", "remove", "pop"]), st.integers(0, 50)), max_size=200))
def test_timers_come_out_as_from_a_sorted_list(steps: list[tuple[str, int]]) -> None:
    heap, model, number = TimerHeap(), dict[Timer, tuple[int, int]](), 0
    dice = random.Random(len(steps))
    for step, value in steps:
        if step == "add":
            number += 1
            model[heap.add(value, number)] = (value, number)
        elif step == "remove" and model:
            timer = dice.choice(list(model))
            heap.remove(timer)
            heap.remove(timer)  # a second time is no mistake
            del model[timer]
        elif step == "pop":
            due = min(model.items(), key=lambda item: item[1], default=None)
            if due is None or due[1][0] > value:
                assert heap.pop_due(value) is None
            else:
                assert heap.pop_due(value) == due[1][1]
                del model[due[0]]
        assert len(heap) == len(model)
        assert heap.first_due == min((when for when, _ in model.values()), default=None)
    assert [heap.pop_due(50) for _ in model] == [number for _, number in sorted(model.values())]


def test_the_last_timer_goes_up_where_it_fills_a_gap_below_later_ones() -> None:
    """The half below 40 is late, that below 2 early. The last timer, due at 4, fills a gap in the late half."""
    heap = TimerHeap()
    timers = [heap.add(due, due) for due in (1, 40, 2, 50, 60, 5, 3, 70, 80, 90, 95, 6, 7, 8, 4)]
    heap.remove(timers[7])
    assert [heap.pop_due(100) for _ in range(14)] == [1, 2, 3, 4, 5, 6, 7, 8, 40, 50, 60, 80, 90, 95]


# --- nothing stays --------------------------------------------------------------------------------------------


@pytest.fixture
def engine() -> InProcess:
    engine = InProcess()
    engine.set_clock(NOON)
    engine.run("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
    return engine


WAITS = [
    ("BLPOP", "l", 1000000),
    ("BZPOPMIN", "z", 1000000),
    ("XREAD", "BLOCK", FAR_MS, "STREAMS", "s", "$"),
    ("XREADGROUP", "GROUP", "g", "c", "BLOCK", FAR_MS, "CLAIM", FAR_MS, "STREAMS", "s", ">"),
    ("WAIT", 1, FAR_MS),
    ("WAITAOF", 0, 1, FAR_MS),
]


@pytest.mark.parametrize("words", WAITS, ids=lambda words: words[0])
@pytest.mark.parametrize("way", ["disconnect", "unblock", "timeout"])
def test_who_leaves_leaves_no_timer(engine: InProcess, words: tuple[str | int, ...], way: str) -> None:
    client = engine.waiting_client(*words)
    assert len(engine.engine.chores.timers) >= 1
    if way == "disconnect":
        engine.engine.disconnect(client.client)
    elif way == "unblock":
        assert engine.run("CLIENT", "UNBLOCK", client.client.id) == b":1\r\n"
    else:
        engine.set_clock(NOON + FAR_MS + 1)
        run_due(engine.engine)
    assert not client.waits
    assert len(engine.engine.chores.timers) == 0
    assert not engine.engine.waiting.take_reminders()


def test_a_client_that_is_served_leaves_no_timer_and_keeps_one_while_it_waits(engine: InProcess) -> None:
    words = ("XREADGROUP", "GROUP", "g", "c", "BLOCK", FAR_MS, "CLAIM", FAR_MS, "STREAMS", "s", ">")
    served, waiting = engine.waiting_client(*words), engine.waiting_client(*words)
    engine.run("XADD", "s", "1-0", "f", "v")
    assert not served.waits
    assert waiting.waits
    assert len(engine.engine.chores.timers) == 2  # the other's deadline, and the reminder of the key
    engine.engine.disconnect(waiting.client)
    assert len(engine.engine.chores.timers) == 0


def test_pauses_keep_one_timer(engine: InProcess) -> None:
    for _ in range(100):
        engine.run("CLIENT", "PAUSE", FAR_MS, "WRITE")
    engine.run("CLIENT", "UNPAUSE")
    assert len(engine.engine.chores.timers) <= 1


def test_ten_thousand_blocking_calls_that_were_served_or_left_cost_no_memory(engine: InProcess) -> None:
    """A served call left 60 bytes until its deadline, a client that disconnected 5.8 KB."""
    consumer = engine.connect()

    def block_and_leave(times: int) -> None:
        for _ in range(times):
            consumer.run("BLPOP", "l", 1000000)
            engine.run("RPUSH", "l", "v")
            assert consumer.reply()
            left = engine.connect()
            left.run("BLPOP", "l", 1000000)
            engine.engine.disconnect(left.client)
            engine.engine.flush_clients()

    block_and_leave(100)
    gc.collect()
    tracemalloc.start()
    try:
        block_and_leave(5000)
        engine.take_effects()
        gc.collect()
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 100_000
    assert len(engine.engine.chores.timers) == 0
