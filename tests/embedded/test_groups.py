"""Consumer groups in a loop: acknowledged on success, redelivered after a failure."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

import headrace
from headrace.api.group import Group
from headrace.api.stream import Stream
from headrace.core.stream_id import StreamID


@pytest.fixture
def stream() -> Iterator[Stream]:
    with headrace.open(None) as db:
        stream = db.stream("s")
        for n in range(5):
            stream.add(n=n, id=f"{n + 1}-0")
        yield stream


@pytest.fixture
def group(stream: Stream) -> Group:
    return stream.group("g")


def test_going_on_acknowledges_and_the_end_does_too(group: Group) -> None:
    seen = []
    for message in group.consumer("c", timeout=0):
        seen.append(message["n"])
        assert [pending.id for pending in group.pending()] == [message.id]
    assert seen == ["0", "1", "2", "3", "4"]
    assert group.pending() == []
    assert group.lag == 0


@pytest.mark.parametrize("prefetch", [1, 2, 100])
def test_an_exception_leaves_the_message_in_hand_which_comes_first_next_time(group: Group, prefetch: int) -> None:
    consumer = group.consumer("c", timeout=0, prefetch=prefetch)
    handled, failures = [], 0
    while True:
        try:
            for message in consumer:
                if message["n"] == "2" and failures < 2:
                    failures += 1
                    raise RuntimeError
                handled.append(message["n"])
        except RuntimeError:
            assert StreamID(3) in [pending.id for pending in consumer.pending()]
            continue
        break
    assert handled == ["0", "1", "2", "3", "4"]
    assert failures == 2
    assert group.pending() == []


def test_break_leaves_the_message_in_hand_unless_it_is_acknowledged(group: Group) -> None:
    consumer = group.consumer("c", timeout=0)
    for message in consumer:
        if message["n"] == "1":
            consumer.ack(message)
            break
    for message in consumer:
        assert message["n"] == "2"
        break
    assert [pending.id for pending in group.pending()] == [StreamID(3)]


def test_a_batch_is_acknowledged_as_a_whole_or_not_at_all(group: Group) -> None:
    consumer = group.consumer("c", timeout=0)
    with suppress(RuntimeError), consumer.batch(3) as messages:
        assert [message["n"] for message in messages] == ["0", "1", "2"]
        raise RuntimeError
    with consumer.batch(2) as messages:
        assert [message["n"] for message in messages] == ["0", "1"]
    assert [pending.id for pending in group.pending()] == [StreamID(3)]
    with consumer.batch(100) as messages:
        assert [message["n"] for message in messages] == ["2"]
    with consumer.batch(100) as messages:
        assert [message["n"] for message in messages] == ["3", "4"]
    with consumer.batch(100) as messages:
        assert messages == []


def test_consumers_share_and_claim_what_another_left(group: Group) -> None:
    dead, alive = group.consumer("dead"), group.consumer("alive", timeout=0)
    dead.read(2)
    assert alive.claim(idle=60) == []
    assert alive.claim(idle=timedelta(hours=1)) == []
    claimed = alive.claim(idle=0)
    assert [message["n"] for message in claimed] == ["0", "1"]
    records = group.pending()
    assert [(each.consumer, each.deliveries) for each in records] == [("alive", 2)] * 2
    assert group.pending("dead") == []
    assert group.pending(idle=60) == []
    assert [message["n"] for message in alive] == ["0", "1", "2", "3", "4"]
    assert group.consumers() == ["alive", "dead"]
    assert dead.drop() == 0


def test_a_message_that_was_deleted_is_acknowledged_and_not_given(stream: Stream, group: Group) -> None:
    consumer = group.consumer("c", timeout=0)
    consumer.read(3)
    stream.delete("1-0", "3-0")
    assert [message["n"] for message in consumer] == ["1", "3", "4"]
    assert group.pending() == []


def test_a_group_begins_where_it_is_told_and_is_made_once(stream: Stream) -> None:
    stream.group("late", "$")
    stream.group("behind", "3-0")
    assert stream.group("late", "0").lag == 0
    assert [message["n"] for message in stream.group("behind").consumer("c", timeout=0)] == ["3", "4"]
    group = stream.group("late")
    group.position = "4-0"
    assert group.position == StreamID(4)
    assert [message["n"] for message in group.consumer("c", timeout=0)] == ["4"]
    assert stream.groups() == ["behind", "late"]
    assert group.drop()
    assert not group.drop()
    assert stream.groups() == ["behind"]


def test_a_long_list_of_pending_messages_is_complete() -> None:
    with headrace.open(None) as db:
        stream = db.stream("s")
        stream.add_many({"n": n} for n in range(2500))
        group = stream.group("g")
        group.consumer("c").read(2500)
        assert [pending.id for pending in group.pending()] == [message.id for message in stream]
        assert group.ack(*stream) == 2500
        assert group.ack() == 0


def test_a_group_on_a_stream_that_does_not_exist_makes_it() -> None:
    with headrace.open(None) as db:
        assert db.stream("s").groups() == []
        group = db.stream("s").group("g")
        assert db.streams() == ["s"]
        assert (group.lag, group.position) == (0, StreamID(0))
        with pytest.raises(ValueError, match="at least 1"):
            group.consumer("c", prefetch=0)
        with pytest.raises(ValueError, match="negative"):
            group.consumer("c").claim(idle=-1)
