"""One reading of a server: its streams, their groups and consumers, and what happened since the reading before.

It uses XINFO and XPENDING, so that any Redis from 5.0 on can answer; what an older one does not know is None. A stream
that is deleted meanwhile is left out.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import redis

from headrace.cli.connecting import memory_figures, place_of, stream_keys
from headrace.cli.showing import lossless, raw

MOST_STREAMS: Final = 1000  # that are looked at; a server with more is best asked with a pattern
_AT_ONCE: Final = 200  # questions in one pipeline


@dataclass
class ConsumerReading:
    """A consumer of a group."""

    name: str
    pending: int
    idle_ms: int


@dataclass
class GroupReading:
    """A group of a stream."""

    name: str
    pending: int
    lag: int | None
    entries_read: int | None
    last_delivered_id: str
    oldest_pending: dict[str, Any] | None = None  # id, consumer, idle_ms, deliveries
    out_per_s: float | None = None
    consumers: list[ConsumerReading] = field(default_factory=list)


@dataclass
class StreamReading:
    """A stream."""

    name: str
    length: int
    entries_added: int | None
    last_id: str
    in_per_s: float | None = None
    dead: int = 0  # letters in the stream `<name>:dead`
    scheduled: int = 0
    next_due_ms: int | None = None  # Unix time of the first that is scheduled
    disk_entries: int = 0  # that are in segments, and not in memory
    disk_bytes: int = 0
    groups: list[GroupReading] = field(default_factory=list)

    @property
    def out_per_s(self) -> float | None:
        """How much its groups read, all together."""
        known = [group.out_per_s for group in self.groups if group.out_per_s is not None]
        return sum(known) if known else None

    @property
    def lag(self) -> int | None:
        """The lag of the group that is farthest behind."""
        return max((group.lag for group in self.groups if group.lag is not None), default=None)

    @property
    def pending(self) -> int:
        """The pending entries of all groups."""
        return sum(group.pending for group in self.groups)

    @property
    def oldest_ms(self) -> int | None:
        """How long the pending entry that waits longest has been waiting."""
        waiting = [group.oldest_pending["idle_ms"] for group in self.groups if group.oldest_pending]
        return max(waiting, default=None)


@dataclass
class ServerReading:
    """A server and its streams."""

    server: str
    version: str
    uptime_s: int
    clients: int
    memory_bytes: int
    commands_per_s: int
    segments: int  # files with entries that are not in memory
    disk_bytes: int  # of such entries
    taken: float  # Unix seconds
    taken_at: float  # seconds of a clock that nobody sets
    streams: list[StreamReading] = field(default_factory=list)
    more_streams: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the reading for JSON."""
        told = asdict(self)
        told["time"] = round(told.pop("taken"), 3)
        del told["taken_at"]
        for stream, written in zip(self.streams, told["streams"], strict=True):
            written.update(out_per_s=stream.out_per_s, lag=stream.lag, pending=stream.pending)
        return told


def take_reading(client: redis.Redis, pattern: str, before: ServerReading | None) -> ServerReading:
    """Ask a server for everything; rates are since the reading before."""
    info = client.info()
    keys = stream_keys(client, pattern, MOST_STREAMS + 1)
    reading = ServerReading(
        server=place_of(client),
        version=_product(info),
        uptime_s=int(info.get("uptime_in_seconds", 0)),
        clients=int(info.get("connected_clients", 0)),
        memory_bytes=int(info.get("used_memory", 0)),
        commands_per_s=int(info.get("instantaneous_ops_per_sec", 0)),
        segments=int(info.get("headrace_segments", 0)),
        disk_bytes=int(info.get("headrace_cold_bytes", 0)),
        taken=time.time(),
        taken_at=time.monotonic(),
        more_streams=len(keys) > MOST_STREAMS,
    )
    reading.streams = _read_streams(client, sorted(keys)[:MOST_STREAMS])
    if reading.segments:
        _read_disk(client, reading.streams)
    if before is not None:
        _compare(reading, before)
    return reading


def _product(info: dict[str, Any]) -> str:
    if "headrace_version" in info:
        return f"headrace {info['headrace_version']}"
    if info.get("server_name") == "valkey":
        return f"valkey {info.get('valkey_version', '')}"
    return f"redis {info.get('redis_version', '')}"


def _ask(client: redis.Redis, questions: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Send many questions at once; an answer may be an error."""
    answers: list[Any] = []
    for start in range(0, len(questions), _AT_ONCE):
        pipeline = client.pipeline(transaction=False)
        for name, *arguments in questions[start : start + _AT_ONCE]:
            getattr(pipeline, name)(*arguments)
        answers += pipeline.execute(raise_on_error=False)
    return answers


def _read_streams(client: redis.Redis, keys: Sequence[bytes]) -> list[StreamReading]:
    answers = _ask(client, [question for key in keys for question in (("xinfo_stream", key), ("xinfo_groups", key))])
    streams: list[StreamReading] = []
    found: list[tuple[bytes, bytes, GroupReading]] = []
    for key, facts, groups in zip(keys, answers[::2], answers[1::2], strict=True):
        if isinstance(facts, redis.ResponseError) or isinstance(groups, redis.ResponseError):
            _refuse_unless_gone(facts if isinstance(facts, redis.ResponseError) else groups)
            continue
        stream = StreamReading(
            name=lossless(key),
            length=facts["length"],
            entries_added=facts.get("entries-added"),
            last_id=facts["last-generated-id"].decode(),
        )
        for told in groups:
            group = GroupReading(
                name=lossless(told["name"]),
                pending=told["pending"],
                lag=told.get("lag"),
                entries_read=told.get("entries-read"),
                last_delivered_id=told["last-delivered-id"].decode(),
            )
            stream.groups.append(group)
            found.append((key, told["name"], group))
        streams.append(stream)
    _read_groups(client, found)
    _read_beside(client, streams)
    return streams


def _read_beside(client: redis.Redis, streams: Sequence[StreamReading]) -> None:
    """Read what lies beside the streams: dead letters, and what is scheduled; other servers have no such keys."""
    questions = []
    for stream in streams:
        times = b"headrace:{%s}:scheduled" % raw(stream.name)
        questions += [("xlen", raw(stream.name) + b":dead"), ("zcard", times), ("zrange", times, 0, 0, False, True)]
    answers = [None if isinstance(answer, redis.ResponseError) else answer for answer in _ask(client, questions)]
    for stream, dead, scheduled, first in zip(streams, answers[::3], answers[1::3], answers[2::3], strict=True):
        stream.dead, stream.scheduled = dead or 0, scheduled or 0
        if first and math.isfinite(first[0][1]):
            stream.next_due_ms = math.ceil(first[0][1])


def _read_disk(client: redis.Redis, streams: Sequence[StreamReading]) -> None:
    """Read what of the streams is on disk."""
    answers = _ask(client, [("execute_command", "HEADRACE", "MEMORY", raw(stream.name)) for stream in streams])
    for stream, answer in zip(streams, answers, strict=True):
        if isinstance(answer, (list, dict)):
            figures = memory_figures(answer)
            stream.disk_entries, stream.disk_bytes = figures["disk-entries"], figures["disk-bytes"]


def _read_groups(client: redis.Redis, found: Sequence[tuple[bytes, bytes, GroupReading]]) -> None:
    questions = [
        question
        for key, name, _ in found
        for question in (("xinfo_consumers", key, name), ("xpending_range", key, name, "-", "+", 1))
    ]
    answers = _ask(client, questions)
    for (_, _, group), consumers, pending in zip(found, answers[::2], answers[1::2], strict=True):
        if not isinstance(consumers, redis.ResponseError):
            group.consumers = [
                ConsumerReading(lossless(told["name"]), told["pending"], told["idle"]) for told in consumers
            ]
        if pending and not isinstance(pending, redis.ResponseError):
            first = pending[0]
            group.oldest_pending = {
                "id": first["message_id"].decode(),
                "consumer": lossless(first["consumer"]),
                "idle_ms": first["time_since_delivered"],
                "deliveries": first["times_delivered"],
            }


def _refuse_unless_gone(error: redis.ResponseError) -> None:
    if not str(error).startswith(("no such key", "WRONGTYPE")):
        raise error


def _compare(reading: ServerReading, before: ServerReading) -> None:
    seconds = reading.taken_at - before.taken_at
    earlier = {stream.name: stream for stream in before.streams}
    for stream in reading.streams:
        old = earlier.get(stream.name)
        if old is None or seconds <= 0:
            continue
        stream.in_per_s = _rate(stream.entries_added, old.entries_added, seconds)
        groups = {group.name: group for group in old.groups}
        for group in stream.groups:
            if group.name in groups:
                group.out_per_s = _rate(group.entries_read, groups[group.name].entries_read, seconds)


def _rate(now: int | None, before: int | None, seconds: float) -> float | None:
    if now is None or before is None or now < before:
        return None
    return round((now - before) / seconds, 1)
