"""Bringing files into an engine: the keys of a snapshot, the commands of an append-only file.

Both go in slices, so that a server can answer clients in between. Data of a snapshot that we cannot hold is
counted and noted, never left out silently; the same holds for commands that do not fit the data, which Redis
ignores when it loads. A command that is not understood ends the loading, because otherwise its effect would be lost.

A loader holds no file open. Where it raises, the engine has a part of the data and is still loading.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Final

from headrace.engine.applier import Applier
from headrace.engine.engine import Engine
from headrace.engine.errors import NO_SUCH_KEY, CommandError
from headrace.engine.persistence import Progress
from headrace.formats.aof import NO_HISTORY, AofReader
from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_file import ANCESTORS_FIELD, DATABASE_FIELD, HISTORY_FIELD, OFFSET_FIELD
from headrace.formats.rdb_file_reader import LoadedKey, LoadedLibrary, RdbFileReader, Skipped, UnfinishedStream
from headrace.formats.stream_value import FindRuns
from headrace.storage.directory import explained
from headrace.storage.disk import Disk
from headrace.storage.errors import CannotRecover
from headrace.storage.log import Log
from headrace.storage.tail import Tail, examine, shown

LIBRARY: Final = "library of functions"  # as what is skipped
STEP_BYTES: Final = 2 << 20  # of a stream, before others have their turn and nodes of it may be moved

_SLICE_S: Final = 0.01  # how long clients wait for an answer at most, unless one value takes longer
_COMMANDS_AT_ONCE: Final = 256  # between two looks at the clock
_OFFSET_DIGITS: Final = 18  # as many as always fit in 63 bits
_NAME_DIGITS: Final = 40  # of a history
_LISTED: Final = 10  # of what is counted, how many are told one by one

_DOES_NOT_FIT: Final = (
    b"WRONGTYPE ",
    b"NOGROUP ",
    b"BUSYGROUP ",
    b"BUSYKEY ",
    NO_SUCH_KEY,
    b"ERR The ID specified in ",
    b"ERR The entries_added specified ",
    b"ERR The XGROUP subcommand requires the key to exist",
    b"ERR The stream has exhausted ",
    b"ERR IID already exists ",
)


def was_understood(error: bytes) -> bool:
    """Whether an error only says that a command does not fit the data."""
    return error.startswith(_DOES_NOT_FIT)


@dataclass
class Loaded:
    """What was loaded, and what was not."""

    files: list[Path] = field(default_factory=list)
    keys: int = 0
    expired: int = 0
    commands: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    is_repaired: bool = False  # one of the files was repaired, so that the data is that of no history
    database: int = -1  # of a snapshot that a master sent: the one that is selected where its stream goes on


@dataclass
class Place:
    """The place in a history that the loaded data has."""

    history: bytes | None = None  # None: it has no name yet
    offset: int = 0
    ancestors: list[tuple[bytes, int]] = field(default_factory=list)
    database: int = -1  # that is selected there; -1: none
    is_lost: bool = False  # a file was repaired, so that the data is that of no history

    @classmethod
    def said_by(cls, aux: dict[bytes, bytes]) -> "Place":
        """Take the place from the auxiliary fields of a snapshot, as far as they make sense."""
        history, offset = aux.get(HISTORY_FIELD, b""), aux.get(OFFSET_FIELD, b"")
        if not _is_name(history) or not _is_offset(offset):
            return cls()
        ancestors = [
            (name, int(left_at))
            for name, _, left_at in (word.partition(b":") for word in aux.get(ANCESTORS_FIELD, b"").split())
            if _is_name(name) and _is_offset(left_at)
        ]
        database = aux.get(DATABASE_FIELD, b"")
        return cls(history, int(offset), ancestors, int(database) if _is_offset(database) else -1)

    def follow_histories(self, places: list[tuple[bytes, int]]) -> None:
        """Follow the histories that an append-only file tells of, and the offset where each began."""
        for history, offset in places:
            if self.history is not None and history != self.history:
                self.ancestors.insert(0, (self.history, offset))
            self.history = history
            self.is_lost = self.is_lost or history == NO_HISTORY
        if self.is_lost:
            self.history, self.ancestors = None, []


def _is_name(text: bytes) -> bool:
    return len(text) == _NAME_DIGITS and not text.strip(b"0123456789abcdef")


def _is_offset(text: bytes) -> bool:
    return text.isdigit() and len(text) <= _OFFSET_DIGITS


def load_snapshot(engine: Engine, path: Path, disk: Disk, log: Log) -> Iterator[Progress]:
    """Load a snapshot into an empty engine, slice by slice; there are no other files."""
    loader = Loader(engine, log, Loaded())
    with explained("load the snapshot", path):
        source = disk.read(path)
        loader.total = len(source)
        yield from loader.load_snapshot(path, source, advice="")
    loader.end()


class Loader:
    """Loads one file after another into an engine, which is loading until `end`."""

    def __init__(
        self,
        engine: Engine,
        log: Log,
        loaded: Loaded,
        *,
        find_runs: FindRuns | None = None,
        tolerant: bool = False,
    ) -> None:
        """Begin; a `tolerant` loader continues where a library of functions cannot be loaded here.

        `find_runs` finds the runs that snapshots refer to; those of other servers refer to none.
        """
        self._find_runs = find_runs
        self.total = 0  # bytes of all files
        self.loaded = loaded
        self._tolerant = tolerant
        self._engine = engine
        engine.begin_loading()
        self._applier = Applier(engine, engine.clocks.unix_ms())
        self._log = log
        self._before = 0  # bytes of the files that were finished
        self.place = Place()
        self._slice_began = monotonic()

    def finish_file(self, path: Path, size: int) -> None:
        """Go on with the next file."""
        self.loaded.files.append(path)
        self._before += size

    def end(self) -> None:
        """Let the engine serve what was loaded; a transaction that was not ended has not happened."""
        self._applier.end()
        place = self.place
        self.loaded.is_repaired = place.is_lost
        self._engine.effects.begin_at(place.offset, place.history, place.ancestors, place.database)
        self._engine.end_loading()

    def _progress(self, position: int) -> Progress:
        self._slice_began = monotonic()
        return Progress(self._before + position, self.total)

    # --- snapshots -------------------------------------------------------------------------------------------------

    def load_snapshot(
        self, path: Path, source: memoryview, *, advice: str, is_base: bool = False
    ) -> Generator[Progress, None, int]:
        """Load the keys of a snapshot; return where it ends, which may be before the end of the file.

        A key of a base that has expired may still be changed by what follows it, and is kept.
        """
        now_ms = self._engine.clocks.unix_ms()
        loaded = self.loaded
        try:
            limits = self._engine.node_limits
            reader = RdbFileReader(source, limits, now_ms=now_ms, preamble=True, find_runs=self._find_runs)
            for record in reader.in_steps(STEP_BYTES):
                if isinstance(record, Skipped):
                    self._skip(path, record)
                elif isinstance(record, UnfinishedStream):
                    if is_base or record.expires_ms is None or record.expires_ms >= now_ms:
                        self._load_nodes(path, record)
                    yield self._progress(reader.position)
                elif isinstance(record, LoadedLibrary):
                    self._load_library(path, record)
                elif is_base or record.expires_ms is None or record.expires_ms >= now_ms:
                    self._load_key(path, record)
                else:
                    loaded.expired += 1
                if monotonic() - self._slice_began >= _SLICE_S:
                    yield self._progress(reader.position)
        except CorruptPayload as error:
            raise CannotRecover(f"The snapshot {path} is damaged: {error}. {advice}".rstrip()) from None
        if reader.has_checksum:  # else its values may be others than those of the place that it names
            self.place = Place.said_by(reader.aux)
        return reader.position

    def _skip(self, path: Path, record: Skipped) -> None:
        self.loaded.skipped.append(record)
        self._warn(len(self.loaded.skipped), f"Not loaded from {path}: {record}.")

    def _load_library(self, path: Path, record: LoadedLibrary) -> None:
        try:
            self._engine.functions.load(record.code, replace=True)
        except CommandError as error:
            why = error.text.decode("latin-1")
            if self._tolerant:
                self._skip(path, Skipped(LIBRARY, 0, None, record.offset, why))
                return
            raise CannotRecover(
                f"The snapshot {path} has a library of functions at offset {record.offset} that cannot be loaded: "
                f"{why}."
            ) from None

    def _load_nodes(self, path: Path, record: UnfinishedStream) -> None:
        """Give the key the part of its stream that is loaded, so that its nodes can be moved before it is complete."""
        self._check_database(path, record.db)
        self._engine.keyspace.load(record.db, record.key, record.value, None, None)

    def _check_database(self, path: Path, number: int) -> None:
        if number >= len(self._engine.databases):
            raise CannotRecover(
                f"The snapshot {path} has keys in database {number}, and there are only "
                f"{len(self._engine.databases)}: start with --databases {number + 1}."
            )

    def _load_key(self, path: Path, record: LoadedKey) -> None:
        self._check_database(path, record.db)
        self._engine.keyspace.load(record.db, record.key, record.value, record.expires_ms, record.idle_s)
        self.loaded.keys += 1

    # --- commands --------------------------------------------------------------------------------------------------

    def replay(self, path: Path, source: memoryview, position: int, *, advice: str) -> Generator[Progress, None, Tail]:
        """Repeat the commands of a file from a position on; return how it ends."""
        reader = AofReader(source, position)
        reader.count_from(self.place.offset)
        applier = self._applier
        applier.run([b"SELECT", b"0"])  # where each file begins
        before = self.loaded.commands
        while reader.ending is None:
            self.loaded.commands += applier.run_many(reader, _COMMANDS_AT_ONCE)
            if applier.error is not None:
                self._refuse(path, reader.start, applier.refused, applier.error, advice)
            if monotonic() - self._slice_began >= _SLICE_S:
                yield self._progress(reader.position)
        tail = examine(reader, source)
        self.place.follow_histories(reader.places)
        self.place.offset = reader.offset - (reader.position - tail.cut_at)
        if self.loaded.commands != before:  # else the database from before the file is selected
            self.place.database = applier.database
        return tail

    def _refuse(self, path: Path, offset: int, argv: list[bytes], error: bytes, advice: str) -> None:
        text = error.decode("utf-8", "backslashreplace")
        if not was_understood(error):
            raise CannotRecover(
                f"The append-only file {path} has at offset {offset} the command {shown(argv)}, which cannot be "
                f"repeated here: {text}. {advice}"
            )
        self.loaded.refused.append(f"{path}, offset {offset}: the command {shown(argv)} was refused: {text}")
        self._warn(len(self.loaded.refused), f"In {self.loaded.refused[-1]}.")

    def _warn(self, count: int, sentence: str) -> None:
        """Tell the first few of many."""
        if count <= _LISTED:
            self._log.warning(sentence)
        elif count == _LISTED + 1:
            self._log.warning("There is more like this, which is counted and not listed.")
