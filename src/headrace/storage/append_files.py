"""The append-only files: a base, increments behind it, and the journal that writes to the last of them.

    rewriting    begin    effects go to a new increment            manifest: base 1, incr 1, incr 2
                 …        the data of that moment is written       temp-….rdb
                 finish   it becomes the base                      manifest: base 2, incr 2 (the others are history)
                          history is removed                       manifest: base 2, incr 2

At every step the files that the manifest names make the data, so a crash at any of them loses nothing. A step that the
disk refuses leaves the manifest as it was. The segments that a base refers to are pinned before a manifest names them,
and those of the manifest before it until the new one is on disk.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from errno import EIO
from pathlib import Path

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
        return self.adopt_base(segments, follow=True)

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

    def adopt_base(self, segments: Collection[int] = (), *, follow: bool = False) -> Path:
        """Let what was written to `temporary_base` be the base, behind which the last increment goes on.

        With `follow`, behind a new one: what was written before the base must not be repeated. Return where it is.
        """
        base = self._unused(self.manifest.next_base(self.directory.append_file))
        self._disk.rename(self.temporary_base, self.directory.located(base))
        if follow:
            self._begin_behind(self.manifest.with_base(base, 0, segments), base)
        else:
            self._publish(self.manifest.with_base(base, 1, segments), base)
            self._measure()
        self._remove_history(0 if follow else self.bytes_for_followers())
        return self.directory.located(base)

    def adopt_lone_base(self, segments: Collection[int] = ()) -> None:
        """Let what was written to `temporary_base` be the whole data: nothing is appended.

        An empty increment goes with it, by whose number a start knows that all older ones do not count any more.
        """
        base = self._unused(self.manifest.next_base(self.directory.append_file))
        self._disk.rename(self.temporary_base, self.directory.located(base))
        self._disk.close(self._publish_with_increment(self.manifest.with_base(base, 0, segments), base))
        self._remove_history()

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
            self._publish(manifest.with_increment(increment), *new, increment)
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

    def _publish(self, manifest: Manifest, *new: ManifestFile) -> None:
        self.segments.pin(BASE, self.segments.pinned_by(BASE) | manifest.segment_numbers)
        try:
            publish(self._disk, self.directory.manifest, manifest)
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

    def _remove_history(self, kept: int = 0) -> None:
        """Remove what is not needed any more, but for the newest increments, up to so many bytes.

        What cannot be removed stays named, until the next time.
        """
        history: list[ManifestFile] = []
        with suppress(OSError), self._disk.keep_space():
            for each in sorted(self.manifest.history, key=lambda each: each.sequence, reverse=True):
                path = self.directory.located(each)
                # An empty increment counts, too: where nothing is to be kept, it would stay.
                kept -= max(self._disk.size(path), 1) if ".incr." in each.name and self._disk.exists(path) else kept + 1
                if kept >= 0:
                    history.append(each)
                elif self._disk.exists(path):
                    self._disk.unlink(path)
            self._publish(self.manifest.with_history(tuple(history)))
