"""The append-only files: a base, increments behind it, and the journal that writes to the last of them.

    rewriting    open     a new increment, still empty             manifest: base 1, incr 1, incr 2
                 begin    effects go to it from this moment on,
                          when incr 1 is on disk as a whole
                 …        the data of that moment is written       temp-….rdb
                 finish   it becomes the base                      manifest: base 2, incr 2 (the others are history)
                          history is removed                       manifest: base 2, incr 2

At every step the files that the manifest names make the data, so a crash at any of them loses nothing: the last of them
that holds anything may be torn, and nothing is in incr 2 before incr 1 is complete. A step that the disk refuses leaves
the manifest as it was, or naming an increment that stays empty. To open and to finish waits for the disk several times,
and may do so beside the event loop, while effects go on to the increment: nothing else changes the manifest meanwhile.
The segments that a base refers to are pinned before a manifest names them, and those of the manifest before it until
the new one is on disk.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
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
        self._opened: list[int] = []  # the last increment of the manifest, where nothing is written to it yet
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
            *earlier, last = [self.directory.located(each) for each in manifest.increments]
            # A process that was killed may have left what only the system knows; from now on clients see it. It is in
            # the last increment, or where that was opened and still empty, in the one before.
            for path in earlier:
                file = self._disk.open(path)
                self._disk.sync(file)
                self._disk.close(file)
            file = self._disk.open(last)
            self._disk.sync(file)
            self._disk.sync_directory(self.directory.append_directory)
            self.journal.attach(file, self._disk.size(last))
        else:
            run_now(self.opening_increment())
            self._write_to(self._opened.pop())
        self._measure()

    def stop(self) -> None:
        """Write no more; everything is on disk."""
        self.journal.drain()
        file = self.journal.detach()
        if file is not None:
            self._disk.close(file)

    # --- rewriting -------------------------------------------------------------------------------------------------

    @property
    def has_opened(self) -> bool:
        """Whether there is a new increment, to which nothing is written yet."""
        return bool(self._opened)

    def opening_increment(self) -> Steps:
        """Open a new increment behind the one that is written."""
        if not self.journal.busy:
            self.journal.cut_unused()  # the room that this frees may be what the disk needs
        yield from self._opening(self.manifest)

    def change_increment(self, refused: Callable[[], None]) -> None:
        """Let effects go to the increment that was opened from now on; `refused` is called where the disk prevents it.

        What was taken before goes to the one before, and is on disk first.
        """
        file = self._opened.pop()

        def changed(before: int | None) -> None:
            self._disk.close(file if before is None else before)
            if before is None:
                refused()
            else:
                self._measure()

        self.journal.change_file(file, changed)

    def close_opened(self) -> None:
        """Do without the increment that was opened: it stays empty."""
        while self._opened:
            self._disk.close(self._opened.pop())

    def adopting(self, segments: Collection[int] = ()) -> Steps:
        """Let what was written to `temporary_base` be the base, behind which the last increment goes on."""
        base = self._unused(self.manifest.next_base(self.directory.append_file))
        rename = partial(self._disk.rename, self.temporary_base, self.directory.located(base))
        yield from self._publishing(self.manifest.with_base(base, 1, segments), base, first=rename)
        self._measure()
        yield from self._removing_history(self.bytes_for_followers())

    def adopt_base_and_follow(self, segments: Collection[int] = ()) -> Path:
        """Let what was written to `temporary_base` be the base, behind which a new increment begins.

        What was written before the base must not be repeated. Return where it is.
        """
        base = self._unused(self.manifest.next_base(self.directory.append_file))
        self._disk.rename(self.temporary_base, self.directory.located(base))
        run_now(self._opening(self.manifest.with_base(base, 0, segments), base))
        self._write_to(self._opened.pop())
        run_now(self._removing_history())
        return self.directory.located(base)

    def adopt_lone_base(self, segments: Collection[int] = ()) -> None:
        """Let what was written to `temporary_base` be the whole data: nothing is appended.

        An empty increment goes with it, by whose number a start knows that all older ones do not count any more.
        """
        base = self._unused(self.manifest.next_base(self.directory.append_file))
        self._disk.rename(self.temporary_base, self.directory.located(base))
        run_now(self._opening(self.manifest.with_base(base, 0, segments), base))
        self.close_opened()
        run_now(self._removing_history())

    def _opening(self, manifest: Manifest, *new: ManifestFile) -> Steps:
        """Open a new increment, and put a manifest in force that names it and `new` files."""
        self.close_opened()
        increment = self._unused(manifest.next_increment(self.directory.append_file))
        opened: list[int] = []

        def create() -> None:
            opened.append(self._disk.create(self.directory.located(increment)))

        try:
            yield from self._publishing(manifest.with_increment(increment), *new, increment, first=create)
        except OSError:
            for file in opened:
                self._disk.close(file)
            raise
        self._opened = opened

    def _unused(self, file: ManifestFile) -> ManifestFile:
        """Choose a later number where a file that no manifest names has this one: it is not ours to replace."""
        while self._disk.exists(self.directory.located(file)):
            name = file.name.replace(f".{file.sequence}.", f".{file.sequence + 1}.")
            file = replace(file, name=name, sequence=file.sequence + 1)
        return file

    def _publishing(self, manifest: Manifest, *new: ManifestFile, first: Callable[[], object]) -> Steps:
        """Put a manifest in force that names `new` files, after what must come `first`."""
        path = self.directory.manifest

        def write() -> None:
            first()
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
                if each.name not in named and self._disk.exists(self.directory.located(each)):
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
