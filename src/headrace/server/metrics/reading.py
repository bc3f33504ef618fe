"""One reading of everything, in slices: clients are served after each half millisecond of it.

    census: pages of keys ─► the server ─► commands ─► the journal ─► replicas ─► streams ─► Families

While data is loaded, or while a script runs long, the streams are left out.
"""

import asyncio
from collections.abc import Iterator
from time import perf_counter
from typing import Final

from headrace.engine.engine import Engine
from headrace.replication.followers import Followers
from headrace.server.metrics.census import PAGES, Census
from headrace.server.metrics.families import Families
from headrace.server.metrics.server_figures import add_commands, add_journal, add_replicas, add_server
from headrace.server.metrics.stream_figures import add_streams
from headrace.storage.journal import Journal

_SLICE_S: Final = 0.0005


class Readings:
    """See the module."""

    def __init__(self, engine: Engine, journal: Journal, followers: Followers) -> None:
        self._engine = engine
        self._journal = journal
        self._followers = followers
        self._census = Census(engine)
        self._count = 0

    async def take(self) -> Families:
        """Read everything, and serve clients in between."""
        began = turn_began = perf_counter()
        worked = 0.0
        families = Families()
        for _ in self._steps(families):
            now = perf_counter()
            if now - turn_began >= _SLICE_S:
                worked += now - turn_began
                await asyncio.sleep(0)
                turn_began = perf_counter()
        now = perf_counter()
        self._count += 1
        gauge = families.gauge
        gauge(
            "headrace_metrics_work_seconds", "Time of the event loop that this reading took", worked + now - turn_began
        )
        gauge("headrace_metrics_read_seconds", "The same with what happened in between", now - began)
        families.counter("headrace_metrics_readings_total", "Readings so far", self._count)
        families.counter("headrace_metrics_rounds_total", "How often all keys were seen", self._census.rounds)
        return families

    def _steps(self, families: Families) -> Iterator[None]:
        engine = self._engine
        yield from add_server(families, engine)
        yield from add_commands(families, engine)
        add_journal(families, self._journal)
        yield
        add_replicas(families, engine, self._followers)
        yield
        if engine.loading or engine.busy is not None:
            return
        pages = 0
        while pages < PAGES and self._census.look():
            pages += 1
            yield
        yield from add_streams(families, engine, self._census)
