"""Start-up: from the files of a data directory to the data.

    appendonly yes   a manifest                    its base, then its increments in order
                     none, but an append-only      Redis before 7 wrote it: it becomes the base of a new manifest
                     file in the directory
                     neither, but a snapshot       loaded, and told: the server makes it the base of new files
    appendonly no    a snapshot                    loaded

A base is a snapshot or commands, or the one and then the other: its first bytes tell. What cannot be read stops the
start with one sentence, and nothing is removed or changed; only the end of the last file may be cut, as `tail` says,
and that after all else was read. Until then the files are as they were, whenever the process ends.

Loading is a generator, so that whoever runs it can answer clients between two slices.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

from headrace.engine.config import Config
from headrace.engine.engine import Engine
from headrace.engine.errors import NO_SUCH_KEY
from headrace.engine.replay import Replayer
from headrace.formats.aof import AofReader
from headrace.formats.errors import CorruptPayload
from headrace.formats.rdb_file import MAGIC
from headrace.formats.rdb_file_reader import LoadedKey, RdbFileReader, Skipped
from headrace.storage.directory import DataDirectory, explained
from headrace.storage.errors import BadManifest, CannotRecover
from headrace.storage.manifest import Kind, Manifest, ManifestFile, parse, publish
from headrace.storage.tail import Cut, Tail, commands_in, examine, save_and_cut, shorten, shown

_SLICE_S: Final = 0.01  # how long clients wait for an answer at most, unless one value takes longer
_COMMANDS_AT_ONCE: Final = 256  # between two looks at the clock
_LISTED: Final = 10  # skipped values and refused commands that are told one by one

# A command that was understood and does not fit the data. Redis ignores that when it loads; here it is told, and the
# rest is loaded. Any other error means that the command was not understood: to go on would lose what it did.
_PASSED_OVER: Final = (
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


class Progress(NamedTuple):
    """How far loading is, in bytes of all files together."""

    done: int
    total: int


class Source(Enum):
    """Where the data came from."""

    NOTHING = "nothing"
    SNAPSHOT = "snapshot"
    APPEND_FILES = "append-only files"


@dataclass
class RecoveryReport:
    """What was found, loaded, left out and cut; `tell` is called with each sentence for the log."""

    tell: Callable[[str], None] = lambda _sentence: None
    source: Source = Source.NOTHING
    manifest: Manifest | None = None  # that is in force now; None: there are no append-only files
    files: list[Path] = field(default_factory=list)
    keys: int = 0
    expired: int = 0
    commands: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    unused: int = 0  # bytes of prepared space that were cut

    def skip(self, path: Path, record: Skipped) -> None:
        """Note something that a snapshot has and we cannot hold."""
        self.skipped.append(record)
        self._tell_some(len(self.skipped), f"Not loaded from {path}: {record}.")

    def refuse(self, sentence: str) -> None:
        """Note a command that was refused, as Redis would refuse it, too."""
        self.refused.append(sentence)
        self._tell_some(len(self.refused), f"In {sentence}.")

    def _tell_some(self, count: int, sentence: str) -> None:
        if count <= _LISTED:
            self.tell(sentence)
        elif count == _LISTED + 1:
            self.tell("There is more like this, which is counted and not listed.")


def recover(engine: Engine, directory: DataDirectory, config: Config, report: RecoveryReport) -> Iterator[Progress]:
    """Load the data of a directory whose lock is held into an empty engine, slice by slice.

    The engine is loading meanwhile, and stays so where this raises.
    """
    with explained("load the data in", directory.path):
        yield from _Recovery(engine, directory, config, report).run()


class _Recovery:
    """One start-up."""

    def __init__(self, engine: Engine, directory: DataDirectory, config: Config, report: RecoveryReport) -> None:
        self._engine = engine
        self._replayer = Replayer(engine)
        self._directory = directory
        self._disk = directory.disk
        self._config = config
        self._report = report
        self._before = 0  # bytes of the files that were loaded
        self._total = 0
        self._slice_began = monotonic()
        self._unused: dict[Path, int] = {}  # what prepared files are to be cut to

    def run(self) -> Iterator[Progress]:
        """Load everything, then cut what may be cut."""
        report = self._report
        if self._config["appendonly"]:
            report.manifest = self._find_manifest()
        elif self._disk.exists(self._directory.manifest):
            report.tell(f"appendonly is no: the append-only files in {self._directory.append_directory} are not read.")
        if report.manifest is not None:
            report.source = Source.APPEND_FILES
            yield from self._load_append_files(report.manifest)
        elif self._disk.exists(self._directory.dump):
            report.source = Source.SNAPSHOT
            yield from self._load_dump()
        self._replayer.end()
        self._cut()
        yield Progress(self._total, self._total)

    # --- which files -----------------------------------------------------------------------------------------------

    def _find_manifest(self) -> Manifest | None:
        directory = self._directory
        if self._disk.exists(directory.manifest):
            try:
                manifest = parse(self._disk.read(directory.manifest))
            except BadManifest as error:
                raise CannotRecover(f"The manifest {directory.manifest} is damaged: {error}. {self._advice}") from None
            self._finish_upgrade(manifest)
            self._compare_with_files(manifest)
            return manifest
        files = directory.append_files()
        if files:
            return self._adopt(files)
        if self._disk.exists(directory.single_append_file):
            return self._upgrade()
        if self._disk.exists(directory.dump):
            self._report.tell(
                f"There are no append-only files yet: the snapshot {directory.dump} is loaded, and becomes their base."
            )
        return None

    def _compare_with_files(self, manifest: Manifest) -> None:
        """Refuse a manifest that leaves out files which it would not without damage.

        What rewrites leave behind is older than the files that count, or empty.
        """
        directory = self._directory
        oldest = manifest.increments[0].sequence if manifest.increments else 0
        counted = {file.name for file in manifest.loaded}
        for file in directory.append_files():
            if file.name in counted:
                continue
            if file.kind is Kind.BASE:
                missed = manifest.base is None
            else:
                missed = file.sequence >= oldest and self._disk.size(directory.located(file)) > 0
            if missed:
                raise CannotRecover(
                    f"The manifest {directory.manifest} leaves out {file.name}, which belongs to the files that count. "
                    f"{self._advice}"
                )

    def _adopt(self, files: list[ManifestFile]) -> Manifest:
        """Make the manifest of files that have none, where that is certain.

        A first base is there before its manifest is, and a crash in between leaves it so. Nothing was written behind it
        yet; where something was, the manifest was lost, and with it the knowledge which files count.
        """
        directory = self._directory
        bases = [file for file in files if file.kind is Kind.BASE]
        increments = [file for file in files if file.kind is Kind.INCREMENT]
        if len(bases) != 1 or any(self._disk.size(directory.located(file)) for file in increments):
            raise CannotRecover(
                f"There are append-only files in {directory.append_directory}, but no manifest "
                f"{directory.manifest.name} that says which of them count. {self._advice}"
            )
        manifest = Manifest(bases[0], (), tuple(increments))
        publish(self._disk, directory.manifest, manifest)
        self._report.tell(f"{directory.located(bases[0])} had no manifest yet; it has one now.")
        return manifest

    def _upgrade(self) -> Manifest:
        """Make a single append-only file the base of a manifest: first the manifest, then the move."""
        directory = self._directory
        manifest = Manifest(ManifestFile(directory.append_file, 1, Kind.BASE))
        self._disk.make_directory(directory.append_directory)
        self._disk.sync_directory(directory.path)
        publish(self._disk, directory.manifest, manifest)
        self._finish_upgrade(manifest)
        return manifest

    def _finish_upgrade(self, manifest: Manifest) -> None:
        """Move a single append-only file to where the manifest wants it, unless that has happened."""
        directory = self._directory
        base = manifest.base
        if base is None or base.name != directory.append_file or self._disk.exists(directory.located(base)):
            return
        if self._disk.exists(directory.single_append_file):
            self._disk.rename(directory.single_append_file, directory.located(base))
            self._disk.sync_directory(directory.append_directory)
            self._disk.sync_directory(directory.path)
            self._report.tell(
                f"The append-only file {directory.single_append_file} was moved to {directory.append_directory}, "
                "where newer versions have theirs."
            )

    @property
    def _advice(self) -> str:
        return f"Nothing was changed; `headrace check --fix {self._directory.path}` repairs what can be, in a copy."

    # --- loading ---------------------------------------------------------------------------------------------------

    def _load_append_files(self, manifest: Manifest) -> Iterator[Progress]:
        paths = [self._directory.located(file) for file in manifest.loaded]
        for path in paths:
            if not self._disk.exists(path):
                raise CannotRecover(
                    f"The append-only file {path} is missing, which the manifest names. Bring it back; "
                    f"`headrace check {self._directory.path}` says what there is."
                )
        self._total = sum(self._disk.size(path) for path in paths)
        for index, path in enumerate(paths):
            position = 0
            source = self._disk.read(path)
            if path.suffix == ".rdb" or (index == 0 and source[: len(MAGIC)].tobytes() == MAGIC):
                position = yield from self._load_snapshot(path, source, keep_expired=True)
            is_last = not any(AofReader(self._disk.read(later)).data_size for later in paths[index + 1 :])
            yield from self._replay(path, source, position, is_last=is_last)
            self._report.files.append(path)
            self._before += len(source)

    def _load_dump(self) -> Iterator[Progress]:
        path = self._directory.dump
        source = self._disk.read(path)
        self._total = len(source)
        # A snapshot is all there is: what has expired is gone. In a base it may still be changed by what follows.
        end = yield from self._load_snapshot(path, source, keep_expired=False)
        if end < len(source):
            self._report.tell(f"There are {len(source) - end} bytes behind the end of the snapshot {path}; not loaded.")
        self._report.files.append(path)

    def _load_snapshot(self, path: Path, source: memoryview, *, keep_expired: bool) -> Generator[Progress, None, int]:
        """Load the keys of a snapshot; return where it ends."""
        now_ms = self._engine.unix_ms()
        try:
            reader = RdbFileReader(source, self._engine.node_limits, now_ms=now_ms)
            for record in reader:
                if isinstance(record, Skipped):
                    self._report.skip(path, record)
                elif keep_expired or record.expires_ms is None or record.expires_ms >= now_ms:
                    self._load_key(path, record)
                else:
                    self._report.expired += 1
                if monotonic() - self._slice_began >= _SLICE_S:
                    yield self._progress(reader.position)
        except CorruptPayload as error:
            raise CannotRecover(f"The snapshot {path} is damaged: {error}. {self._advice}") from None
        return reader.position

    def _load_key(self, path: Path, record: LoadedKey) -> None:
        if record.db >= len(self._engine.databases):
            raise CannotRecover(
                f"The snapshot {path} has keys in database {record.db}, and there are only "
                f"{len(self._engine.databases)}: start with --databases {record.db + 1}."
            )
        self._engine.load_key(record.db, record.key, record.value, record.expires_ms, record.idle_s)
        self._report.keys += 1

    def _replay(self, path: Path, source: memoryview, position: int, *, is_last: bool) -> Iterator[Progress]:
        """Repeat the commands of a file from a position on."""
        reader = AofReader(source, position)
        next_command, run = reader.next, self._replayer.run
        argv: list[bytes] | None = [b"SELECT", b"0"]  # each file begins there
        while argv is not None:
            for _ in range(_COMMANDS_AT_ONCE):
                if argv is None:
                    break
                error = run(argv)
                if error is not None:
                    self._refuse_command(path, reader.start, argv, error)
                self._report.commands += 1
                argv = next_command()
            if monotonic() - self._slice_began >= _SLICE_S:
                yield self._progress(reader.position)
        self._report.commands -= 1  # the SELECT of ours
        self._judge(path, examine(reader, source), source, is_last=is_last)

    def _refuse_command(self, path: Path, offset: int, argv: list[bytes], error: bytes) -> None:
        text = error.decode("utf-8", "backslashreplace")
        if not error.startswith(_PASSED_OVER):
            raise CannotRecover(
                f"The append-only file {path} has at offset {offset} the command {shown(argv)}, which cannot be "
                f"repeated here: {text}. {self._advice}"
            )
        self._report.refuse(f"{path}, offset {offset}: the command {shown(argv)} was refused: {text}")

    def _progress(self, position: int) -> Progress:
        self._slice_began = monotonic()
        return Progress(self._before + position, self._total)

    # --- the end of a file -----------------------------------------------------------------------------------------

    def _judge(self, path: Path, tail: Tail, source: memoryview, *, is_last: bool) -> None:
        """Let a file end as it does, note what is to be cut from it, or refuse it."""
        if not tail.lost:
            if is_last and tail.unused:
                self._unused[path] = tail.cut_at
            return
        where = f"The append-only file {path} is damaged at offset {tail.offset}: {tail.problem}"
        if not is_last:
            raise CannotRecover(f"{where}, and other files follow it. {self._advice}")
        if tail.torn and not self._config["aof-load-truncated"]:
            raise CannotRecover(f"{where}, and aof-load-truncated is no. {self._advice}")
        if not tail.torn and tail.lost >= self._config["aof-load-corrupt-tail-max-size"]:
            raise CannotRecover(f"{where}. {self._advice}")
        data = bytes(source[tail.cut_at : tail.cut_at + tail.lost])
        self._report.cuts.append(Cut(path, tail.cut_at, data, tail.problem, commands_in(data)))

    def _cut(self) -> None:
        for cut in self._report.cuts:
            self._report.tell(cut.sentence(save_and_cut(self._disk, cut)))
        for path, size in self._unused.items():
            self._report.unused += self._disk.size(path) - size
            shorten(self._disk, path, size)
