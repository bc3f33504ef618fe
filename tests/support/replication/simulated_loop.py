"""Event loops without threads and sockets, on one clock that stands still while something happens.

    Timeline     what is to happen, in the order of its time, over all processes
    ProcessLoop  the event loop of one process: asyncio's tasks, futures and streams run on it as they are. When the
                 process has ended, nothing of what it had planned happens.

Only what Headrace asks of an event loop is here.
"""

import asyncio
from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import Callable, Coroutine
from contextlib import suppress
from heapq import heappop, heappush
from typing import Any, Final

from support.storage.simulated_disk import ProcessEnded

BEGINNING_S: Final = 1_700_000_000.0


class Planned:
    """A call that is to happen."""

    __slots__ = ("arguments", "callback", "loop", "when")

    def __init__(self, when: float, callback: Callable[..., Any], arguments: tuple[Any, ...], loop: "ProcessLoop"):
        self.when = when
        self.callback: Callable[..., Any] | None = callback
        self.arguments = arguments
        self.loop = loop

    def cancel(self) -> None:
        self.callback = None

    def cancelled(self) -> bool:
        return self.callback is None


class Timeline:
    """See the module."""

    def __init__(self) -> None:
        self.now = BEGINNING_S
        self._planned: list[tuple[float, int, Planned]] = []
        self._count = 0
        self.failure: BaseException | None = None  # of code that nobody calls

    def seconds(self) -> float:
        return self.now

    def milliseconds(self) -> int:
        return int(self.now * 1000)

    def plan(self, planned: Planned) -> None:
        self._count += 1
        heappush(self._planned, (planned.when, self._count, planned))

    def run_until(self, end: float) -> None:
        """Let everything happen that is planned up to a time."""
        planned = self._planned
        while planned and planned[0][0] <= end:
            when, _, call = heappop(planned)
            self.now = max(self.now, when)
            call.loop.run(call)
            if self.failure is not None:
                failure, self.failure = self.failure, None
                raise failure
        self.now = end

    def run_for(self, seconds: float) -> None:
        self.run_until(self.now + seconds)


class ProcessLoop:
    """See the module; `connect` makes connections."""

    def __init__(self, timeline: Timeline, connect: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        self.timeline = timeline
        self._connect = connect
        self.is_alive = True
        self._as_loop: Any = self  # for asyncio, which asks for no more than there is
        self._tasks: list[asyncio.Task[Any]] = []

    def run(self, call: Planned) -> None:
        if not self.is_alive or call.callback is None:
            return
        _set_running_loop(self._as_loop)
        try:
            call.callback(*call.arguments)
        except ProcessEnded:
            return
        except BaseException as error:  # noqa: BLE001 - it is raised to who runs the time
            self.timeline.failure = error
        finally:
            _set_running_loop(None)

    def end(self) -> None:
        """End the process: what its tasks had still to do is not done."""
        self.is_alive = False
        running = _get_running_loop()
        _set_running_loop(self._as_loop)
        for task in self._tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with suppress(RuntimeError, ValueError, ProcessEnded):  # one that runs just now has ended the process
                task.get_coro().close()
        _set_running_loop(running)
        self._tasks.clear()

    # --- what asyncio asks for -------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.timeline.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return not self.is_alive

    def call_at(self, when: float, callback: Any, *args: Any, **_: Any) -> Any:
        planned = Planned(when, callback, args, self)
        self.timeline.plan(planned)
        return planned

    def call_soon(self, callback: Any, *args: Any, **_: Any) -> Any:
        return self.call_at(self.timeline.now, callback, *args)

    def call_soon_threadsafe(self, callback: Any, *args: Any, **_: Any) -> Any:
        return self.call_at(self.timeline.now, callback, *args)

    def call_later(self, delay: float, callback: Any, *args: Any, **_: Any) -> Any:
        return self.call_at(self.timeline.now + delay, callback, *args)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self._as_loop)

    def create_task(self, coro: Any, **_: Any) -> asyncio.Task[Any]:
        self._tasks = [task for task in self._tasks if not task.done()]
        task = asyncio.Task(coro, loop=self._as_loop)
        self._tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if self.is_alive and not isinstance(error, ProcessEnded):
            self.timeline.failure = error or AssertionError(context["message"])

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        protocol = protocol_factory()
        return await self._connect(self, protocol, host, port), protocol
