"""An engine in the test's own process that keeps rules: replies as Python values, and a clock that is moved on."""

from typing import Any

import hiredis

from support.in_process import InProcess, InProcessClient

Reply = Any  # what RESP may hold

START_MS = 1_700_000_000_000


def parsed(raw: bytes) -> Reply:
    """Return a reply as redis-py would, errors as exceptions that are returned; False where there is none yet."""
    reader = hiredis.Reader()
    reader.feed(raw)
    return reader.gets()


class RuledEngine(InProcess):
    """An engine that begins at START_MS."""

    def __init__(self, start_ms: int = START_MS) -> None:
        super().__init__()
        self.now_ms = start_ms
        self.set_clock(start_ms)
        self.engine.rules.turn_ns = 1 << 40  # a turn ends where its work does, not when the machine is slow

    def ask(self, *words: str | bytes | int) -> Reply:
        """Run a command and return its reply."""
        return parsed(self.run(*words))

    def policy(self, *words: str | bytes | int) -> Reply:
        """Run a HEADRACE POLICY command; a map is a dict."""
        reply = self.ask("HEADRACE", "POLICY", *words)
        if str(words[0]).upper() == "GET" and isinstance(reply, list):
            return dict(zip(reply[::2], reply[1::2], strict=True))
        return reply

    def wait(self, ms: int) -> None:
        """Let time pass, and let the engine do what is due, as often as it wants."""
        self.now_ms += ms
        self.set_clock(self.now_ms)
        self.settle()

    def settle(self) -> None:
        """Let chores have their turns until none wants another one now; what comes in between takes no time."""
        for _ in range(1000):
            self.engine.tick()
            first = self.engine.chores.timers.first_due
            if first is None or first > self.now_ms + 10:
                return
            self.now_ms += 5
            self.set_clock(self.now_ms)
        raise AssertionError("the chores do not come to an end")

    def read(self, consumer: str, *options: str | int, key: str = "q", group: str = "g") -> list[bytes]:
        """Read a group with a plain `>`; return the IDs."""
        reply = self.ask("XREADGROUP", "GROUP", group, consumer, *options, "STREAMS", key, ">")
        return [entry[0] for entry in reply[0][1]] if reply else []

    def pending(self, key: str = "q", group: str = "g") -> dict[bytes, tuple[bytes, int]]:
        """Return what is pending: ID -> (consumer, deliveries)."""
        rows = self.ask("XPENDING", key, group, "-", "+", 10_000)
        return {row[0]: (row[1], row[3]) for row in rows}

    def entries(self, key: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
        """Return all entries of a stream."""
        reply = self.ask("XRANGE", key, "-", "+")
        return [(entry[0], dict(zip(entry[1][::2], entry[1][1::2], strict=True))) for entry in reply]

    def waiting(self, *words: str | bytes | int) -> InProcessClient:
        """Connect a client that waits."""
        return self.waiting_client(*words)
