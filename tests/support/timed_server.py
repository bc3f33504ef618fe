"""An engine at noon, whose clock a test sets, and which does all that is due then; replies as values."""

from typing import Any

from headrace.engine.blocking.waking import run_due
from support.in_process import InProcess

NOON = 1_700_000_000_000


class TimedServer(InProcess):
    """See the module; `log` has what it would have told the operator."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []
        self.engine.hooks.warning = self.log.append
        self.at(0)

    def at(self, ms: int) -> None:
        """Let it be so long after noon, by both clocks, and do all that is due then."""
        self.set_clock(NOON + ms)
        self.engine.tick()
        self.run_all_due()

    def run_all_due(self) -> None:
        for _ in range(100_000):
            first = self.engine.chores.timers.first_due
            if first is None or first > self.engine.clocks.steady_ms():
                return
            run_due(self.engine)
        raise AssertionError("something is due again and again")

    def ask(self, *words: str | bytes | int) -> Any:
        """Run a command and return its reply: bytes, numbers, None and lists; an error raises."""
        value, rest = read_reply(self.run(*words))
        assert rest == b""
        return value

    def stream(self, key: str = "q") -> list[bytes]:
        """The first values of all entries, in order."""
        return [fields[1] for _, fields in self.ask("XRANGE", key, "-", "+")]


def read_reply(data: bytes) -> tuple[Any, bytes]:
    """Read one reply of RESP2: its value, and what is behind it."""
    line, rest = data[1:].split(b"\r\n", 1)
    mark = data[:1]
    if mark == b"+":
        return line, rest
    if mark == b":":
        return int(line), rest
    if mark == b"$":
        size = int(line)
        return (None, rest) if size < 0 else (rest[:size], rest[size + 2 :])
    assert mark == b"*", data
    if int(line) < 0:
        return None, rest
    items = []
    for _ in range(int(line)):
        item, rest = read_reply(rest)
        items.append(item)
    return items, rest


def as_map(row: list[Any]) -> dict[bytes, Any]:
    """Read a map, which in RESP2 is a list."""
    return dict(zip(row[::2], row[1::2], strict=True))
