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

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from headrace.engine.config import Config
from headrace.engine.engine import Engine
from headrace.engine.persistence import Progress
from headrace.formats.aof import AofReader
from headrace.formats.rdb_file import MAGIC
from headrace.storage.directory import DataDirectory, explained
from headrace.storage.errors import BadManifest, CannotRecover
from headrace.storage.loading import Loaded, Loader
from headrace.storage.manifest import Kind, Manifest, ManifestFile, parse, publish
from headrace.storage.manifest_repair import left_out
from headrace.storage.notes import Notes
from headrace.storage.tail import Cut, Tail, commands_in, save_and_cut, shorten


class Source(Enum):
    """Where the data came from."""

    NOTHING = "nothing"
    SNAPSHOT = "snapshot"
    APPEND_FILES = "append-only files"


@dataclass
class Recovered(Loaded):
    """What start-up found and did."""

    source: Source = Source.NOTHING
    manifest: Manifest | None = None  # that is in force now; None: there are no append-only files
    cuts: list[Cut] = field(default_factory=list)
    unused: int = 0  # bytes of prepared space that were cut


def recover(
    engine: Engine,
    directory: DataDirectory,
    config: Config,
    notes: Notes,
    *,
    snapshot_only: bool = False,
    keep_expired: bool = False,
) -> Generator[Progress, None, Recovered]:
    """Load the data of a directory whose lock is held into an empty engine, slice by slice.

    The engine is loading meanwhile, and stays so where this raises. Of a snapshot that is all there is, keys that have
    expired are left out, unless the journal still has them.
    """
    with explained("load the data in", directory.path):
        recovery = _Recovery(engine, directory, config, notes, keep_expired=keep_expired)
        return (yield from recovery.run(snapshot_only))


class _Recovery:
    """One start-up."""

    def __init__(
        self, engine: Engine, directory: DataDirectory, config: Config, notes: Notes, *, keep_expired: bool
    ) -> None:
        self._keep_expired = keep_expired
        self._recovered = Recovered()
        self._loader = Loader(engine, notes, self._recovered)
        self._directory = directory
        self._disk = directory.disk
        self._config = config
        self._notes = notes
        self._unused: dict[Path, int] = {}  # what files with prepared space are to be cut to

    def run(self, snapshot_only: bool) -> Generator[Progress, None, Recovered]:
        """Load everything, then cut what may be cut."""
        recovered = self._recovered
        if snapshot_only:
            pass
        elif self._config["appendonly"]:
            recovered.manifest = self._find_manifest()
        elif self._disk.exists(self._directory.manifest):
            self._notes.warning(
                f"appendonly is no: the append-only files in {self._directory.append_directory} are not read."
            )
        if recovered.manifest is not None:
            recovered.source = Source.APPEND_FILES
            yield from self._load_append_files(recovered.manifest)
        elif self._disk.exists(self._directory.dump):
            recovered.source = Source.SNAPSHOT
            yield from self._load_dump()
        # The last time that others run: until the journal has its file, what a client did would be written nowhere.
        yield Progress(self._loader.total, self._loader.total)
        self._loader.end()
        self._cut()
        return recovered

    # --- which files -----------------------------------------------------------------------------------------------

    def _find_manifest(self) -> Manifest | None:
        directory = self._directory
        if self._disk.exists(directory.manifest):
            try:
                manifest = parse(self._disk.read(directory.manifest))
            except BadManifest as error:
                raise CannotRecover(f"The manifest {directory.manifest} is damaged: {error}. {self._advice}") from None
            self._finish_upgrade(manifest)
            missed = left_out(directory, manifest)
            if missed is not None:
                raise CannotRecover(
                    f"The manifest {directory.manifest} leaves out {missed.name}, which belongs to the files that "
                    f"count. {self._advice}"
                )
            return manifest
        files = directory.append_files()
        if any(self._disk.size(directory.located(file)) for file in files):
            return self._adopt(files)
        if self._disk.exists(directory.single_append_file):
            return self._upgrade()
        if self._disk.exists(directory.dump):
            self._notes.notice(
                f"There are no append-only files yet: the snapshot {directory.dump} is loaded, and becomes their base."
            )
        return None

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
        self._notes.notice(f"{directory.located(bases[0])} had no manifest yet; it has one now.")
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
            self._notes.notice(
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
        self._loader.total = sum(self._disk.size(path) for path in paths)
        for index, path in enumerate(paths):
            position = 0
            source = self._disk.read(path)
            if path.suffix == ".rdb" or (index == 0 and source[: len(MAGIC)].tobytes() == MAGIC):
                position = yield from self._loader.load_snapshot(path, source, advice=self._advice, is_base=True)
            is_last = not any(AofReader(self._disk.read(later)).data_size for later in paths[index + 1 :])
            tail = yield from self._loader.replay(path, source, position, advice=self._advice)
            self._judge(path, tail, source, is_last=is_last)
            self._loader.finish_file(path, len(source))

    def _load_dump(self) -> Iterator[Progress]:
        path = self._directory.dump
        source = self._disk.read(path)
        self._loader.total = len(source)
        end = yield from self._loader.load_snapshot(path, source, advice=self._advice, is_base=self._keep_expired)
        if end < len(source):
            self._notes.warning(
                f"There are {len(source) - end} bytes behind the end of the snapshot {path}; not loaded."
            )
        self._loader.finish_file(path, len(source))

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
        self._recovered.cuts.append(Cut(path, tail.cut_at, data, tail.problem, commands_in(data)))

    def _cut(self) -> None:
        for cut in self._recovered.cuts:
            self._notes.warning(cut.sentence(save_and_cut(self._disk, cut)))
        for path, size in self._unused.items():
            self._recovered.unused += self._disk.size(path) - size
            shorten(self._disk, path, size)
