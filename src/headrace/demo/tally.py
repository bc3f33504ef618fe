"""The end of the demo: everything is read back and counted, message by message."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from redis import Redis

from headrace.core.stream_id import StreamID
from headrace.demo.plan import PROCESSED, STREAM, Plan

_PAGE: Final = 5000
_SHARES: Final = (50, 95, 99)

Batch = tuple[str, float]
"""Up to which ID the archive reached with a batch, and when."""


@dataclass(frozen=True)
class Count:
    """How many messages came to one place, how many did not, how many more than once."""

    place: str
    messages: int
    lost: int
    twice: int


@dataclass(frozen=True)
class Tally:
    """What the demo found."""

    counts: list[Count]
    by_worker: dict[str, int]
    claimed: int
    """Messages that were processed by another worker than the one that had them first."""
    sent_again: int
    """Messages that a device sent a second time, because it had no answer when the server was killed."""
    recognised: int
    """Those of them that the server had already, and did not add again."""
    processed_within: dict[str, float]
    """Milliseconds from a device to the result of a worker, by percentile."""
    archived_within: dict[str, float]
    """The same, to the end of the batch that archived the message."""
    windows: list[dict[str, Any]]

    @property
    def right(self) -> bool:
        """Whether nothing is lost and nothing twice, anywhere."""
        return all(count.lost == 0 == count.twice for count in self.counts)

    def as_json(self) -> dict[str, Any]:
        """Return it for machines."""
        return {"right": self.right, **asdict(self)}


def count_everything(
    client: Redis, plan: Plan, told: dict[str, int], batches: list[Batch], read_back: dict[str, Any] | None
) -> Tally:
    """Read the streams, and compare them with what was sent and with what Spark read back.

    `told` is the devices' report: how many messages were acknowledged to them, how many they repeated.
    """
    sent = {(device, n) for device in range(1, plan.devices + 1) for n in range(plan.share_of(device))}
    found: Counter[tuple[int, int]] = Counter()
    sent_at: dict[str, int] = {}
    for id, fields in _entries(client, STREAM):
        found[int(fields["dev"]), int(fields["n"])] += 1
        sent_at[id] = int(fields["at"])
    counts = [Count("acknowledged to the devices", told["acknowledged"], len(sent) - told["acknowledged"], 0)]
    counts.append(Count("in the stream", found.total(), len(sent - found.keys()), found.total() - len(found)))

    results: Counter[str] = Counter()
    by_worker: Counter[str] = Counter()
    took: list[float] = []
    claimed = 0
    for _, fields in _entries(client, PROCESSED):
        results[fields["id"]] += 1
        by_worker[fields["worker"]] += 1
        took.append(int(fields["took"]) / 1000)
        claimed += int(fields["deliveries"]) > 1
    missed = len(sent_at.keys() - results.keys()) + len(sent) - len(found)
    counts.append(Count("processed by the group", results.total(), missed, results.total() - len(results)))

    windows: list[dict[str, Any]] = []
    if read_back is not None:
        rows, distinct, windows = read_back["rows"], read_back["distinct"], read_back["windows"]
        counts.append(Count("archived to Parquet", rows, len(sent) - distinct, rows - distinct))
        inside = sum(row["messages"] for row in windows)
        counts.append(
            Count("counted in windows", inside, max(0, len(sent) - inside), max(0, inside - len(sent))),
        )
    return Tally(
        counts,
        dict(sorted(by_worker.items())),
        claimed,
        told["repeated"],
        int(client.xinfo_stream(STREAM)["iids-duplicates"]),
        _percentiles(took),
        _percentiles(_archive_latencies(sent_at, batches)),
        windows,
    )


def _entries(client: Redis, key: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Walk a stream from its beginning."""
    start = "-"
    while True:
        page: Any = client.xrange(key, start, "+", count=_PAGE)
        if not page:
            return
        yield from page
        start = f"({page[-1][0]}"


def _archive_latencies(sent_at: dict[str, int], batches: list[Batch]) -> list[float]:
    """Return how long each message took until its batch was committed; messages and batches come in order."""
    latencies: list[float] = []
    left = iter(batches)
    batch = next(left, None)
    end = StreamID.parse(batch[0]) if batch else None
    for id, at in sent_at.items():
        while batch is not None and end is not None and StreamID.parse(id) > end:
            batch = next(left, None)
            end = StreamID.parse(batch[0]) if batch else None
        if batch is None:
            break
        latencies.append(batch[1] * 1000 - at / 1000)
    return latencies


def _percentiles(values: list[float]) -> dict[str, float]:
    """Return the percentiles of the values, and the greatest value."""
    if not values:
        return {}
    ordered = sorted(values)
    within = {f"{share} %": ordered[min(len(ordered) - 1, len(ordered) * share // 100)] for share in _SHARES}
    return {**within, "all": ordered[-1]}
