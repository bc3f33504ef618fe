"""Effects that followers missed, from the increments on disk: those that make the data, and older ones kept for them.

    history, kept up to repl-backlog-size  │  increments of the manifest  │  in memory (see backlog)
    appendonly.aof.3.incr.aof                 .4.incr.aof  .5.incr.aof
    └ each says at which offset it begins

A reader belongs to one follower and remembers where it was. Lines of a file that are not part of the history, such as
seals and annotations, are left out.
"""

from pathlib import Path
from typing import Final

from headrace.formats.aof import AofReader
from headrace.replication.master_stream import BadStream, MasterStream
from headrace.storage.append_files import AppendFiles

_COUNTED_AT_ONCE: Final = 1 << 20  # bytes
_BEGINNING: Final = 1 << 12  # bytes: a command of an increment that begins behind these comes too late to say where


class NotKept(Exception):
    """The bytes that were asked for are not on disk any more."""


class FileBacklog:
    """Where in the files an offset is."""

    def __init__(self, files: AppendFiles) -> None:
        self.floor = 0  # an offset before which something was found missing
        self._files = files
        self.disk = files.directory.disk
        self._begins: dict[Path, int | None] = {}  # offsets; None: the file does not say

    @property
    def start(self) -> int | None:
        """The oldest offset that can be read without a gap; None: there is none."""
        start = None
        for path in reversed(self.paths()):
            begin = self.begin_of(path)
            if begin is not None and begin >= self.floor:
                start = begin
            elif begin is not None or self.has_effects(path):
                break
        return start

    def paths(self) -> list[Path]:
        """List the increments that are on disk, the oldest first."""
        directory = self._files.directory
        paths = [directory.located(file) for file in self._files.increments]
        self._begins = {path: begin for path, begin in self._begins.items() if path in paths}
        return paths

    def begin_of(self, path: Path) -> int | None:
        """At which offset a file begins; None where it does not say: nothing was written to it yet, or by a Redis."""
        if self._begins.get(path) is None:
            self._begins[path] = self._read_begin(path)
        return self._begins[path]

    def has_effects(self, path: Path) -> bool:
        """Whether a file has a command; a group that is just being written counts when all of it is there."""
        return AofReader(self.disk.read(path)).next() is not None

    def _read_begin(self, path: Path) -> int | None:
        """Read what a file begins with; its first group may be much larger, and is looked at only as a whole."""
        reader = AofReader(self.disk.read(path))
        while not reader.places and reader.position < _BEGINNING and reader.next() is not None:
            pass
        return reader.places[0][1] if reader.places else None


class FileBacklogReader:
    """Reads on from an offset, over the ends of files."""

    def __init__(self, backlog: FileBacklog, offset: int) -> None:
        self.offset = offset
        self._backlog = backlog
        self._path: Path | None = None
        self._position = 0
        self._position_offset = 0

    def read(self, most: int) -> bytes:
        """Read about so many bytes; none where the disk does not have more yet. Raises NotKept."""
        while True:
            path = self._path or self._find()
            text = self._read_file(path, most)
            if text or not self._enter_next(path):
                return text

    def _find(self) -> Path:
        for path in reversed(self._backlog.paths()):
            begin = self._backlog.begin_of(path)
            if begin is not None and begin <= self.offset:
                self._enter(path, begin)
                return path
        raise NotKept

    def _enter(self, path: Path, begin: int) -> None:
        self._path, self._position, self._position_offset = path, 0, begin

    def _read_file(self, path: Path, most: int) -> bytes:
        try:
            reader = AofReader(self._backlog.disk.read(path), self._position)
        except OSError:
            raise NotKept from None
        reader.count_from(self._position_offset)
        text = reader.copy_history(self.offset, most)
        if reader.gap and not text:
            raise NotKept
        self._position, self._position_offset = reader.position, reader.offset
        self.offset += len(text)
        return text

    def _enter_next(self, present: Path) -> bool:
        """Go on with the file behind the present one, where there is one that has something."""
        paths = self._backlog.paths()
        if present not in paths:
            raise NotKept
        for path in paths[paths.index(present) + 1 :]:
            begin = self._backlog.begin_of(path)
            if begin is not None:
                if begin > self.offset:
                    raise NotKept
                self._enter(path, begin)
                return True
            if self._backlog.has_effects(path):
                raise NotKept  # it does not say where it begins: a Redis wrote it
        return False


def count_behind(files: AppendFiles, offset: int) -> int | None:
    """Count the effects that the append-only files have behind an offset; None where they do not have all.

    our history     ──────────────┬─────── our offset
    the successor's               └─── it branched off here, as its lineage says

    A former master counts what its successor has never got, before the successor's data replaces its own.
    """
    reader = FileBacklogReader(FileBacklog(files), offset)
    stream = MasterStream()
    count = 0
    try:
        while text := reader.read(_COUNTED_AT_ONCE):
            stream.take(text)
            while (argv := stream.next()) is not None:
                count += argv[0].upper() != b"SELECT"
            stream.finish(0)
    except (NotKept, BadStream):
        return None
    return count
