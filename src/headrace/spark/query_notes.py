"""The notes that a query keeps beside each stream that it reads; `headrace console` shows them to people.

    headrace:{stream}:queries   hash   group ─► {"batches": 12, "rows": 4800, "batch_rows": 400, "at": Unix ms, …}

A query with the option `group` writes a note for a stream when it commits a batch that had entries of it, and when it
fails. It is ordinary data with the hash tag of the stream, on any server. It means nothing to the query: where a note
cannot be written, because the user may not or the server is away, the query goes on without notes.
"""

import json
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final

from headrace.core.stream_id import StreamID
from headrace.spark.errors import SparkSourceError
from headrace.spark.offsets import Mark, StreamKey
from headrace.spark.servers import Server

_MOST_FAILED: Final = 20  # streams of a query that fails which get a note
_MOST_TEXT: Final = 500


def queries_key(key: bytes) -> bytes:
    """Return the key of the notes beside a stream."""
    return b"headrace:{%s}:queries" % key


@dataclass
class _Note:
    """The facts about one stream of a query, since the query was started."""

    started: int
    batches: int = 0
    rows: int | None = 0  # None: the stream does not count what is added
    batch_rows: int | None = None
    at: int | None = None  # when the last batch was committed
    before: int | None = None  # and the one before
    error: str = ""
    error_at: int | None = None


class QueryNotes:
    """The notes of one query."""

    def __init__(self, group: bytes) -> None:
        self._group = group
        self._started = _now_ms()
        self._notes: dict[StreamKey, _Note] = {}
        self._marks: dict[StreamKey, tuple[StreamID, int | None]] = {}
        self._refused = False

    def begin(self, place: StreamKey, mark: Mark) -> None:
        """Note from where a stream is read."""
        self._marks.setdefault(place, (mark.id, mark.added))

    def committed(self, server: Server, place: StreamKey, mark: Mark) -> None:
        """Leave a note of a batch, unless it had nothing of this stream."""
        last, added = self._marks.get(place, (None, None))
        if last == mark.id:
            return
        note = self._notes.setdefault(place, _Note(self._started))
        rows = None if added is None or mark.added is None else max(mark.added - added, 0)
        note.rows = None if rows is None or note.rows is None else note.rows + rows
        note.batches, note.batch_rows = note.batches + 1, rows
        note.before, note.at = note.at, _now_ms()
        note.error, note.error_at = "", None
        self._marks[place] = (mark.id, mark.added)
        self._write(server, place, note)

    def failed(self, servers: dict[StreamKey, Server], error: Exception) -> None:
        """Leave a note of why the query ends."""
        text = f"{type(error).__name__}: {error}"[:_MOST_TEXT]
        for place, server in list(servers.items())[:_MOST_FAILED]:
            note = self._notes.setdefault(place, _Note(self._started))
            note.error, note.error_at = text, _now_ms()
            self._write(server, place, note)

    def _write(self, server: Server, place: StreamKey, note: _Note) -> None:
        if self._refused:
            return
        self._refused = True
        side = queries_key(place[1])
        with suppress(SparkSourceError):
            server.write("HSET", side, self._group, json.dumps(asdict(note)), key=side)
            self._refused = False


def _now_ms() -> int:
    return int(time.time() * 1000)
