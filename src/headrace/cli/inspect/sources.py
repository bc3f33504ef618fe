"""Where the stream to inspect comes from: a server, a DUMP payload, an RDB file, a segment, a data directory.

From each source comes a stream that was checked to the last byte, with the payload that holds it: the server's own,
the file's own, or the one that DUMP would give.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.cli.address import ServerAddress
from headrace.cli.errors import CommandFailed
from headrace.cli.showing import plural, shown
from headrace.core.offloading import cold_figures
from headrace.core.stream import Stream
from headrace.core.stream_id import MIN_ID
from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_file import MAGIC
from headrace.formats.rdb_file_reader import LoadedKey, RdbFileReader
from headrace.formats.stream_value import dump_stream, restore_stream
from headrace.storage.segments.names import segment_number

if TYPE_CHECKING:
    import redis

_CACHE: Final = 16 << 20  # bytes of a segment that were read
_NAMED: Final = 8  # streams in a sentence


@dataclass(frozen=True)
class OnDisk:
    """The part of a stream that is in segments, and not in memory."""

    entries: int
    nodes: int
    bytes: int
    parts: int


NOTHING: Final = OnDisk(0, 0, 0, 0)


@dataclass(frozen=True)
class FoundStream:
    """A stream to look at; `payload` is None until somebody wants the one it would have."""

    name: bytes
    place: str
    stream: Stream
    stored: bytes | None
    on_disk: OnDisk

    @property
    def payload(self) -> bytes:
        """The DUMP payload of the stream."""
        return dump_stream(self.stream) if self.stored is None else self.stored


def from_server(key: bytes, address: ServerAddress) -> FoundStream:
    """Take a stream of a live server with DUMP."""
    from headrace.cli.connecting import connected, place_of, require_stream  # noqa: PLC0415 — files need no redis-py

    with connected(address) as client:
        require_stream(client, key)
        payload = client.dump(key)
        if payload is None:
            raise CommandFailed(f"The stream {shown(key)} was deleted a moment ago.")
        on_disk = _on_disk_of_server(client, key)
        return _of_payload(key, f"on the server at {place_of(client)}", payload, on_disk)


def _on_disk_of_server(client: "redis.Redis", key: bytes) -> OnDisk:
    import redis  # noqa: PLC0415 — files need no redis-py

    from headrace.cli.connecting import memory_figures  # noqa: PLC0415

    try:
        answer = client.execute_command("HEADRACE", "MEMORY", key)  # type: ignore[no-untyped-call]
    except redis.ResponseError:  # by a Redis
        return NOTHING
    if answer is None:
        return NOTHING
    figures = memory_figures(answer)
    return OnDisk(*(figures[f"disk-{name}"] for name in ("entries", "nodes", "bytes", "parts")))


def from_path(path: Path, key: bytes | None, db: int) -> FoundStream:
    """Take a stream of a file or a directory; the only one it has, where none is named."""
    if not path.exists():
        raise CommandFailed(f"There is no file or directory {path}.")
    if path.is_dir() or path.suffix == ".aof":
        from headrace.cli.files import read_engine  # noqa: PLC0415 — needs the whole engine

        engine, _ = read_engine(path)
        values = engine.databases[db].values if db < len(engine.databases) else {}
        return _chosen({name: value for name, value in values.items() if isinstance(value, Stream)}, key, path)
    number = segment_number(path.name)
    if number is not None:
        return _chosen(_streams_of_segment(path, number, db), key, path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}.") from None
    if content.startswith(MAGIC):
        return _chosen(_streams_of_rdb(content, path, db), key, path)
    return _of_payload(path.stem.encode() if key is None else key, f"of the payload in {path}", content, NOTHING)


def _streams_of_segment(path: Path, number: int, db: int) -> dict[bytes, Stream]:
    """Make streams of what a segment has of them, whether or not anything refers to it."""
    from headrace.core.cold import ColdCache  # noqa: PLC0415 — other files have none of it
    from headrace.core.offloading import adopt_run  # noqa: PLC0415
    from headrace.storage.disk import Disk  # noqa: PLC0415
    from headrace.storage.segments.segment_set import SegmentSet  # noqa: PLC0415

    streams: dict[bytes, Stream] = {}
    runs = SegmentSet(Disk(), path.parent, ColdCache(_CACHE)).runs_of(number)
    for run in sorted(runs, key=lambda run: run.record.first):
        stream = streams.setdefault(run.record.key, Stream()) if run.record.database == db else None
        if stream is not None and (not len(stream) or stream.last_id < run.record.first):
            adopt_run(stream, run, 0, run.nodes)
    for stream in streams.values():
        stream.load_state(len(stream), stream.last_id, MIN_ID, len(stream))
    return streams


def _streams_of_rdb(content: bytes, path: Path, db: int) -> dict[bytes, Stream]:
    from headrace.storage.disk import Disk  # noqa: PLC0415 — a payload needs none of it
    from headrace.storage.segments.segment_set import segments_beside  # noqa: PLC0415

    try:
        find_runs = segments_beside(Disk(), path).find_runs
        records = list(RdbFileReader(content, now_ms=int(time.time() * 1000), preamble=True, find_runs=find_runs))
    except CorruptPayload as error:
        raise CommandFailed(
            f"{path} cannot be read: {error}; `headrace check {path}` says what is left of it."
        ) from None
    return {
        record.key: record.value
        for record in records
        if isinstance(record, LoadedKey) and record.db == db and isinstance(record.value, Stream)
    }


def _chosen(streams: dict[bytes, Stream], key: bytes | None, path: Path) -> FoundStream:
    named = ", ".join(shown(name) for name in sorted(streams)[:_NAMED]) + (", …" if len(streams) > _NAMED else "")
    if not streams:
        raise CommandFailed(f"There is no stream in {path}; another database may have some: --db.")
    if key is None:
        if len(streams) > 1:
            raise CommandFailed(f"There are {plural(len(streams), 'stream')} in {path}: name one of {named}.")
        key = next(iter(streams))
    if key not in streams:
        raise CommandFailed(f"There is no stream {shown(key)} in {path}; it has {named}.")
    parts, nodes, entries, size = cold_figures(streams[key])
    return FoundStream(key, f"in {path}", streams[key], None, OnDisk(entries, nodes, size, parts))


def _of_payload(key: bytes, place: str, payload: bytes, on_disk: OnDisk) -> FoundStream:
    try:
        return FoundStream(key, place, restore_stream(payload), payload, on_disk)
    except CorruptPayload as error:
        raise CommandFailed(f"{shown(key)}, {place}, is no stream that can be read: {error}.") from None
