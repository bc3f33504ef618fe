"""Command lines to an engine in the test's own process, with replies and effects as plain values."""

from typing import Any

from support.in_process import InProcess
from support.raw_client import parse

NOW = 1_700_000_000_000


class StreamSession(InProcess):
    """One client that types lines, at a time that stands still until it is moved."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = NOW
        self.set_clock(NOW)

    def wait_ms(self, milliseconds: int) -> None:
        """Let time pass."""
        self.now_ms += milliseconds
        self.set_clock(self.now_ms)

    def ask(self, line: str) -> Any:
        """Run a line and return its reply: str, int, None, or lists of them; an error is a str that begins with -."""
        return plain(parse(self.run(*line.split(" "))))

    def fill(self, key: str, *ids: str) -> None:
        """Add entries with these IDs."""
        for id in ids:
            assert self.ask(f"XADD {key} {id} f v") == id

    def effects(self) -> list[str]:
        """Return the effects since the last time, as lines."""
        return [b" ".join(words).decode("latin-1") for _, words in self.take_effects()]

    def info(self, line: str) -> Any:
        """Run XINFO and return its maps as dictionaries."""
        return as_dictionaries(self.ask(line))

    def pending(self, key: str, group: str) -> list[Any]:
        """Return the pending records of a group: ID, owner, idle time, deliveries."""
        return list(self.ask(f"XPENDING {key} {group} - + 100"))

    def changes(self) -> int:
        """Return how many changes were counted since the server began."""
        return int(self.engine.dirty)


def plain(reply: Any) -> Any:
    if isinstance(reply, list):
        return [plain(item) for item in reply[1:]]
    if reply in ("$-1", "*-1", "_"):
        return None
    if reply[0] == ":":
        return int(reply[1:])
    return reply if reply[0] == "-" else reply[1:]


def as_dictionaries(reply: Any) -> Any:
    if isinstance(reply, list) and reply and reply[0] in ("name", "length"):
        return {name: as_dictionaries(value) for name, value in zip(reply[::2], reply[1::2], strict=True)}
    return [as_dictionaries(item) for item in reply] if isinstance(reply, list) else reply


def entry(id: str) -> list[Any]:
    """Return the reply for an entry that `fill` added."""
    return [id, ["f", "v"]]


def ids_of(reply: Any) -> dict[str, list[str]]:
    """Return the IDs that XREAD or XREADGROUP gave of each stream."""
    return {key: [each[0] for each in entries] for key, entries in reply or []}
