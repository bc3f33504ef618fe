"""A streaming query from its start to its end, with somebody watching.

start ─► poll twice a second ─► each batch: watch(Progress), then whatever follows a batch ─► the end, or an error
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.pipelines.errors import PipelineError, sentence_of, with_causes
from headrace.pipelines.lives import Fate, fates
from headrace.spark.lag import Lag, lag_of

ROWS_OUT: Final = "rows out"  # the observation that counts what a query gives, where it has one

_POLL_S: Final = 0.5
# A query can always be started again, and that helps in three cases. Spark gives the process of a Python source 10 s to
# start, which is not enough on a busy machine, and has no setting for it. A query survives the end of a task's process,
# but not of the process that commits. And a server that was restarted has lost what was staged.
_PASSING: Final = (
    "Python worker failed to connect back",
    "Python worker exited unexpectedly",
    "stage the batch again",
)
_ATTEMPTS: Final = 5  # without a batch in between


@dataclass(frozen=True)
class Progress:
    """How far a job is."""

    entries: int
    """Done so far, by this run."""
    per_second: float = 0.0
    total: int | None = None
    """All there is to do, where that is known."""
    fates: tuple[Fate, ...] = ()
    """Events of streams since the last time: deleted, made anew, entries lost."""
    lag: Lag | None = None
    """Of a streaming query: what it had still to read when its last batch was planned."""
    state: "QueryState | None" = None
    """Of a streaming query that groups or joins: what it keeps."""


@dataclass(frozen=True)
class QueryState:
    """What a streaming query keeps from batch to batch, all its operators together."""

    rows: int
    bytes: int
    late: int
    """Entries of the last batch that came behind the watermark, and were left out."""
    watermark: str | None

    def __str__(self) -> str:
        told = f"{self.rows:,} rows of state in {self.bytes / 1e6:,.1f} MB"
        told += "" if self.watermark is None else f", watermark {self.watermark}"
        return told + (f", {self.late:,} late" if self.late else "")


Watch = Callable[[Progress], None]


def ignore(_: Progress) -> None:
    """Watch nothing."""


@dataclass(frozen=True)
class Ran:
    """The result of a query."""

    entries: int
    """That were read."""
    batches: int
    rows: int = 0
    """That came out, where the query observes them as ROWS_OUT."""
    fates: tuple[Fate, ...] = ()


def run_query(
    writer: DataStreamWriter,
    *,
    continuous: bool,
    every: str | None,
    watch: Watch = ignore,
    after_batch: Callable[[], None] | None = None,
    of_streams: bool = True,
) -> Ran:
    """Run until everything that is there is done, or, `continuous`, until it is interrupted.

    `every` is the time between batches of a continuous query, as Spark writes it: "10 seconds". The sources of a query
    are streams, unless `of_streams` says otherwise.
    """
    trigger = {"processingTime": every or "0 seconds"} if continuous else {"availableNow": True}
    counter = _Counter(of_streams=of_streams)
    attempts, before = 1, 0
    while failed := _run_to_end(writer.trigger(**trigger).start(), counter, watch, after_batch):
        attempts, before = 1 if counter.batches > before else attempts + 1, counter.batches
        if attempts > _ATTEMPTS or not any(words in failed for words in _PASSING):
            raise PipelineError(sentence_of(failed))
    return Ran(counter.entries, counter.batches, counter.rows, tuple(counter.fates))


def _run_to_end(
    query: StreamingQuery, counter: "_Counter", watch: Watch, after_batch: Callable[[], None] | None
) -> str | None:
    """Watch a query until it ends; return what Spark says where it failed."""
    try:
        ended = False
        while not ended:
            # An error is taken from `exception` below: awaitTermination would raise it before the last count.
            ended = not query.isActive or _ends_within(query, _POLL_S)
            known = len(counter.fates)
            worked = counter.look(query)
            if worked or counter.fates[known:]:
                new = tuple(counter.fates[known:])
                watch(Progress(counter.entries, counter.per_second, None, new, counter.lag, counter.state))
                if worked and after_batch is not None:
                    after_batch()
    finally:
        query.stop()
    failed = query.exception()
    return None if failed is None else with_causes(failed)


def _ends_within(query: StreamingQuery, seconds: float) -> bool:
    try:
        return bool(query.awaitTermination(seconds))  # type: ignore[arg-type]  # (fractions are taken)
    except Exception:
        if query.exception() is None:
            raise
        return True


class _Counter:
    """Adds up the batches of a query; Spark keeps the reports of the last hundred."""

    def __init__(self, *, of_streams: bool) -> None:
        self.fates: list[Fate] = []
        self._of_streams = of_streams
        self.entries = 0
        self.batches = 0
        self.rows = 0
        self.per_second = 0.0
        self.lag: Lag | None = None
        self.state: QueryState | None = None
        self._seen = -1

    def look(self, query: StreamingQuery) -> bool:
        """Take the batches that are new; False where there are none."""
        new: list[Any] = [report for report in query.recentProgress if report["batchId"] > self._seen]
        worked = [report for report in new if report["numInputRows"]]
        for report in worked:
            self.entries += report["numInputRows"]
            self.batches += 1
            observed = report["observedMetrics"].get(ROWS_OUT)
            self.rows += 0 if observed is None else observed["rows"]
            self.per_second = report["processedRowsPerSecond"]
        for report in new if self._of_streams else ():
            for source in report["sources"]:
                self.fates += fates(source["startOffset"], source["endOffset"])
        if new:
            self._seen = new[-1]["batchId"]
            self.lag = lag_of(new[-1]) if self._of_streams else None
            self.state = _state_of(new[-1])
        return bool(worked)


def _state_of(report: Any) -> QueryState | None:
    operators = report["stateOperators"]
    if not operators:
        return None
    rows, size, late = (
        sum(each[name] for each in operators)
        for name in ("numRowsTotal", "memoryUsedBytes", "numRowsDroppedByWatermark")
    )
    watermark = (report["eventTime"] or {}).get("watermark")
    known = watermark is not None and not watermark.startswith("1970-")
    return QueryState(rows, size, late, watermark if known else None)
