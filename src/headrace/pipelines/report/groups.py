"""Facts about the groups that read streams, from the server.

    XINFO GROUPS       lag: entries that were never delivered; how far behind in time
    XINFO CONSUMERS    which consumers there are, and since when each is idle
    XPENDING           for entries that are not acknowledged: when last delivered, and how often

                 append ──── latency ────► last delivery ──── waiting ────► now
                 (the ID)                  (now − idle)

Groups of the same name on several streams count as one. For a long pending list, only the oldest entries are read.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from headrace.core.stream_id import StreamID
from headrace.pipelines.layout import shown_key
from headrace.spark.connecting import Connections
from headrace.spark.servers import Server
from headrace.spark.streams import StreamState

_LOOKED_AT: Final = 10_000  # pending entries of one stream


@dataclass
class ConsumerMeasure:
    """One consumer of a group, over all streams."""

    name: str
    pending: int = 0
    idle_ms: int | None = None
    """Since it last asked; the least over the streams."""


@dataclass
class GroupMeasure:
    """One group, over all streams that have it."""

    name: str
    streams: int = 0
    lag: int = 0
    lag_known: bool = True
    behind_ms: int = 0
    """How much older the last delivered entry is than the last one, at most."""
    pending: int = 0
    worst: list[tuple[str, int]] = field(default_factory=list)
    """Streams with their lag and pending entries together."""
    consumers: dict[str, ConsumerMeasure] = field(default_factory=dict)
    latencies_ms: list[int] = field(default_factory=list)
    waiting_ms: list[int] = field(default_factory=list)
    deliveries: list[int] = field(default_factory=list)

    @property
    def redelivered(self) -> int:
        """Pending entries that were delivered more than once."""
        return sum(count > 1 for count in self.deliveries)


def measure_groups(connections: Connections, states: dict[tuple[int, bytes], StreamState]) -> list[GroupMeasure]:
    """Ask for all groups of streams."""
    groups: dict[bytes, GroupMeasure] = {}
    for (place, key), state in states.items():
        server = connections.server(place)
        seconds, micros = server.ask("TIME")
        now_ms = int(seconds) * 1000 + int(micros) // 1000
        for info in server.groups(key):
            name = info[b"name"]
            group = groups.setdefault(name, GroupMeasure(shown_key(name)))
            _add(group, info, key, state)
            _add_consumers(group, server.ask("XINFO", "CONSUMERS", key, name, key=key))
            if info[b"pending"]:
                _add_pending(group, server, key, name, now_ms)
    return sorted(groups.values(), key=lambda group: (-group.lag - group.pending, group.name))


def _add(group: GroupMeasure, info: dict[bytes, Any], key: bytes, state: StreamState) -> None:
    delivered = StreamID.parse(info[b"last-delivered-id"])
    lag = info.get(b"lag")
    group.streams += 1
    group.lag += lag or 0
    group.lag_known = group.lag_known and lag is not None
    group.pending += info[b"pending"]
    if state.first_id is not None and delivered < state.last_id:
        group.behind_ms = max(group.behind_ms, state.last_id.ms - max(delivered.ms, state.first_id.ms))
    group.worst.append((shown_key(key), (lag or 0) + info[b"pending"]))


def _add_consumers(group: GroupMeasure, replies: list[list[Any]]) -> None:
    for reply in replies:
        info = dict(zip(reply[::2], reply[1::2], strict=True))
        name = shown_key(info[b"name"])
        consumer = group.consumers.setdefault(name, ConsumerMeasure(name))
        consumer.pending += info[b"pending"]
        consumer.idle_ms = info[b"idle"] if consumer.idle_ms is None else min(consumer.idle_ms, info[b"idle"])


def _add_pending(group: GroupMeasure, server: Server, key: bytes, name: bytes, now_ms: int) -> None:
    for id, _, idle, count in server.ask("XPENDING", key, name, "-", "+", _LOOKED_AT, key=key):
        group.latencies_ms.append(max(0, now_ms - idle - StreamID.parse(id).ms))
        group.waiting_ms.append(idle)
        group.deliveries.append(count)
