"""Moving the oldest entries of the largest streams to segments, when memory is short.

    look ──► memory passes its limit ──► copy nodes, 2 MB at a time ──► a thread writes a segment, and syncs it
               ▲                                                          │
               └──────────── nodes are freed ◄── put parts in the place of nodes that have not changed meanwhile

    maxmemory          what all of the process may take
    the goal           a sixteenth less: from there on nodes are moved, a sixteenth at a time, until that is reached
    an eighth more     clients that write, and loading, wait until memory is within maxmemory again: the disk is slower;
                       where nothing is left to move, writes are refused
    the cache          a sixteenth, for history that was read

Segments of which less than half is alive are copied to new ones in the same way, so that they can go.

Nothing of it is an effect, and a crash in between loses nothing: what was moved since the last base is in the
increments, too. While the disk refuses, memory stays as it is, and writes are refused above maxmemory.
"""

import asyncio
import heapq
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from time import monotonic
from typing import Any, Final, NamedTuple

from headrace.core.cold import ColdPart
from headrace.core.errors import ColdReadError
from headrace.core.offloading import PackedRun, hot_bytes, move_part, pack_run, parts_of, settle_run
from headrace.core.stream import Stream
from headrace.core.stream_id import StreamID
from headrace.engine.blocking.pausing import Purpose
from headrace.engine.engine import Engine
from headrace.engine.history import Beside
from headrace.engine.process import return_free_memory
from headrace.storage.beside import Ticking
from headrace.storage.log import Log
from headrace.storage.segments.compaction import LivePart, LiveStream, Moved, copy_live
from headrace.storage.segments.segment import Segment, SegmentRun
from headrace.storage.segments.segment_set import SegmentSet
from headrace.storage.segments.writing import RunToWrite

POLICY: Final = "offload"
RUN_BYTES: Final = 2 << 20

_LEAST_SEGMENT: Final = 1 << 20
_MOST_SEGMENT: Final = 64 << 20
_LEAST_CACHE: Final = 1 << 20
_KEYS_A_STEP: Final = 5_000
_CANDIDATES: Final = 256  # streams of which nodes are moved at once
_WORTH_MOVING: Final = 16 << 10  # bytes of a stream, below which its nodes stay
_RETRY_S: Final = 1.0  # after the disk has refused
_LOADING_WAIT_S: Final = 0.005  # from one look to the next, whether memory has room for more
_LONGEST_HOLD_MS: Final = 1000  # that writes are held back without another look
_COMPACTING_S: Final = 1.0  # from one look for mostly dead segments to the next
_RETRY_COMPACTING_S: Final = 60.0  # after the disk has refused
_RETURNING_S: Final = 1.0  # from one time that free memory is given back, because nothing else helps, to the next

Soon = Callable[[Callable[[], None]], object]
Owners = dict[int, tuple[Stream, ColdPart]]  # by the identity of a LivePart


class Move(NamedTuple):
    """Nodes that are being written."""

    stream: Stream
    database: int
    key: bytes
    packed: PackedRun


class Offloading:
    """See the module. The host says what memory is in use (`measure`), and lends a thread and turns of its loop."""

    def __init__(self, engine: Engine, segments: SegmentSet, log: Log) -> None:
        self.measure: Callable[[], int] = self.hot_total
        self.beside: Beside | None = None
        self.ticking: Ticking | None = None  # the steps that follow jobs in ticks, where the host has no loop
        self.soon: Soon | None = None
        self.is_full = False  # and nothing can be done about it
        self.moved_bytes = 0
        self.compacted_bytes = 0
        self.last_error = ""
        self._engine = engine
        self._config = engine.config
        self._segments = segments
        self._log = log
        self._steps: Iterator[None] | None = None  # of the work that goes on
        self._is_writing = False
        self._retry_at = 0.0
        self._all_moved = False
        self._compact_at = 0.0
        self._return_at = 0.0
        self._holds_writes = False
        for name in ("maxmemory", "maxmemory-policy"):
            self._config.watch(name, lambda _: self._size_cache())
        self._size_cache()

    @property
    def is_on(self) -> bool:
        """Whether nodes are moved where memory is short."""
        return bool(self._config["maxmemory"]) and bool(self._config["maxmemory-policy"] == POLICY)

    def _size_cache(self) -> None:
        self._segments.cache.limit = max(self._config["maxmemory"] // 16, _LEAST_CACHE)

    def hot_total(self) -> int:
        """Return how many bytes of nodes are in memory, of all streams."""
        values = (value for database in self._engine.databases for value in database.values.values())
        return sum(hot_bytes(value) for value in values if type(value) is Stream)

    def tick(self) -> None:
        """Move nodes if memory is short; the host calls it some ten times a second."""
        if self.ticking is not None:
            self.ticking.tick(wait=self.is_behind)
        self.is_full = self.is_on and self._look()

    def compact_due(self) -> None:
        """Copy what is alive of mostly dead segments; not before all is loaded, because until then all looks dead."""
        if not self._is_busy and monotonic() >= self._compact_at:
            self._compact_at = monotonic() + _COMPACTING_S
            if dead := self._segments.mostly_dead():
                self._begin(self._compact(dead))

    def close(self) -> None:
        """Wait for what is being written."""
        if self.ticking is not None:
            self.ticking.close()

    @property
    def is_behind(self) -> bool:
        """Whether so much is to be moved that writers should wait."""
        can_move = self._is_busy and not self._all_moved and not self.last_error
        return self.is_on and can_move and self.measure() > self._most

    async def catch_up(self) -> None:
        """Let the event loop turn until there is room for more; much is loaded between two ticks."""
        self.tick()
        while self.is_behind:
            await asyncio.sleep(_LOADING_WAIT_S)

    def _look(self) -> bool:
        used = self.measure()
        if used <= self._goal:
            self._all_moved = False
        elif not self._is_busy and monotonic() >= self._retry_at:
            self._begin(self._move())
        self._hold_or_release_writes(used)
        if self.last_error:
            return bool(used > self._config["maxmemory"])
        return self._all_moved and used > self._most

    @property
    def _goal(self) -> int:
        limit: int = self._config["maxmemory"]
        return limit - limit // 16

    @property
    def _most(self) -> int:
        """The memory that may be in use for a while: replies, and history that is read, come and go."""
        limit: int = self._config["maxmemory"]
        return limit + limit // 8

    def _hold_or_release_writes(self, used: int) -> None:
        """Let clients that write wait where they are faster than the disk; only a host with a loop can."""
        if self.soon is not None and self.is_behind:
            self._holds_writes = True
            until_ms = self._engine.clocks.steady_ms() + _LONGEST_HOLD_MS
            self._engine.pauses.begin(until_ms, writes_only=True, purpose=Purpose.MEMORY)
        elif self._holds_writes and (used <= self._config["maxmemory"] or not self._is_busy):
            self._holds_writes = False
            self._engine.pauses.end(Purpose.MEMORY)

    @property
    def _is_busy(self) -> bool:
        return self._steps is not None or self._is_writing

    def _begin(self, steps: Iterator[None]) -> None:
        self._steps = steps
        self._step()

    def _step(self) -> None:
        """Do one of the pieces into which the work is cut, and then the next: soon, or at once."""
        while self._steps is not None:
            steps = self._steps
            try:
                next(steps)
            except StopIteration:
                if self._steps is steps:
                    self._steps = None
                return
            if self.soon is not None:
                self.soon(self._step)
                return

    def _move(self) -> Iterator[None]:
        """Move so many bytes that a stream which grows slowly leaves few large segments, not many small ones."""
        wanted = min(max(self._config["maxmemory"] // 16, _LEAST_SEGMENT), _MOST_SEGMENT)
        moves: list[Move] = []
        candidates: list[tuple[int, int, bytes, Stream]] = []
        yield from self._find_largest(candidates)
        for _, database, key, stream in candidates:
            behind: StreamID | None = None
            while wanted > 0 and (packed := pack_run(stream, min(RUN_BYTES, wanted), behind)) is not None:
                moves.append(Move(stream, database, key, packed))
                wanted -= len(packed.data)
                behind = packed.last
                yield
        if moves:
            self._all_moved = False
            self._run_beside(lambda: self._write(moves), lambda written: self._settle(moves, written))
        elif monotonic() >= self._return_at:
            self._run_beside(return_free_memory, lambda _: self._admit_that_all_is_moved())

    def _admit_that_all_is_moved(self) -> Iterator[None]:
        """Say this only after memory that large replies left free was given back: it counts as in use until then."""
        self._return_at = monotonic() + _RETURNING_S
        self._all_moved = self.measure() > self._goal
        yield

    def _run_beside(self, job: Callable[[], Any], follow: Callable[[Any], Iterator[None]]) -> None:
        """Do a job in a thread, where there is one, and then what follows it, step by step."""

        def begin_following(result: Any) -> None:
            self._is_writing = False
            self._begin(follow(result))

        self._is_writing = True
        if self.beside is None:
            begin_following(job())
        else:
            self.beside(job, begin_following)

    def _find_largest(self, found: list[tuple[int, int, bytes, Stream]]) -> Iterator[None]:
        """Find the streams with most to move, the largest first."""
        sizes: list[tuple[int, int, bytes]] = []
        for database in self._engine.databases:
            for count, key in enumerate(list(database.values)):
                value = database.values.get(key)
                if type(value) is Stream and (size := hot_bytes(value)) >= _WORTH_MOVING:
                    sizes.append((size, database.number, key))
                if count % _KEYS_A_STEP == _KEYS_A_STEP - 1:
                    sizes = heapq.nlargest(_CANDIDATES, sizes)
                    yield
        for size, number, key in heapq.nlargest(_CANDIDATES, sizes):
            value = self._engine.databases[number].values.get(key)
            if type(value) is Stream:
                found.append((size, number, key, value))

    def _write(self, moves: list[Move]) -> list[SegmentRun] | OSError:
        """Write a segment; in any thread."""
        runs = [RunToWrite(move.database, move.key, move.packed.records, move.packed.data) for move in moves]
        try:
            return self._segments.write(runs)
        except OSError as error:
            return error

    def _settle(self, moves: list[Move], written: list[SegmentRun] | OSError) -> Iterator[None]:
        if isinstance(written, OSError):
            self._note_error(written.strerror or str(written))
            return
        try:
            for move, run in zip(moves, written, strict=True):
                settle_run(move.stream, run, move.packed.data)
                self.moved_bytes += len(move.packed.data)
                yield
        except ColdReadError as error:  # the rest stays in memory
            self._note_error(str(error))
        else:
            self._note_success()
        self._segments.settle(written)
        if self.beside is None:
            self._engine.freeing.return_pages()
        else:
            self._run_beside(return_free_memory, lambda _: self._move_more())

    def _move_more(self) -> Iterator[None]:
        """Continue at once where that was not enough: the memory is free now, and can be measured."""
        used = self.measure()
        if self.is_on and used > self._goal and not self.last_error:
            yield from self._move()
        self._hold_or_release_writes(used)

    def _note_error(self, reason: str) -> None:
        if not self.last_error:
            self._log.warning(
                f"Cannot move entries to {self._segments.directory}: {reason}. Writes are refused while memory is "
                "above maxmemory; it is tried again each second."
            )
        self.last_error = reason
        self._retry_at = monotonic() + _RETRY_S

    def _note_success(self) -> None:
        if self.last_error:
            self._log.notice(f"Entries are moved to {self._segments.directory} again.")
            self.last_error = ""

    # --- mostly dead segments ------------------------------------------------------------------------------------

    def _compact(self, dead: list[Segment]) -> Iterator[None]:
        """Copy what is alive of segments, of so many that a new one is full."""
        size = 0
        numbers: set[int] = set()
        for segment in dead:
            if not numbers or size + segment.kept_bytes <= _MOST_SEGMENT:
                numbers.add(segment.number)
                size += segment.kept_bytes
        streams: list[LiveStream] = []
        owners: Owners = {}
        for database in self._engine.databases:
            for count, key in enumerate(list(database.values)):
                value = database.values.get(key)
                if type(value) is Stream and (parts := _parts_in(value, numbers, owners)):
                    streams.append(LiveStream(database.number, key, parts))
                if count % _KEYS_A_STEP == _KEYS_A_STEP - 1:
                    yield
        if streams:
            self._run_beside(lambda: self._copy(streams), lambda moved: self._settle_copies(owners, moved))

    def _copy(self, streams: list[LiveStream]) -> list[Moved] | OSError:
        """Write a new segment; in any thread."""
        try:
            return copy_live(self._segments, streams)
        except OSError as error:
            return error

    def _settle_copies(self, owners: Owners, moved: list[Moved] | OSError) -> Iterator[None]:
        if isinstance(moved, OSError):
            self._compact_at = monotonic() + _RETRY_COMPACTING_S  # the old ones are as good
            return
        for each in moved:
            stream, part = owners[id(each.part)]
            with suppress(ColdReadError):  # the part stays where it is
                if move_part(stream, part, each.run, each.begin):
                    self.compacted_bytes += part.size
            yield
        self._segments.settle([each.run for each in moved])


def _parts_in(stream: Stream, numbers: Container[int], owners: Owners) -> list[LivePart]:
    """List the parts that a stream has in some segments, and note whose they are."""
    found: list[LivePart] = []
    for part in parts_of(stream):
        if isinstance(part.run, SegmentRun) and part.run.segment.number in numbers:
            live = LivePart(part.run, part.begin, part.end)
            owners[id(live)] = (stream, part)
            found.append(live)
    return found
