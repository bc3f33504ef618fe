"""Start-up: from the files of a data directory to the data.

    appendonly yes   append-only files             loaded as `data_files` finds them; those without a manifest get one,
                                                   and the single file of Redis before 7 becomes the base of it
                     none, but a snapshot          loaded, and told: the server makes it the base of new files
    appendonly no    a snapshot                    loaded

A file that cannot be read stops the start with one sentence, and nothing is removed or changed. The end of the last
file may be cut, as `tail` says, after all else was read. Until then the files hold what they held, whenever the
process ends. Segments that a base or snapshot refers to must be there, and are not read. All other segments
are what a crash has left, and are removed before anything is loaded, because loading may need their space.

Loading is a generator, so that a server can answer clients between two slices.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

from headrace.core.errors import ColdReadError
from headrace.engine.configuration.config import Config
from headrace.engine.engine import Engine
from headrace.engine.persistence import Progress
from headrace.storage.data_files import (
    DataFiles,
    Source,
    damage_of,
    find_files,
    find_segments,
    find_snapshot,
    load_append_files,
    load_single_snapshot,
)
from headrace.storage.directory import DataDirectory, explained
from headrace.storage.errors import CannotRecover
from headrace.storage.loading import Loaded, Loader
from headrace.storage.log import Log
from headrace.storage.manifest import Manifest, publish
from headrace.storage.segments.segment_set import BASE, SNAPSHOT, SegmentSet
from headrace.storage.tail import Cut, Tail, commands_in, save_and_cut, shorten


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
    segments: SegmentSet,
    config: Config,
    log: Log,
    *,
    snapshot_only: bool = False,
    keep_expired: bool = False,
) -> Generator[Progress, None, Recovered]:
    """Load the data of a directory whose lock is held into an empty engine, slice by slice.

    The engine is loading meanwhile, and stays so where this raises. Where there is only a snapshot, keys that have
    expired are left out, unless the journal still has them.
    """
    with explained("load the data in", directory.path):
        recovery = _Recovery(engine, directory, segments, config, log, keep_expired=keep_expired)
        return (yield from recovery.run(snapshot_only))


class _Recovery:
    """One start-up."""

    def __init__(
        self,
        engine: Engine,
        directory: DataDirectory,
        segments: SegmentSet,
        config: Config,
        log: Log,
        *,
        keep_expired: bool,
    ) -> None:
        self._keep_expired = keep_expired
        self._recovered = Recovered()
        self._loader = Loader(engine, log, self._recovered, find_runs=segments.find_runs)
        self._directory = directory
        self._segments = segments
        self._disk = directory.disk
        self._config = config
        self._log = log
        self._unused: dict[Path, int] = {}  # what files with prepared space are to be cut to

    def run(self, snapshot_only: bool) -> Generator[Progress, None, Recovered]:
        """Load everything, then cut what may be cut."""
        recovered = self._recovered
        found = self._find(snapshot_only)
        recovered.source = found.source
        recovered.manifest = found.manifest
        self._settle_segments(found)
        if found.source is Source.APPEND_FILES:
            yield from load_append_files(self._loader, found.paths, self._disk, self._decide_tail, advice=self._advice)
        elif found.source is Source.SNAPSHOT:
            yield from load_single_snapshot(
                self._loader,
                self._directory.dump,
                self._disk,
                self._log,
                advice=self._advice,
                keep_expired=self._keep_expired,
            )
        # Clients run here for the last time: until the journal has its file, their writes would be written nowhere.
        yield Progress(self._loader.total, self._loader.total)
        self._loader.end()
        self._cut()
        return recovered

    # --- which files -----------------------------------------------------------------------------------------------

    def _find(self, snapshot_only: bool) -> DataFiles:
        directory = self._directory
        if snapshot_only:
            return find_snapshot(directory)
        if not self._config["appendonly"]:
            if self._disk.exists(directory.manifest):
                self._log.warning(
                    f"appendonly is no: the append-only files in {directory.append_directory} are not read."
                )
            return find_snapshot(directory)
        found = find_files(directory, self._advice)
        if found.manifest is not None:
            return self._settle(found, found.manifest)
        if found.source is Source.SNAPSHOT:
            self._log.notice(
                f"There are no append-only files yet: the snapshot {directory.dump} is loaded, and becomes their base."
            )
        return found

    def _settle(self, found: DataFiles, manifest: Manifest) -> DataFiles:
        """Make the directory as it was found to be: first the manifest, then the move of a file that it names."""
        directory = self._directory
        if not found.is_published:
            if found.misplaced:
                self._disk.make_directory(directory.append_directory)
                self._disk.sync_directory(directory.path)
            publish(self._disk, directory.manifest, manifest)
            if not found.misplaced:
                self._log.notice(f"{found.paths[0]} had no manifest yet; it has one now.")
        if not found.misplaced:
            return found
        paths = tuple(directory.located(file) for file in manifest.loaded)
        self._disk.rename(directory.single_append_file, paths[0])
        self._disk.sync_directory(directory.append_directory)
        self._disk.sync_directory(directory.path)
        self._log.notice(
            f"The append-only file {directory.single_append_file} was moved to {directory.append_directory}, "
            "where newer versions have theirs."
        )
        return found._replace(paths=paths, is_published=True, misplaced=False)

    def _settle_segments(self, found: DataFiles) -> None:
        """Make sure that all segments are there to which the data refers, and remove those that nothing refers to."""
        named = find_segments(self._directory, found, self._advice)
        try:
            if named is not None:
                self._segments.check_named(named[BASE if found.source is Source.APPEND_FILES else SNAPSHOT])
            elif found.manifest is not None:
                self._segments.check_named(found.manifest.segment_numbers)
        except ColdReadError as error:
            text = str(error)
            raise CannotRecover(f"{text[0].upper()}{text[1:]}, and the data refers to it. {self._advice}") from None
        if named is None:
            return
        for owner, numbers in named.items():
            self._segments.pin(owner, numbers)
        if orphans := self._segments.remove_orphans():
            self._log.notice(f"{len(orphans)} segments that no base or snapshot refers to were removed.")

    @property
    def _advice(self) -> str:
        return f"Nothing was changed; `headrace check --fix {self._directory.path}` repairs what can be, in a copy."

    # --- the end of a file -----------------------------------------------------------------------------------------

    def _decide_tail(self, path: Path, tail: Tail, source: memoryview) -> None:
        """Accept the end of the last file, note what is to be cut from it, or refuse it."""
        if not tail.lost:
            if tail.unused:
                self._unused[path] = tail.cut_at
            return
        where = damage_of(path, tail)
        if tail.torn and not self._config["aof-load-truncated"]:
            raise CannotRecover(f"{where}, and aof-load-truncated is no. {self._advice}")
        if not tail.torn and tail.lost >= self._config["aof-load-corrupt-tail-max-size"]:
            raise CannotRecover(f"{where}. {self._advice}")
        data = bytes(source[tail.cut_at : tail.cut_at + tail.lost])
        self._recovered.cuts.append(Cut(path, tail.cut_at, data, tail.problem, commands_in(data)))

    def _cut(self) -> None:
        for cut in self._recovered.cuts:
            self._log.warning(cut.sentence(save_and_cut(self._disk, cut)))
        for path, size in self._unused.items():
            self._recovered.unused += self._disk.size(path) - size
            shorten(self._disk, path, size)
