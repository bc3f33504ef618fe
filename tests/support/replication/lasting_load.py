"""Clients that work at the master, wherever it is, through whatever happens to it, and remember what it acknowledged.

A request that was refused, or had no answer, is not sent again: it may have been run or not. The clients of
acknowledged_load do the work, each in a thread and over a connection of its own.
"""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol, Self

import redis

from support.patience import await_that

ENOUGH = 20

# How a server refuses a client at such times; any other error is one of ours.
REFUSALS = ("NOREPLICAS", "READONLY", "UNBLOCKED", "LOADING", "MASTERDOWN")


class WorkingClient(Protocol):
    """One of acknowledged_load."""

    @property
    def acknowledged(self) -> int: ...
    def step(self, client: redis.Redis, chance: random.Random, /) -> None: ...
    def check(self, client: redis.Redis) -> None: ...


class LastingLoad:
    """See the module; `connect` returns a client of the master that there is."""

    def __init__(
        self,
        connect: Callable[[], redis.Redis],
        clients: Sequence[WorkingClient],
        *,
        seed: int = 0,
        pause_s: float = 0.002,
    ) -> None:
        self._clients = clients
        self._connect = connect
        self._pause_s = pause_s
        self._ended = threading.Event()
        self._turns = [threading.Lock() for _ in clients]  # held during a step
        self._errors: list[Exception] = []
        chance = random.Random(seed)
        self._threads = [
            threading.Thread(target=self._work, args=(client, turn, random.Random(chance.random())))
            for client, turn in zip(clients, self._turns, strict=True)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _work(self, working: WorkingClient, turn: threading.Lock, chance: random.Random) -> None:
        with self._connect() as client:
            while not self._ended.wait(self._pause_s):
                try:
                    with turn:
                        working.step(client, chance)
                except (redis.ConnectionError, redis.TimeoutError):
                    self._ended.wait(0.05)
                except redis.ResponseError as error:
                    if not any(refusal in str(error) for refusal in REFUSALS):  # redis-py puts the command before
                        self._errors.append(error)
                    self._ended.wait(0.05)
                except Exception as error:  # noqa: BLE001 — told by the test's own thread
                    self._errors.append(error)
                    return

    def await_more(self) -> None:
        """Wait until every client has had some more acknowledged."""
        before = [client.acknowledged for client in self._clients]

        def has_more() -> bool:
            assert not self._errors, [str(error) for error in self._errors]
            return all(
                client.acknowledged > count + ENOUGH for client, count in zip(self._clients, before, strict=True)
            )

        await_that(has_more)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let no client have a request on its way."""
        with ExitStack() as stack:
            for turn in self._turns:
                stack.enter_context(turn)
            yield

    def check(self, client: redis.Redis) -> None:
        """What was acknowledged must be there; only while the clients are paused, or have ended."""
        assert not self._errors, [str(error) for error in self._errors]
        for each in self._clients:
            each.check(client)
