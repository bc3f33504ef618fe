"""One HTML page about streams: what is in them, and which consumers read them.

streams ─► Spark counts (`measures`) ─┐
server  ─► XINFO, XPENDING (`groups`) ┴─► one file: no network, no script, light and dark
"""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.clients.urls import shown, split_urls
from headrace.pipelines.errors import PipelineError, explained
from headrace.pipelines.report.groups import measure_groups
from headrace.pipelines.report.measures import measure
from headrace.pipelines.report.page import render_page
from headrace.pipelines.running import Progress, Watch, ignore
from headrace.pipelines.selection import id_range
from headrace.spark.connecting import connect
from headrace.spark.options import DEFAULT_URL, read_options
from headrace.spark.streams import StreamState


@dataclass(frozen=True)
class Reported:
    """The subject of the page."""

    page: str
    entries: int
    streams: int
    groups: int


def report_streams(
    spark: SparkSession,
    keys: str,
    page: str | os.PathLike[str],
    *,
    url: str = DEFAULT_URL,
    start: str | None = None,
    end: str | None = None,
    title: str | None = None,
    watch: Watch = ignore,
) -> Reported:
    """Write a page about the entries of streams, from one time to another, and about their groups as they are now."""
    target = Path(page)
    if not target.absolute().parent.is_dir():
        raise PipelineError(f"there is no directory {str(target.absolute().parent)!r} to write the page to")
    options = {"url": url, "keys": keys}
    names = read_options(options, streaming=False).keys
    with explained():
        between = id_range(start, end)
        connections = connect(url)
        try:
            states: dict[tuple[int, bytes], StreamState] = {}
            for place, key in connections.resolve(names):
                state = connections.transport(place).describe([key])[0]
                if state is not None:
                    states[place, key] = state
            groups = measure_groups(connections, states)
        finally:
            connections.close()
        measures = measure(spark, options, _by_key(states), between)
        watch(Progress(measures.entries))
    server = ", ".join(shown(part) for part in split_urls(url))
    html = render_page(title or f"Streams {keys}", server, measures, groups, int(time.time() * 1000))
    _write_whole(target, html)
    return Reported(str(target), measures.entries, len(states), len(groups))


def _by_key(states: dict[tuple[int, bytes], StreamState]) -> dict[bytes, StreamState]:
    """Put the states of a key that several servers have together."""
    merged: dict[bytes, StreamState] = {}
    for (_, key), state in states.items():
        other = merged.get(key)
        if other is None:
            merged[key] = state
            continue
        firsts = [each.first_id for each in (state, other) if each.first_id is not None]
        merged[key] = StreamState(
            length=state.length + other.length,
            first_id=min(firsts, default=None),
            last_id=max(state.last_id, other.last_id),
            max_deleted_id=max(state.max_deleted_id, other.max_deleted_id),
            added=state.added + other.added,
        )
    return merged


def _write_whole(target: Path, text: str) -> None:
    """Write a file so that a reader finds the old one or the new one."""
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        unfinished.write_text(text)
        unfinished.replace(target)
    except OSError as error:
        raise PipelineError(f"the page {str(target)!r} cannot be written: {error.strerror}") from None
