"""The append-only files: a base, increments behind it, and the journal that writes to the last of them.

    rewriting    begin    effects go to a new increment            manifest: base 1, incr 1, incr 2
                 …        the data of that moment is written       temp-….rdb
                 finish   it becomes the base                      manifest: base 2, incr 2 (the others are history)
                          history is removed                       manifest: base 2, incr 2

At every step the files that the manifest names make the data, so a crash at any of them loses nothing. A step that the
disk refuses leaves the manifest as it was. To finish waits for the disk several times, and may do so beside the event
loop, while effects go on to the increment: nothing else changes the manifest meanwhile. The segments that a base refers
to are pinned before a manifest names them, and those of the manifest before it until the new one is on disk.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from errno import EIO
from functools import partial
from pathlib import Path

from headrace.storage.beside import Steps, run_now
from headrace.storage.directory import DataDirectory
from headrace.storage.errors import BadManifest
from headrace.storage.journal import Journal
from headrace.storage.manifest import Manifest, ManifestFile, parse, publish
from headrace.storage.segments.segment_set import BASE, SegmentSet
from headrace.storage.snapshot import temporary_name


class AppendFiles:
    """The files of a data directory that effects are written to."""

    def __init__(self, directory: DataDirectory, journal: Journal, segments: SegmentSet) -> None:
        self.directory = directory
        self.journal = journal
        self.segments = segments
        self.manifest = Manifest()
        self.bytes_for_followers: Callable[[], int] = lambda: 0  # of increments that are history
        self.earlier_size = 0  # bytes in the base and the increments before the one that is written
        self._disk = directory.disk

    @property
    def size(self) -> int:
        """How many bytes all files have that make the data."""
        return self.earlier_size + self.journal.size

    @property
    def increments(self) -> list[ManifestFile]:
        """The increments that are there, in order, those of before the base included."""
        earlier = [each for each in self.manifest.history if ".incr." in each.name]
        return [*sorted(earlier, key=lambda each: each.sequence), *self.manifest.increments]

    @property
    def temporary_base(self) -> Path:
        """Where a rewrite writes the base to be."""
        return self.directory.append_directory / temporary_name("rewriteaof")

    # --- beginning and end -----------------------------------------------------------------------------------------

    def start_anew(self, write_base: Callable[[Path], None], segments: Collection[int] = ()) -> Path:
        """Begin with a base, whatever files there were before: those become history. Return where the base is.

        It refers to `segments`, as with all other bases here.
        """
        self.make_directory()
        write_base(self.temporary_base)
        return self.adopt_base_and_follow(segments)

    def make_directory(self) -> None:
        """Make the directory of the files, which is there unless none was ever written."""
        self._disk.make_directory(self.directory.append_directory)
        self._disk.sync_directory(self.directory.path)

    def resume(self, manifest: Manifest) -> None:
        """Write behind the last increment of a manifest that was loaded, or open the first."""
        self.manifest = manifest
        self.segments.pin(BASE, manifest.segment_numbers)
        if manifest.increments:
            last = self.directory.located(manifest.increments[-1])
            file = self._disk.open(last)
            # A process that was killed may have left what only the system knows; from now on clients see it.
            self._disk.sync(file)
            self._disk.sync_directory(self.directory.append_directory)
            self.journal.attach(file, self._disk.size(last))
        else:
            self.open_increment()
        self._measure()

    def stop(self) -> None:
        """Write no more; everything is on disk."""
        self.journal.drain()
        file = self.journal.detach()
        if file is not None:
            self._disk.close(file)

    # --- rewriting -------------------------------------------------------------------------------------------------

    def open_increment(self) -> None:
        """Let effects go to a new increment from now on."""
        self.journal.drain()
        if self.journal.failing:
            raise OSError(EIO, "the disk did not take what was written before")
        self.journal.cut_unused()  # the room that this frees may be what the disk needs
        self._begin_behind(self.manifest)

    def adopting(self, segments: Collection[int] = ()) -> Steps:
        """Let what was written to `temporary_base` be the base, behind which the last increment goes on."""
        base = self._unused(self.manifest.next_base(self.directory.append_file))
        yield from self._publishing(self.manifest.with_base(base, 1, segments), base, renamed=base)
        self._measure()
        yield from self._removing_history(self.bytes_for_followers())

    def adopt_base_and_follow(self, segments: Collection[int] = ()) -> Path:
        """Let what was written to `temporary_base` be the base, behind which a new increment begins.

        What was written before the base must not be repeated. Return where it is.
        """
        base = self._unused(self.manifest.next_base(self.directory.append_file))
        self._disk.rename(self.temporary_base, self.directory.located(base))
        self._begin_behind(self.manifest.with_base(base, 0, segments), base)
        run_now(self._removing_history())
        return self.directory.located(base)

    def adopt_lone_base(self, segments: Collection[int] = ()) -> None:
        """Let what was written to `temporary_base` be the whole data: nothing is appended.

        An empty increment goes with it, by whose number a start knows that all older ones do not count any more.
        """
        base = self._unused(self.manifest.next_base(self.directory.append_file))
        self._disk.rename(self.temporary_base, self.directory.located(base))
        self._disk.close(self._publish_with_increment(self.manifest.with_base(base, 0, segments), base))
        run_now(self._removing_history())

    def _begin_behind(self, manifest: Manifest, *new: ManifestFile) -> None:
        """Put a manifest in force that names `new` files, with a new increment, and write to that."""
        self._write_to(self._publish_with_increment(manifest, *new))

    def _publish_with_increment(self, manifest: Manifest, *new: ManifestFile) -> int:
        """Put a manifest in force that names `new` files and a new increment, which is returned open."""
        increment = self._unused(manifest.next_increment(self.directory.append_file))
        try:
            file = self._disk.create(self.directory.located(increment))
        except OSError:
            self._withdraw(new)
            raise
        try:
            run_now(self._publishing(manifest.with_increment(increment), *new, increment))
        except OSError:
            self._disk.close(file)
            raise
        return file

    def _unused(self, file: ManifestFile) -> ManifestFile:
        """Choose a later number where a file that no manifest names has this one: it is not ours to replace."""
        while self._disk.exists(self.directory.located(file)):
            name = file.name.replace(f".{file.sequence}.", f".{file.sequence + 1}.")
            file = replace(file, name=name, sequence=file.sequence + 1)
        return file

    def _publishing(self, manifest: Manifest, *new: ManifestFile, renamed: ManifestFile | None = None) -> Steps:
        """Put a manifest in force that names `new` files, one of which `temporary_base` may become first."""
        path, temporary = self.directory.manifest, self.temporary_base

        def write() -> None:
            if renamed is not None:
                self._disk.rename(temporary, self.directory.located(renamed))
            publish(self._disk, path, manifest)

        self.segments.pin(BASE, self.segments.pinned_by(BASE) | manifest.segment_numbers)
        try:
            yield write
        except OSError:
            self._withdraw(new)
            raise
        self.manifest = manifest
        self.segments.pin(BASE, manifest.segment_numbers)

    def _withdraw(self, new: tuple[ManifestFile, ...]) -> None:
        """Remove files that were to be in a manifest which the disk refused.

        It may have refused no more than to make the new one last. Then that is the one a start would find, and the
        files that it names must stay; what is written goes on where the old one says, which is right for either.
        """
        with suppress(OSError, BadManifest):
            named = set()
            if self._disk.exists(self.directory.manifest):
                named = {each.name for each in parse(self._disk.read(self.directory.manifest)).files}
            for each in new:
                if each.name not in named:
                    self._disk.unlink(self.directory.located(each))

    def _write_to(self, file: int) -> None:
        before = self.journal.detach()
        if before is not None:
            self._disk.close(before)
        self.journal.attach(file, 0)
        self._measure()

    def _measure(self) -> None:
        *earlier, _ = self.manifest.loaded
        self.earlier_size = sum(self._disk.size(self.directory.located(each)) for each in earlier)

    def _removing_history(self, kept: int = 0) -> Steps:
        """Remove what is not needed any more, but for the newest increments, up to so many bytes.

        What cannot be removed stays named, until the next time.
        """
        before = self.manifest
        history: list[ManifestFile] = []
        removed: list[Path] = []
        with suppress(OSError):
            for each in sorted(before.history, key=lambda each: each.sequence, reverse=True):
                path = self.directory.located(each)
                # An empty increment counts, too: where nothing is to be kept, it would stay.
                kept -= max(self._disk.size(path), 1) if ".incr." in each.name and self._disk.exists(path) else kept + 1
                if kept >= 0:
                    history.append(each)
                elif self._disk.exists(path):
                    removed.append(path)
            self.manifest = before.with_history(tuple(history))  # at once: nobody shall open what is being removed
            try:
                yield partial(self._remove, removed, self.directory.manifest, self.manifest)
            except OSError:
                self.manifest = before
                raise

    def _remove(self, paths: list[Path], manifest_path: Path, manifest: Manifest) -> None:
        with self._disk.keep_space():
            for path in paths:
                self._disk.unlink(path)
            publish(self._disk, manifest_path, manifest)
