"""A program over everything that writes, on a real disk that refuses (see faulty_disk), and what must be true of it.

    execute      runs a command, in process or on a server; a refusal is an exception with a text
    ADD          an entry with the next number; what was not refused is acknowledged

Every refusal names the disk's reason. When the disk accepts everything again, so does the engine by itself.
"""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from support.patience import PATIENCE_S

Execute = Callable[..., Any]

ADD = ("ADD",)
SETTLE = ("SETTLE",)
LIBRARY = "#!lua name=lib\nredis.register_function('f', function() return 1 end)"
STEPS: tuple[tuple[str, ...], ...] = (
    *(ADD, ("FUNCTION", "LOAD", "REPLACE", LIBRARY), ADD, ("BGSAVE",), SETTLE, ADD, ("BGREWRITEAOF",), ADD, SETTLE),
    *(("CONFIG", "SET", "appendfsync", "everysec"), ADD, ("SAVE",), ("CONFIG", "SET", "appendonly", "no"), ADD),
    *(("CONFIG", "SET", "appendonly", "yes"), ADD, ("CONFIG", "SET", "appendfsync", "always"), ADD),
)
OTHER_REASONS = ("MISCONF ", "did not take what was written before", "already in progress", "child process is active")


class Program:
    """What was acknowledged, and what was refused with which words."""

    def __init__(self, error: int) -> None:
        self.error = error
        self.acknowledged: set[int] = set()
        self.library = False
        self.refusals: list[str] = []
        self._next = 0

    def run(self, execute: Execute, steps: Sequence[tuple[str, ...]] = STEPS) -> None:
        for step in steps:
            if step == SETTLE:
                self._settle(execute)
            else:
                self.attempt(execute, *step)

    def attempt(self, execute: Execute, *words: str) -> bool:
        """Run a step; tell whether it was not refused."""
        number = self._next
        if words[:1] == ADD:
            self._next += 1
            words = ("XADD", "s", "*", "n", str(number), *(("more", words[1]) if words[1:] else ()))
        try:
            execute(*words)
        except Exception as refusal:  # noqa: BLE001 — of the client, or of the engine
            self.note_refusal(f"{words[0]}: {refusal}")
            return False
        if words[0] == "XADD":
            self.acknowledged.add(number)
        self.library |= words[0] == "FUNCTION"
        return True

    def note_refusal(self, text: str) -> None:
        assert os.strerror(self.error) in text or any(reason in text for reason in OTHER_REASONS), text
        self.refusals.append(text)

    def await_service(self, execute: Execute) -> None:
        """Find everything accepted, soon after the disk takes it again."""
        for words in (
            *(("CONFIG", "SET", "appendonly", "yes"), ADD, ("SAVE",), ("CONFIG", "SET", "appendfsync", "always")),
            *(("BGREWRITEAOF",), ADD),
        ):
            deadline = time.monotonic() + PATIENCE_S
            while not self.attempt(execute, *words):
                assert time.monotonic() < deadline, self.refusals[-1]
                time.sleep(0.02)
            self._settle(execute)

    def assert_kept(self, execute: Execute) -> None:
        """Everything that was acknowledged is there, once; what was refused may be."""
        found = [int(_number(fields)) for _, fields in execute("XRANGE", "s", "-", "+")]
        assert len(found) == len(set(found)), found
        assert self.acknowledged <= set(found) <= set(range(self._next)), self.acknowledged - set(found)
        if self.library:
            assert execute("FCALL", "f", "0") == 1

    def _settle(self, execute: Execute) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            told = execute("INFO", "persistence")
            if not isinstance(told, dict):  # which redis-py makes of it
                told = dict(line.partition(":")[::2] for line in told.decode().splitlines())
            if int(told["rdb_bgsave_in_progress"]) == int(told["aof_rewrite_in_progress"]) == 0:
                return
            assert time.monotonic() < deadline, told
            time.sleep(0.01)


def _number(fields: Any) -> Any:
    return next(iter(fields.values())) if isinstance(fields, dict) else fields[1]
