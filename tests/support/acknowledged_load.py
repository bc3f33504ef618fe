"""Clients that work on a server until it dies, and remember what it acknowledged; then what must still be there.

    appender      XADD, one at a time                            every ID that was replied, and what it was replied to
    producer      XADD, one at a time and in pipelines           every ID that was replied
    transactor    MULTI … EXEC over two streams and a list       all three have an entry of it, or none
    worker        XREADGROUP, XACK, XCLAIM of a shared group     what was acked stays acked, the rest stays pending, and
                                                                 last-delivered-id is not behind what was delivered

A request that was sent and not answered when the server died may have been run or not, but not in part.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import redis

JOBS, GROUP = "jobs", "workers"

GONE = (redis.ConnectionError, redis.TimeoutError)


def _order(entry_id: str) -> tuple[int, int]:
    ms, _, sequence = entry_id.partition("-")
    return int(ms), int(sequence)


class Appender:
    """Adds numbered entries to a stream of its own."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.added: dict[str, str] = {}  # ID -> number
        self._number = 0
        self._checked = "0-0"

    @property
    def acknowledged(self) -> int:
        return len(self.added)

    def step(self, client: redis.Redis, _chance: random.Random) -> None:
        number = self._next()
        self.added[client.xadd(self.key, {"n": number})] = number

    def _next(self) -> str:
        self._number += 1
        return str(self._number)

    def check(self, client: redis.Redis) -> None:
        """What was added since the last time is there, once and under its ID; nothing of what was before has gone."""
        found = {entry_id: fields["n"] for entry_id, fields in client.xrange(self.key, "(" + self._checked)}
        recent = {entry_id: n for entry_id, n in self.added.items() if _order(entry_id) > _order(self._checked)}
        assert {entry_id: found.get(entry_id) for entry_id in recent} == recent
        assert len(set(found.values())) == len(found)
        assert client.xlen(self.key) >= len(self.added)
        self._checked = max(self.added, key=_order, default="0-0")


class Producer(Appender):
    """Adds entries in pipelines, too, and with them jobs to the shared stream."""

    def __init__(self, name: str) -> None:
        super().__init__(f"produced:{name}")
        self.jobs: list[str] = []

    @property
    def acknowledged(self) -> int:
        return len(self.added) + len(self.jobs)

    def step(self, client: redis.Redis, chance: random.Random) -> None:
        if chance.random() < 0.5:
            super().step(client, chance)
            return
        pipeline = client.pipeline(transaction=False)
        numbers = [self._next() for _ in range(chance.randrange(1, 20))]
        for number in numbers:
            pipeline.xadd(self.key, {"n": number})
        pipeline.xadd(JOBS, {"job": numbers[0]})
        *ids, job = pipeline.execute()
        self.added.update(zip(ids, numbers, strict=True))
        self.jobs.append(job)

    def check(self, client: redis.Redis) -> None:
        super().check(client)
        jobs = {entry_id for entry_id, _ in client.xrange(JOBS)}
        assert jobs.issuperset(self.jobs)


class Transactor:
    """Adds the same number to two streams and to a list, at once."""

    def __init__(self, name: str) -> None:
        self.keys = (f"left:{name}", f"right:{name}", f"list:{name}")
        self.done: set[str] = set()
        self._number = 0

    @property
    def acknowledged(self) -> int:
        return len(self.done)

    def step(self, client: redis.Redis, _chance: random.Random) -> None:
        left, right, listed = self.keys
        self._number += 1
        number = str(self._number)
        transaction = client.pipeline(transaction=True)
        transaction.xadd(left, {"t": number})
        transaction.rpush(listed, number)
        transaction.xadd(right, {"t": number})
        transaction.execute()
        self.done.add(number)

    def check(self, client: redis.Redis) -> None:
        left, right, listed = self.keys
        lefts, rights = ([fields["t"] for _, fields in client.xrange(key)] for key in (left, right))
        assert lefts == rights
        assert client.lrange(listed, 0, -1) == lefts
        assert self.done.issubset(lefts)


class Worker:
    """Takes jobs of the shared group, acknowledges some of them, and claims from others."""

    def __init__(self, name: str, delivered: dict[str, None], tried: set[str], acked: set[str]) -> None:
        self.name = name
        self.delivered, self.tried, self.acked = delivered, tried, acked  # of all workers

    @property
    def acknowledged(self) -> int:
        return len(self.acked) + len(self.delivered)

    def step(self, client: redis.Redis, chance: random.Random) -> None:
        taken = client.xreadgroup(GROUP, self.name, {JOBS: ">"}, count=chance.randrange(1, 6), block=20)
        ids = [entry_id for _, entries in taken for entry_id, _ in entries]
        self.delivered.update(dict.fromkeys(ids))
        if chance.random() < 0.2 and self.delivered:
            known = list(self.delivered)
            claimed = chance.choice(known[-30:])
            if claimed not in self.tried:
                client.xclaim(JOBS, GROUP, self.name, 0, [claimed])
        for entry_id in ids:
            if chance.random() < 0.7:
                self.tried.add(entry_id)
                if client.xack(JOBS, GROUP, entry_id) == 1:
                    self.acked.add(entry_id)

    def check(self, client: redis.Redis) -> None:
        (group,) = client.xinfo_groups(JOBS)
        pending = {each["message_id"] for each in client.xpending_range(JOBS, GROUP, "-", "+", 1_000_000)}
        assert group["pending"] == len(pending)
        assert not pending & self.acked
        assert pending.issuperset(self.delivered.keys() - self.tried)
        latest = max(self.delivered, key=_order, default="0-0")
        assert _order(group["last-delivered-id"]) >= _order(latest)


def prepare(client: redis.Redis) -> None:
    """Make what the clients share."""
    client.xgroup_create(JOBS, GROUP, "0", mkstream=True)


def workers() -> list[Worker]:
    """Two workers of the shared group, with one book."""
    shared: tuple[dict[str, None], set[str], set[str]] = ({}, set(), set())
    return [Worker(name, *shared) for name in ("ann", "bob")]


class Load:
    """Some of each; `run` works until the server is gone, `check` asks the next one."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._workers = workers()
        self._others: list[Producer | Transactor] = [Producer("p1"), Producer("p2"), Transactor("t1"), Transactor("t2")]

    @property
    def acknowledged(self) -> int:
        return self._workers[0].acknowledged + sum(each.acknowledged for each in self._others)

    @contextmanager
    def running(self, connect: Callable[[], redis.Redis]) -> Iterator[None]:
        """Work while the block kills the server."""
        jobs = [each.step for each in (*self._workers, *self._others)] + [self._save_or_rewrite]
        seeds = [self._chance.random() for _ in jobs]
        threads = [
            threading.Thread(target=self._work, args=(connect, job, random.Random(seed)))
            for job, seed in zip(jobs, seeds, strict=True)
        ]
        self._errors: list[Exception] = []
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            for thread in threads:
                thread.join(30)
        assert not self._errors, [str(error) for error in self._errors]

    def _work(
        self,
        connect: Callable[[], redis.Redis],
        step: Callable[[redis.Redis, random.Random], None],
        chance: random.Random,
    ) -> None:
        try:
            with connect() as client:
                while True:
                    step(client, chance)
        except GONE:
            pass
        except Exception as error:  # noqa: BLE001 — told by the test's own thread
            self._errors.append(error)

    def _save_or_rewrite(self, client: redis.Redis, chance: random.Random) -> None:
        threading.Event().wait(chance.uniform(0.01, 0.1))
        try:
            client.execute_command(chance.choice(("BGREWRITEAOF", "BGREWRITEAOF", "BGSAVE")))
        except redis.ResponseError as error:
            if "progress" not in str(error) and "Another child" not in str(error):
                raise

    def check(self, client: redis.Redis) -> None:
        self._workers[0].check(client)
        for each in self._others:
            each.check(client)
