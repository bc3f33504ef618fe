"""`headrace` that moves nodes to segments after each write, however few they are: every command meets nodes on disk.

All of it is what a server does when memory is short (the policy, threads, files, reading beside the event loop), but
memory is what nodes take, `maxmemory` is a few hundred bytes, a segment may be as small as a node, mostly dead ones are
copied at once, the cache holds a node or two, and nothing is synced, because no test here cuts the power.
"""

import os
from collections.abc import Callable, Iterator

from headrace.cli.main import main
from headrace.engine.effect_log import CallbackSubscriber
from headrace.engine.engine import Engine
from headrace.storage import offloading, store
from headrace.storage.disk import Disk
from headrace.storage.log import Log
from headrace.storage.segments.segment import SegmentRun
from headrace.storage.segments.segment_set import SegmentSet

CACHE_BYTES = int(os.environ.get("HEADRACE_COLD_CACHE", "700"))

for name, value in (("_WORTH_MOVING", 1), ("_LEAST_SEGMENT", 400), ("_LEAST_CACHE", CACHE_BYTES), ("_COMPACTING_S", 0)):
    setattr(offloading, name, value)


class EagerOffloading(offloading.Offloading):
    """Looks after each effect."""

    def __init__(self, engine: Engine, segments: SegmentSet, log: Log) -> None:
        super().__init__(engine, segments, log)
        self._is_called = False
        engine.effects.subscribe(CallbackSubscriber(lambda _: self._look_soon()))

    @property
    def measure(self) -> Callable[[], int]:
        return self.hot_total

    @measure.setter
    def measure(self, _: Callable[[], int]) -> None:
        """Keep to nodes."""

    def _look_soon(self) -> None:
        if self.soon is not None and not self._is_called:
            self._is_called = True
            self.soon(self._look_now)

    def _look_now(self) -> None:
        self._is_called = False
        if not self._engine.loading:
            self.tick()
            self.compact_due()

    def _settle(self, moves: list[offloading.Move], written: list[SegmentRun] | OSError) -> Iterator[None]:
        yield from super()._settle(moves, written)
        self._look_soon()


setattr(store, "Offloading", EagerOffloading)  # noqa: B010
setattr(Disk, "sync", lambda *_: None)  # noqa: B010
setattr(Disk, "sync_directory", lambda *_: None)  # noqa: B010
main()
