"""A client that writes at random: every type, several databases, in and out of transactions."""

import random

from support.companion_commands import CompanionCommands
from support.random_commands import CommandWriter
from support.raw_client import RawClient


class RandomWriter:
    """Random commands over every type, in several databases, in and out of transactions."""

    def __init__(self, seed: int, port: int) -> None:
        self.random = random.Random(seed)
        self._writers = (CommandWriter(seed), CompanionCommands(seed))
        self._client = RawClient(port)

    def write(self, count: int) -> None:
        for _ in range(count):
            if self.random.random() < 0.05:
                self._client.run("SELECT", self.random.randrange(3))
            in_transaction = self.random.random() < 0.1
            if in_transaction:
                self._client.run("MULTI")
            for _ in range(self.random.randint(1, 5) if in_transaction else 1):
                (writer,) = self.random.choices(self._writers, (3, 1))
                self._client.run(*writer.valid())
            if in_transaction:
                self._client.run("EXEC")

    def close(self) -> None:
        self._client.close()
