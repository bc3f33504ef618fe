"""Messages that are added later, in process."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import headrace
from headrace.api.errors import Refused
from support.patience import await_that


def test_a_message_is_added_after_a_delay_and_wakes_who_waits() -> None:
    with headrace.open(None) as db:
        stream = db.stream("q")
        tail = stream.tail(timeout=60)
        stream.add(n=1, delay=0.05)
        stream.add(n=2, delay="100ms")
        stream.add({"n": 3}, at=datetime.now(UTC) + timedelta(milliseconds=150))
        stream.add({"n": 4}, at=int(time.time() * 1000) + 200)
        assert [next(tail)["n"] for _ in range(4)] == ["1", "2", "3", "4"]
        assert stream.scheduled() == []


def test_schedules_are_listed_and_cancelled() -> None:
    with headrace.open(None) as db:
        stream = db.stream("q")
        later = stream.add(n=2, every=5, delay=timedelta(hours=2))
        sooner = stream.add({"delay": "field"}, delay="1h")
        first, second = stream.scheduled()
        assert (first.ticket, first.fields, first.every, first.held) == (sooner, {"delay": "field"}, None, None)
        assert (second.ticket, second.every) == (later, timedelta(seconds=5))
        assert first.due is not None
        assert timedelta(minutes=50) < first.due - datetime.now(UTC) <= timedelta(hours=1)
        assert [each.ticket for each in stream.scheduled(1)] == [sooner]
        assert db.stream("q", decode=False).scheduled(1)[0].fields == {b"delay": b"field"}
        assert stream.unschedule(sooner) is True
        assert stream.unschedule(sooner) is False
        assert len(stream) == 0


def test_schedules_survive_the_program(tmp_path: Path) -> None:
    with headrace.open(tmp_path) as db:
        db.stream("q").add(n=1, at=0, every="1h")
        await_that(lambda: len(db.stream("q")) == 1)
        db.stream("q").add(n=2, delay=0.2)
    with headrace.open(tmp_path) as db:
        await_that(lambda: len(db.stream("q")) == 2)
        assert [message["n"] for message in db.stream("q")] == ["1", "2"]
        assert len(db.stream("q").scheduled()) == 1


def test_what_cannot_be_said_is_refused() -> None:
    with headrace.open(None) as db:
        stream = db.stream("q")
        with pytest.raises(Refused, match="no duration"):
            stream.add(n=1, delay="soon")
        with pytest.raises(ValueError, match="negative"):
            stream.add(n=1, delay=-1)
        with pytest.raises(ValueError, match="delay or at"):
            stream.add(n=1, delay=1, at=5)
        with pytest.raises(ValueError, match="delay or at"):
            stream.add(n=1, every=1)
        with pytest.raises(ValueError, match="gets its ID then"):
            stream.add(n=1, delay=1, id="1-1")
        with pytest.raises(ValueError, match="at least one field"):
            stream.add(delay=1)
        assert stream.scheduled() == []


def test_a_coroutine_schedules() -> None:
    async def run() -> None:
        with headrace.open(None) as db:
            stream = db.stream("q")
            ticket = await stream.aadd(n=1, delay="50ms")
            assert ticket[-5:] == "-0000"
            async for message in stream.tail("0", timeout=60):
                assert message["n"] == "1"
                break
            with pytest.raises(ValueError, match="gets its ID then"):
                await stream.aadd(n=1, at=1, maxlen=1)

    asyncio.run(run())
