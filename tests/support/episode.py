"""An episode: random commands, which follow from a seed, to Headrace and to a redis-server; and campaigns of episodes.

    run_episode ─► begins with nothing ─► take_step, again and again ─► compare_everything
                                          a failure is noted with its seed, its step and the last commands

Each campaign decides which commands are sent, by how many clients, and which replies count as the same.
"""

import random
from abc import ABC, abstractmethod
from collections import Counter, deque
from contextlib import ExitStack
from typing import Any, ClassVar, Protocol

import redis

from support.campaign import SEED
from support.raw_client import port_of

Command = list[bytes]
Answers = Counter[tuple[bytes, bool]]  # (name of a command, whether it was answered with other than an error): times

COMMANDS_OF_CAMPAIGN = 3_000_000


class Writer(Protocol):
    """Writes random commands."""

    def valid(self) -> Command: ...

    def spoil(self, command: Command) -> Command: ...

    def nonsense(self) -> Command: ...


class Episode(ABC):
    """A few hundred commands of one seed, on both servers."""

    commands: ClassVar[int]

    def __init__(self, seed: int, writer: Writer) -> None:
        self.seed = seed
        self.step = 0
        self.random = random.Random(~seed)
        self.written_by = writer
        self.latest: deque[str] = deque(maxlen=15)
        self.answers = Answers()

    @abstractmethod
    def take_step(self) -> None:
        """Ask both servers something."""

    @abstractmethod
    def compare_everything(self) -> None:
        """Compare all that there is."""

    def run(self) -> Answers:
        try:
            while self.step < self.commands:
                self.step += 1
                self.take_step()
            self.compare_everything()
        except Exception as error:
            lines = "\n".join(f"  {line}" for line in self.latest)
            error.add_note(f"HEADRACE_SEED={self.seed} replays this: step {self.step}, last commands\n{lines}")
            raise
        return self.answers

    def write(self, roll: float) -> Command:
        """Write a command: a wrong one where the roll, of 0 to 1, is high."""
        command = self.written_by.valid()
        if roll > 0.97:
            return self.written_by.nonsense()
        return self.written_by.spoil(command) if roll > 0.8 else command

    def count(self, command: Command, reply: Any) -> None:
        """Note whether a command was answered or refused."""
        self.answers[command[0].lower(), not (isinstance(reply, str) and reply.startswith("-"))] += 1


class Campaign:
    """The episodes of one kind."""

    def __init__(self, kind: type[Any], episodes: int) -> None:
        self._kind = kind
        self.episodes = episodes

    @property
    def seeds(self) -> list[int]:
        """The seeds of a run before a merge, or the one that is to be replayed."""
        return [SEED] if SEED is not None else list(range(self.episodes))

    def run(self, headrace_server: redis.Redis, redis_server: redis.Redis, seed: int) -> Answers:
        """Run the episode of a seed; how often each command was answered, and how often refused."""
        with ExitStack() as stack:
            episode: Episode = self._kind(seed, port_of(headrace_server), port_of(redis_server), stack)
            return episode.run()

    def run_millions(self, headrace_server: redis.Redis, redis_server: redis.Redis) -> None:
        """Run as many episodes as it takes, of seeds never used before."""
        first = random.SystemRandom().randrange(2**32)
        for number in range(COMMANDS_OF_CAMPAIGN // self._kind.commands):
            self.run(headrace_server, redis_server, first + number)
