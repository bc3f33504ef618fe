"""The metrics of streams, their groups and consumers: one stream at a time, each in less than a turn.

Groups and consumers are bounded, too: ten of each for every stream that `metrics-max-streams` allows, whichever streams
have them. Those beyond are in the sums of their stream and group (`redis_stream_groups`, `…_consumers`, `…_pending`).
"""

from collections.abc import Iterator
from typing import Final

from headrace.core.cold import ColdMiss
from headrace.core.errors import ColdReadError
from headrace.core.group import Group
from headrace.core.stream import Stream
from headrace.engine.engine import Engine
from headrace.engine.rules.dead_letters import default_stream
from headrace.engine.side_keys import side_key
from headrace.server.metrics.census import Census
from headrace.server.metrics.families import Families, label_of, labels

_FOR_EACH_STREAM: Final = 10


def add_streams(families: Families, engine: Engine, census: Census) -> Iterator[None]:
    """Add the chosen streams, one after the other, and then the sums of all others."""
    figures = _StreamFigures(families, engine)
    for number, key, label in census.chosen():
        stream = census.stream(number, key)
        if stream is not None:
            yield from figures.add(number, key, label, stream)
            yield
    rest = census.rest
    families.gauge("headrace_streams", "Streams that have samples of their own", len(census.chosen()))
    families.gauge("headrace_other_streams", "Streams beyond metrics-max-streams", rest.streams)
    families.gauge("headrace_other_streams_length", "Entries of those", rest.entries)
    families.gauge("headrace_other_streams_groups", "Groups of those", rest.groups)
    families.gauge("headrace_other_streams_messages_pending", "Entries pending in those", rest.pending)


class _StreamFigures:
    def __init__(self, families: Families, engine: Engine) -> None:
        self._families = families
        self._engine = engine
        self._now_ms = engine.clocks.unix_ms()
        most = _FOR_EACH_STREAM * engine.config["metrics-max-streams"]
        self._groups_left = most
        self._consumers_left = most

    def add(self, number: int, key: bytes, label: str, stream: Stream) -> Iterator[None]:
        """Add a stream and its groups."""
        where = labels(db=f"db{number}", stream=label)
        gauge = self._families.gauge
        groups = stream.group_list()
        gauge("redis_stream_length", "Entries of a stream", len(stream), where)
        gauge("redis_stream_radix_tree_keys", "Nodes of entries", stream.node_count, where)
        gauge("redis_stream_radix_tree_nodes", "Nodes of the rax", stream.rax_node_count, where)
        gauge("redis_stream_last_generated_id", "Milliseconds of the last ID", stream.last_id.ms, where)
        gauge("redis_stream_max_deleted_entry_id", "The same of the last deleted", stream.max_deleted_id.ms, where)
        gauge("redis_stream_first_entry_id", "The same of the first entry", stream.first_id.ms, where)
        gauge("redis_stream_groups", "Groups of a stream", len(groups), where)
        gauge("headrace_stream_memory_bytes", "Memory of a stream, without what is on disk", stream.memory_usage, where)
        added = self._families.family(
            "headrace_stream_entries_added_total", "counter", "Entries ever added to a stream"
        )
        added.add(stream.entries_added, where)
        self._add_beside(number, key, where)
        shown: set[str] = set()
        for group in groups:
            name = label_of(group.name)
            if self._groups_left and name not in shown:
                shown.add(name)
                self._groups_left -= 1
                self._add_group(group, stream, f"{where},{labels(group=name)}")
                yield

    def _add_beside(self, number: int, key: bytes, where: str) -> None:
        """Add what lies beside a stream: dead letters, and messages that are scheduled."""
        db = self._engine.databases[number]
        in_force = self._engine.rules.in_force(db, key) if self._engine.rules.kept else None
        named = {group.rule.dead_letter for group in in_force.groups.values()} if in_force is not None else set()
        streams = [db.values.get(name) for name in {default_stream(key), *named} if name is not None]
        dead = sum(len(stream) for stream in streams if isinstance(stream, Stream))
        self._families.gauge("headrace_stream_dead_letters", "Dead letters of a stream", dead, where)
        scheduled = db.values.get(side_key(key, b"scheduled"))
        count = len(scheduled) if scheduled is not None else 0
        self._families.gauge("headrace_stream_scheduled", "Messages that are added later", count, where)

    def _add_group(self, group: Group, stream: Stream, where: str) -> None:
        gauge, counter = self._families.gauge, self._families.counter
        consumers = group.consumer_list()
        gauge("redis_stream_group_consumers", "Consumers of a group", len(consumers), where)
        gauge("redis_stream_group_messages_pending", "Entries not acknowledged", group.pending_count, where)
        gauge("redis_stream_group_last_delivered_id", "Milliseconds of its position", group.last_delivered_id.ms, where)
        if group.position is not None:
            gauge("redis_stream_group_entries_read", "Entries that a group was given", group.position, where)
        if group.lag is not None:
            gauge("redis_stream_group_lag", "Entries that a group was not given yet", group.lag, where)
        gauge("headrace_stream_group_released", "Pending entries that no consumer holds", group.released_count, where)
        gauge(
            "headrace_stream_group_lag_seconds",
            "The age of the first entry that a group was not given yet",
            self._lag_seconds(group, stream),
            where,
        )
        oldest_ms = group.oldest_delivery_ms
        gauge(
            "headrace_stream_group_oldest_pending_seconds",
            "Since when a consumer has had the entry that it was given longest ago",
            0 if oldest_ms is None else max(self._now_ms - oldest_ms, 0) / 1000,
            where,
        )
        shown: set[str] = set()
        for consumer in consumers:
            if not self._consumers_left:
                break
            name = label_of(consumer.name)
            if name not in shown:
                shown.add(name)
                self._consumers_left -= 1
                who = f"{where},{labels(consumer=name)}"
                idle_ms = max(self._now_ms - consumer.seen_time, 0)
                gauge("redis_stream_group_consumer_messages_pending", "Entries of a consumer", len(consumer), who)
                gauge("redis_stream_group_consumer_idle_seconds", "Since when it was not seen", idle_ms / 1000, who)
                delivered = "Entries that it was given, or took over, since the server started"
                counter("headrace_stream_group_consumer_delivered_total", delivered, consumer.delivered, who)
                acknowledged = "Entries that it acknowledged since the server started"
                counter("headrace_stream_group_consumer_acknowledged_total", acknowledged, consumer.acknowledged, who)

    def _lag_seconds(self, group: Group, stream: Stream) -> float:
        """Return the age of the first entry that a group was not given; where that is on disk, of its position."""
        position = group.last_delivered_id
        if not len(stream) or position >= stream.last_id:
            return 0
        first_ms = max(position, stream.first_id).ms
        cache = self._engine.history.cache
        cache.may_wait = True  # the disk is not waited for
        try:
            for id, _ in stream.range(position.successor(), None, 1):
                first_ms = id.ms
                break
            else:
                return 0
        except (ColdMiss, ColdReadError):
            pass
        finally:
            cache.may_wait = False
        return max(self._now_ms - first_ms, 0) / 1000
