"""What the engine does by time: one heap, and one alarm for the first that is due.

    deadline    a client whose time is up             once
    reminder    a key that may have become ready      once
    chore       expiring, forgetting, tidying         again and again: it says each time when it is due next

Nothing looks at what is not due: to have a million keys that expire tomorrow, or ten thousand clients that wait, costs
a tick nothing. A chore does no more at once than a client can wait for. Its next turn comes when at least
`PAUSE_MS` have passed; a key that expires earlier is found when it is asked for.

All times here are of the steady clock (`engine.clocks.steady_ms`), which cannot be set. What is due in Unix time is
planned with the difference of both clocks, and planned again when that has grown.

The host is told through `set_alarm` when something is due, and calls `blocking.waking.run_due` then.
"""

from collections.abc import Callable
from typing import Final

from headrace.engine.timers import Timer, TimerHeap

PAUSE_MS: Final = 100  # between two turns of a chore
_LAST_MS: Final = 2**63 - 1  # of any clock


class Chores:
    """See the module. What is due is a client, a key of a database, a chore, or whatever else was added."""

    def __init__(self) -> None:
        self.set_alarm: Callable[[int], None] = lambda _: None
        self.timers = TimerHeap()
        self._alarm_ms: int | None = None
        self._in_unix_time: list[Chore] = []
        self._lead_ms = 0  # how much more Unix time shows than the steady clock

    def add(self, when_ms: int, target: object) -> Timer:
        """Have something done at a time."""
        timer = self.timers.add(when_ms, target)
        if self._alarm_ms is None or when_ms < self._alarm_ms:
            self._alarm_ms = when_ms
            self.set_alarm(when_ms)
        return timer

    def remove(self, timer: Timer) -> None:
        """Have it not done."""
        self.timers.remove(timer)

    def take_due(self, now_ms: int) -> list[object]:
        """Take what is due by now, in the order in which it became due."""
        targets: list[object] = []
        while (target := self.timers.pop_due(now_ms)) is not None:
            targets.append(target)
        self._alarm_ms = self.timers.first_due
        if self._alarm_ms is not None:
            self.set_alarm(self._alarm_ms)
        return targets

    def register(self, run: Callable[[], int | None], *, in_unix_time: bool, pause_ms: int = PAUSE_MS) -> "Chore":
        """Make a chore. `run` does what is due, and returns when it is due again, by its clock; None: not known.

        A chore that must be on time has a shorter pause than others, and does less at once.
        """
        chore = Chore(self, run, in_unix_time=in_unix_time, pause_ms=pause_ms)
        if in_unix_time:
            self._in_unix_time.append(chore)
        return chore

    def set_lead(self, lead_ms: int, now_ms: int) -> None:
        """Note how much more Unix time shows now than the steady clock.

        Where that has grown, chores are due earlier than they were planned, and are planned again. Where it has shrunk,
        they come too early, and plan again by themselves; two readings may differ by one millisecond.
        """
        if lead_ms > self._lead_ms:
            self._lead_ms = lead_ms
            for chore in self._in_unix_time:
                chore.replan(now_ms)
        elif lead_ms < self._lead_ms - 1:
            self._lead_ms = lead_ms

    def steady(self, unix_ms: int) -> int:
        """When the steady clock shows what Unix time is then."""
        return min(unix_ms - self._lead_ms, _LAST_MS)


class Chore:
    """Something that is done whenever it is due."""

    __slots__ = ("_chores", "_in_unix_time", "_not_before_ms", "_pause_ms", "_run", "_timer")

    def __init__(self, chores: Chores, run: Callable[[], int | None], *, in_unix_time: bool, pause_ms: int) -> None:
        self._chores = chores
        self._pause_ms = pause_ms
        self._run = run
        self._in_unix_time = in_unix_time
        self._timer: Timer | None = None
        self._not_before_ms = 0

    def expect(self, when_ms: int) -> None:
        """Have it done at a time of its clock at the latest."""
        if self._in_unix_time:
            when_ms = self._chores.steady(when_ms)
        self._expect(max(when_ms, self._not_before_ms))

    def replan(self, now_ms: int) -> None:
        """Let it find out whether and when it is due."""
        if self._timer is not None:
            self._expect(now_ms)

    def take_turn(self, now_ms: int) -> None:
        """Do what is due."""
        self._timer = None
        self._not_before_ms = now_ms + self._pause_ms
        next_ms = self._run()
        if next_ms is not None:
            self.expect(next_ms)

    def _expect(self, when_ms: int) -> None:
        if self._timer is not None:
            if self._timer.due <= when_ms:
                return
            self._chores.remove(self._timer)
        self._timer = self._chores.add(when_ms, self)
