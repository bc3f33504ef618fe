"""Commands that run long: others are told so while it goes on, instead of waiting for an answer that may never come.

    begin ──► the command runs, on a stack of its own (a greenlet)
                 │ not over when its time is
                 ├─ pause ──► back to the event loop, which reads, answers BUSY, and goes on with the command, and so on
                 └─ over ──► what follows a command: effects, messages, clients that waited, the reply

There is one thread, and one command at a time: what is paused is in the middle, and nothing else touches the data. To
begin a greenlet costs a microsecond or two; a thread to hand over to and back cost 15 to 40.
"""

from collections.abc import Callable
from typing import Any

from headrace.engine.client import Client
from headrace.engine.command import Command
from headrace.engine.engine import Engine

try:
    from greenlet import greenlet
except ImportError:  # it comes with what scripts need, see `sandbox`
    CAN_PAUSE = False
else:
    CAN_PAUSE = True

Soon = Callable[[Callable[[], None]], Any]


class LongRuns:
    """Lets the event loop have its turn while a command runs; `soon` calls back after the loop's next turn."""

    def __init__(self, engine: Engine, soon: Soon) -> None:
        self.engine = engine
        self.soon = soon
        self.current: LongRun | None = None  # on the stack of which we are

    def begin(self, client: Client, command: Command, argv: list[bytes]) -> None:
        """Run a command to its end, or until it pauses."""
        LongRun(self, client, command, argv).resume()


class LongRun:
    """One command that may pause."""

    def __init__(self, runs: LongRuns, client: Client, command: Command, argv: list[bytes]) -> None:
        self._runs = runs
        self._client = client
        self._argv = argv
        self._written = client.reply.written()
        self._paused = False
        self._stack = greenlet(lambda: runs.engine.run_found(client, command, argv))

    def resume(self) -> None:
        """Run up to the next pause, or to the end."""
        runs = self._runs
        runs.current = self
        try:
            self._stack.switch()
        finally:
            runs.current = None
        if not self._stack.dead:
            if not self._paused:
                self._paused = True
                runs.engine.begin_pause(self, self._client, self._argv)
            runs.soon(self.resume)
        elif self._paused:
            runs.engine.end_pause(self._client, self._written)

    def pause(self) -> None:
        """Let the event loop have its turn; called by the command itself. It is still the same moment afterwards."""
        now_ms = self._runs.engine.clocks.now_ms
        self._stack.parent.switch()
        self._runs.engine.clocks.resume_at(now_ms)
