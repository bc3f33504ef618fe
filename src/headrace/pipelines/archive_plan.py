"""The plan of a run of the archive. Nothing changes, no Spark runs: the server and the archive's log are read."""

from dataclasses import dataclass

from headrace.pipelines.layout import shown_key
from headrace.spark.archive_log import NOTHING
from headrace.spark.batch_reader import estimate
from headrace.spark.connecting import connect
from headrace.spark.delta_log import open_log
from headrace.spark.errors import UnreadableArchive
from headrace.spark.identity import same_streams
from headrace.spark.offsets import Mark
from headrace.spark.options import DEFAULT_URL, read_options
from headrace.spark.streams import StreamState


@dataclass(frozen=True)
class ArchivePlan:
    """The entries that a run would archive."""

    path: str
    new: bool
    """There is no archive yet."""
    entries: dict[str, int]
    """By stream: how many would be archived, of those that have any."""
    renewed: list[str]
    """Streams that were deleted and made anew since the last run."""


def plan_archive(keys: str, path: str, *, url: str = DEFAULT_URL, checkpoint: str | None = None) -> ArchivePlan:
    """Return what `archive_streams` would archive now."""
    try:
        marks = open_log(path, checkpoint).extent().marks
    except UnreadableArchive:
        marks = NOTHING.marks
    entries: dict[str, int] = {}
    renewed: list[str] = []
    connections = connect(url)
    try:
        for place in connections.resolve(read_options({"url": url, "keys": keys}, streaming=True).keys):
            transport = connections.transport(place[0])
            state = transport.describe([place[1]])[0]
            mark = marks.get(place)
            if state is None:
                continue
            name = shown_key(place[1])
            if mark is not None and not all(same_streams(transport, [(place[1], mark, state)])):
                renewed.append(name)
                mark = None
            count = _waiting(state, mark)
            if count:
                entries[name] = entries.get(name, 0) + count
    finally:
        connections.close()
    return ArchivePlan(path, not marks, entries, renewed)


def _waiting(state: StreamState, mark: Mark | None) -> int:
    """Return how many entries of a stream are behind a mark; about, where single entries were deleted."""
    if mark is None or state.first_id is None:
        return state.length
    if mark.id >= state.last_id:
        return 0
    if mark.added is not None:
        return max(0, min(state.length, state.added - mark.added))
    return estimate(state, mark.id.successor(), state.last_id)
