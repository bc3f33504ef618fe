"""How far a query is behind its streams, of what Spark says about its progress.

Spark takes no metrics of sources that are written in Python (`sources[].metrics` is empty, where Kafka's source has
avgOffsetsBehindLatest). But a progress has the offset where the batch ended, and the one that the streams had reached
when it was planned. The difference of two marks of a stream is its lag: in entries, and in milliseconds, since IDs are
times.

    lag_of(query.lastProgress)                        the lag of each stream, its average and its maximum
    spark.streams.addListener(LagListener(print))     the same after each batch of each query
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.streaming.listener import StreamingQueryListener

from headrace.core.stream_id import MIN_ID
from headrace.spark.offsets import Mark, StreamKey, from_json

_LOG: Final = logging.getLogger("headrace.spark")


@dataclass(frozen=True)
class StreamLag:
    """What a query has still to read of a stream."""

    entries: int | None
    """None: how many is not known, as where the position is among archived entries."""
    milliseconds: int
    """Between the last entry that was read and the last one that there is."""


@dataclass(frozen=True)
class Lag:
    """What a query has still to read, when its last batch was planned."""

    streams: Mapping[str, StreamLag]
    """By key; with several servers by server and key, as `1/orders`."""

    @property
    def known(self) -> list[int]:
        """How many entries each stream has, of those where that is known."""
        return [lag.entries for lag in self.streams.values() if lag.entries is not None]

    @property
    def entries(self) -> int:
        """Of all streams together."""
        return sum(self.known)

    @property
    def max_entries(self) -> int:
        """Of the stream that has most."""
        return max(self.known, default=0)

    @property
    def avg_entries(self) -> float:
        """Of a stream, on average."""
        return self.entries / len(self.known) if self.known else 0.0

    @property
    def max_milliseconds(self) -> int:
        """Of the stream that is furthest behind."""
        return max((lag.milliseconds for lag in self.streams.values()), default=0)

    @property
    def avg_milliseconds(self) -> float:
        """Of a stream, on average."""
        return sum(lag.milliseconds for lag in self.streams.values()) / len(self.streams) if self.streams else 0.0

    def __str__(self) -> str:
        return (
            f"{self.entries:,} entries behind in {len(self.streams):,} streams "
            f"(avgLag {self.avg_entries:,.1f}, maxLag {self.max_entries:,}), {self.max_milliseconds:,} ms at most"
        )


def lag_of(progress: Any) -> Lag:
    """Return the lag that a progress of Spark's tells: `query.lastProgress`, or the one of an event."""
    found: dict[str, StreamLag] = {}
    sources = [] if progress is None else progress["sources"] if isinstance(progress, dict) else progress.sources
    for source in sources:
        read, latest = _marks(source, "endOffset"), _marks(source, "latestOffset")
        several = len({server for server, _ in latest}) > 1
        for (server, key), mark in latest.items():
            name = key.decode(errors="backslashreplace")
            lag = _between(read.get((server, key)), mark)
            found[f"{server}/{name}" if several else name] = lag
    return Lag(found)


def _between(read: Mark | None, latest: Mark) -> StreamLag:
    if read is None or read.life != latest.life:
        return StreamLag(latest.total, 0)
    if read.id >= latest.id:
        return StreamLag(0, 0)
    known = None if read.added is None or latest.added is None else max(0, latest.added - read.added)
    # Where nothing was read, nothing says when the first entry came.
    return StreamLag(known, 0 if read.id == MIN_ID else latest.id.ms - read.id.ms)


def _marks(source: Any, name: str) -> dict[StreamKey, Mark]:
    """Return the positions of an offset of a source, unless the source is another one than ours."""
    told = source[name] if isinstance(source, dict) else getattr(source, name)
    try:
        offset = json.loads(told) if isinstance(told, str) else told
        return {place: mark for place, mark in from_json(offset or {}).items() if not mark.gone}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}


class LagListener(StreamingQueryListener):
    """Tells the lag of every query after each of its batches: to `report`, or the log `headrace.spark`."""

    def __init__(self, report: Callable[[Lag], object] | None = None) -> None:
        self._report = report or (lambda lag: _LOG.info("%s", lag))

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  (Spark's names here and below)
        """Do nothing."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Tell the lag of a query that reads streams."""
        lag = lag_of(event.progress)
        if lag.streams:
            self._report(lag)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Do nothing."""
