"""A consumer's loop as a worker's whole life, on every kind of database."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace import Database, Message, StreamID
from support.patience import await_that


def test_a_loop_takes_over_what_dead_consumers_left(db: Database) -> None:
    stream = db.stream("s")
    stream.add_many({"n": n} for n in range(5))
    group = stream.group("g")
    group.consumer("dead").read(3)
    seen = [
        (message["n"], message.deliveries) for message in group.consumer("alive", timeout=0, claim_after=0, prefetch=2)
    ]
    assert sorted(seen) == [("0", 2), ("1", 2), ("2", 2), ("3", 1), ("4", 1)]
    assert group.pending() == []
    stream.add(n=5)
    group.consumer("dead").read(1)
    assert list(group.consumer("alive", timeout=0, claim_after=3600)) == []
    assert [each.consumer for each in group.pending()] == ["dead"]


def test_a_loop_that_waits_takes_over_what_dies_meanwhile(db: Database) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    handled: list[str] = []
    worker = group.consumer("alive", claim_after=0.2)
    thread = threading.Thread(target=worker.run, args=(lambda message: handled.append(message["n"]),))
    dead = group.consumer("dead", timeout=20)
    stream.add(n=0)
    dead.read()
    thread.start()
    stream.add(n=1)
    await_that(lambda: sorted(handled) == ["0", "1"])
    worker.stop()
    thread.join()
    assert group.pending() == []


def test_a_message_is_touched_by_its_own_consumer_alone(db: Database, keeps_rules: bool) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    ids = [stream.add(n=n) for n in range(3)]
    slow, other = group.consumer("slow"), group.consumer("other", timeout=0)
    first, second, third = slow.read(3)

    def make_old() -> None:
        db.execute("XCLAIM", "s", "g", "slow", 0, *ids, "IDLE", 3_600_000, "JUSTID")

    make_old()
    assert first.touch()
    assert [each.id for each in group.pending(idle=1800)] == ids[1:]
    assert [each.deliveries for each in group.pending()] == [1, 1, 1]
    assert [each.id for each in other.claim(idle=1800, count=1)] == [ids[1]]
    second.ack()
    assert (third.touch(), second.touch(), asyncio.run(first.atouch())) == (True, False, True)
    assert slow.touch(*ids) == [ids[0], ids[2]]
    db.execute("XCLAIM", "s", "g", "other", 0, ids[0], "JUSTID")
    assert not first.touch()
    assert [each.consumer for each in group.pending()] == ["other", "slow"]
    if keeps_rules:
        group.policy(visibility="30m")
        make_old()
        assert slow.touch(ids[2]) == [ids[2]]
        assert [message["n"] for message in other] == ["0"]


def test_a_touch_takes_nothing_from_whoever_claims_at_the_same_moment(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    ids = [stream.add(n=n) for n in range(4)]
    slow, thief = group.consumer("slow"), group.consumer("thief")
    slow.read(4)
    for idle, some in ((3_600_003, ids[:2]), (7_200_009, ids[2:])):
        db.execute("XCLAIM", "s", "g", "slow", 0, *some, "IDLE", idle, "JUSTID")
    forward = slow._runner.call

    def call(*argv: bytes) -> object:
        """Let the thief have the second message, and this consumer touch the third, before the first XCLAIM runs."""
        if argv[0] == b"XCLAIM":
            monkeypatch.undo()
            forward(b"XCLAIM", b"s", b"g", b"thief", b"0", bytes(ids[1]), b"JUSTID")
            assert slow.touch(ids[2]) == [ids[2]]
        return forward(*argv)

    monkeypatch.setattr(slow._runner, "call", call)
    assert slow.touch(*ids) == [ids[0], ids[2], ids[3]]
    assert [each.consumer for each in group.pending()] == ["slow", "thief", "slow", "slow"]
    assert not group.pending(idle=1800)
    assert thief.touch(*ids) == [ids[1]]


def test_a_heartbeat_keeps_messages_for_the_loop_that_handles_them(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    ids = [stream.add(n=n) for n in range(3)]

    def was_touched() -> bool:
        """Whether what was made old is young again: the one in hand, what was read ahead, what has a delay."""
        return not group.pending("c", idle=1800)

    for message in group.consumer("c", timeout=0, prefetch=3, claim_after=3600, heartbeat=0.02):
        if message["n"] == "0":
            message.nack(delay=3600)
        if message["n"] == "1":
            db.execute("XCLAIM", "s", "g", "c", 0, *ids, "IDLE", 3_500_000, "JUSTID")
            await_that(was_touched)
            assert [each.deliveries for each in group.pending()] == [1, 1, 1]
        if message["n"] == "2":
            group.consumer("thief").claim(idle=0)
            await_that(lambda: "belongs to somebody else now" in caplog.text)
            break

    async def main() -> None:
        await group.adrop()
        fresh = await stream.agroup("g")
        async for message in fresh.consumer("c", timeout=0, heartbeat=0.02):
            if message["n"] == "1":
                await db.aexecute("XCLAIM", "s", "g", "c", 0, message.id, "IDLE", 3_500_000, "JUSTID")
                async with asyncio.timeout(60):
                    while await fresh.apending("c", idle=1800):
                        await asyncio.sleep(0.01)
                break
        while len(asyncio.all_tasks()) > 1:  # the loop that was left has no heartbeat any more
            await asyncio.sleep(0.01)

    asyncio.run(main())
    caplog.clear()
    group.drop()
    for message in stream.group("g").consumer("c", timeout=0.3, heartbeat=0.02):
        assert message["n"] in "012"
    assert caplog.text == ""  # while a loop waits, nothing is in hand
    await_that(lambda: not any("heartbeat" in thread.name for thread in threading.enumerate()))
    for wrong in (0, 60):
        with pytest.raises(ValueError, match="heartbeat"):
            group.consumer("c", claim_after=60, heartbeat=wrong)


def test_what_was_given_back_comes_again_after_its_delay_and_holds_up_nobody(db: Database) -> None:
    stream = db.stream("s")
    stream.add_many({"n": n} for n in range(3))
    group = stream.group("g")
    seen: list[tuple[str, int]] = []
    begin = time.monotonic()
    for message in group.consumer("c", timeout=1, prefetch=2):
        seen.append((message["n"], message.deliveries))
        if seen.count(("0", 1)) == len(seen):
            message.nack(delay=0.3)
        elif message["n"] == "0":
            assert time.monotonic() - begin >= 0.3
            break
    assert seen == [("0", 1), ("1", 1), ("2", 1), ("0", 2)]


def test_what_was_given_up_is_a_dead_letter(db: Database, keeps_rules: bool) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    id = stream.add({"n": 1, "raw": b"\xff"})
    for message in group.consumer("c", timeout=0):
        message.fail("it has no address")
    [letter] = db.stream("s:dead")
    assert (letter["n"], letter["raw"], letter["headrace-id"], letter["headrace-reason"]) == (
        *("1", "\udcff", str(id), "it has no address"),
    )
    assert (letter["headrace-consumer"], letter["headrace-deliveries"], group.pending()) == ("c", "1", [])
    if keeps_rules:
        group.policy(max_deliveries=2, dead_letter="graves", retry=("1ms", "1ms"))
        stream.add(n=2)
        stream.add(n=3)
        for message in group.consumer("c", timeout=0.5):
            message.fail("no") if message["n"] == "2" else message.nack()
        assert [(letter["n"], letter["headrace-reason"]) for letter in db.stream("graves")] == [
            ("2", "no"),
            ("3", "deliveries"),
        ]
        assert db.execute("HEADRACE", "REDRIVE", "graves") == 2
        assert len(stream) == 5


def test_what_was_trimmed_while_it_was_pending_is_reported(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    stream = db.stream("s")
    for n in range(1, 5):
        stream.add(n=n, id=f"{n}-0")
    group = stream.group("g")
    group.consumer("c").read(2)
    group.consumer("dead").read(1)
    stream.delete("1-0", "3-0")
    missing: list[StreamID] = []
    consumer = group.consumer("c", timeout=0, claim_after=0, on_missing=missing.append)
    assert [message["n"] for message in consumer] == ["2", "4"]
    assert (sorted(missing), group.pending()) == ([StreamID(1), StreamID(3)], [])
    stream.add(n=5, id="5-0")
    group.consumer("c").read(1)
    stream.trim(maxlen=0)
    with caplog.at_level(logging.WARNING, "headrace"):
        assert group.consumer("c", timeout=0).read() == []
    assert "the message 5-0 was deleted before it was acknowledged" in caplog.text


def test_a_message_that_kills_its_worker_each_time_does_not_block_the_others(db: Database) -> None:
    stream = db.stream("s")
    stream.add_many({"n": n} for n in range(4))
    group = stream.group("g")
    handled: list[str] = []
    for _life in range(4):
        try:
            for message in group.consumer("w", timeout=0):
                if message["n"] == "1":
                    raise SystemExit  # the worker is gone, without a word
                handled.append(message["n"])
        except SystemExit:
            continue
    assert handled == ["0", "2", "3"]
    stream.add(n=4)
    alive = iter(group.consumer("w", timeout=0))
    assert next(alive)["n"] == "4"
    poison = next(alive)
    assert (poison["n"], poison.deliveries) == ("1", 5)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_several_messages_are_handled_at_once_and_failures_come_again(
    db: Database, concurrency: int, caplog: pytest.LogCaptureFixture
) -> None:
    stream = db.stream("s")
    stream.add_many({"n": n} for n in range(12))
    group = stream.group("g")
    together = threading.Barrier(concurrency)
    handled: list[str] = []

    def handle(message: Message) -> None:
        if message["n"] == "0" and message.deliveries == 1:
            message.nack(delay=0.05)
            raise LookupError("the first time it fails")
        if 1 <= int(message["n"]) <= concurrency:
            together.wait(60)  # which passes only with so many at once
        handled.append(message["n"])
        if len(handled) == 12:
            worker.stop()

    worker = group.consumer("w")
    worker.run(handle, concurrency=concurrency)
    assert sorted(handled, key=int) == [str(n) for n in range(12)]
    assert (group.pending(), group.lag) == ([], 0)
    assert "could not handle the message" in caplog.text
    names = {"w"} if concurrency == 1 else {f"w-{n}" for n in range(1, 5)}
    assert set(group.consumers()) <= names

    async def main() -> None:
        meeting = asyncio.Barrier(concurrency)

        async def ahandle(message: Message) -> None:
            async with asyncio.timeout(60):
                await meeting.wait()
            handled.append(message["n"])
            if len(handled) == 12 + concurrency:
                worker.stop()

        await stream.aadd_many({"n": n} for n in range(concurrency))
        await worker.arun(ahandle, concurrency=concurrency)

    asyncio.run(main())
    assert (len(handled), group.pending()) == (12 + concurrency, [])


def test_what_a_stopped_loop_has_read_ahead_is_not_stranded(db: Database) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    stream.add_many({"n": n} for n in range(5))
    worker = group.consumer("w", prefetch=3, timeout=0)
    for _ in worker:
        worker.stop()
    assert [message["n"] for message in group.consumer("w", timeout=0)] == ["1", "2", "3", "4"]
    stream.add_many({"n": n} for n in range(3))
    worker = group.consumer("w", prefetch=3, timeout=0, claim_after=0)
    for _ in worker:
        worker.stop()
    assert [message["n"] for message in group.consumer("v", timeout=0, claim_after=0)] == ["1", "2"]
    assert (group.pending(), group.lag) == ([], 0)


def test_run_refuses_coroutine_functions_and_arun_others(db: Database) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    id = stream.add(n=1)

    async def handle(message: Message) -> None:
        raise AssertionError(message)

    with pytest.raises(TypeError, match="arun takes those"):
        group.consumer("w", timeout=0).run(handle)
    assert [each.id for each in group.pending()] == [id]
    with pytest.raises(TypeError, match="run takes it"):
        asyncio.run(group.consumer("w", timeout=0).arun(lambda _: None))  # type: ignore[arg-type,return-value]
    assert [each.id for each in group.pending()] == [id]


def test_a_refusal_ends_all_that_run_together(db: Database) -> None:
    stream = db.stream("s")
    group = stream.group("g")
    stream.drop()
    with pytest.raises(Exception, match="NOGROUP"):
        group.consumer("w").run(print, concurrency=3)
    with pytest.raises(Exception, match="NOGROUP"):
        asyncio.run(group.consumer("w").arun(asyncio.sleep, concurrency=3))  # type: ignore[arg-type]


WORKER = """
import os, sys, time, headrace
kind, place, how = sys.argv[1:]
def say(*words):  # lines of threads stay whole
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())
db = headrace.open(place) if kind == "on disk" else headrace.connect(place)
stream = db.stream("s")
if kind == "on disk":
    stream.add_many({"n": n} for n in range(3))
group = stream.group("g")
def handle(message):
    say("begun", message["n"])
    if message["n"] == "1":
        time.sleep(1)
    say("done", message["n"])
if how == "loop":
    for message in group.consumer("w", prefetch=3):
        handle(message)
else:
    group.consumer("w").run(handle, concurrency=2)
say("ended", len(group.pending()))
"""


@pytest.mark.parametrize(("kind", "how"), [("on disk", "loop"), ("redis-server", "loop"), ("a server", "run")])
def test_sigterm_ends_a_worker_after_the_message_in_hand(
    kind: str, how: str, tmp_path: Path, reopen: Callable[[], Database]
) -> None:
    place = str(tmp_path / "data")
    if kind != "on disk":
        with reopen() as db:
            assert db.url is not None
            place = db.url
            db.stream("s").add_many({"n": n} for n in range(3))
    worker = subprocess.Popen([sys.executable, "-c", WORKER, kind, place, how], stdout=subprocess.PIPE, text=True)
    try:
        said: list[str] = []
        assert worker.stdout is not None
        for line in worker.stdout:
            said.append(line.strip())
            if said[-1] == "begun 1":
                os.kill(worker.pid, signal.SIGTERM)
        assert worker.wait() == 0
        assert "done 1" in said
        if how == "loop":  # it had read 2, too, which is anybody's now; a Redis cannot take it back
            assert ("begun 2" in said, said[-1]) == (False, "ended 1")
        else:
            assert said[-1] == "ended 0"
    finally:
        worker.kill()
