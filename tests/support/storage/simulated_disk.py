"""A disk in memory that knows what a power cut may leave of it.

    what programs see        names ──► file: content
    what is on the platter   names ──► file: content at the last sync
    in between               changes of names, until a sync of their directory
                             writes and truncations of each file, until a sync of it

`power_cut` chooses what has become of everything in between, and returns the disk that the machine finds when it starts
again:

    a file       none of its writes, all, all up to some byte, or any of the sectors of 512 bytes that they touched,
                 each as some write left it, or as it was before. A sector that is missing reads as zeros. The size is
                 any between what was synced and what was written, whether or not the data is there. A truncation comes
                 after all that was before it.
    names        none of the changes, all, the first few, or any of them. A rename is one change: a file has the one
                 name or the other. What is in a directory whose own name is missing is lost.

What was synced stays as it was. The end of a process alone loses nothing: `restarted` is the same disk for the next
one, and every open file of the one before is dead.

`before_change` is called before each operation that changes anything, so that a test can look at the disk there, or end
the process by raising. `operations` names those that happened, in order.
"""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from headrace.storage.disk import Disk

SECTOR = 512


class ProcessEnded(BaseException):
    """The process that used the disk has ended; none of its code may catch this."""


@dataclass(frozen=True)
class Write:
    """Bytes that were put into a file, at a place in it or behind its end."""

    offset: int
    data: bytes


@dataclass(frozen=True)
class Truncation:
    """A file that was cut."""

    size: int


class File:
    """An inode: its content as programs see it, as it was synced, and what happened in between."""

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self.synced = content
        self.changes: list[Write | Truncation] = []

    def write(self, data: bytes, offset: int) -> None:
        assert offset <= len(self.content)
        self.changes.append(Write(offset, data))
        self.content[offset : offset + len(data)] = data

    def truncate(self, size: int) -> None:
        self.changes.append(Truncation(size))
        del self.content[size:]

    def sync(self) -> None:
        self.synced = bytes(self.content)
        self.changes.clear()

    def after_power_cut(self, random: Random) -> bytes:
        """Choose what is on the platter."""
        cuts = [index for index, change in enumerate(self.changes) if isinstance(change, Truncation)]
        changes = self.changes[: random.choice([*cuts, len(self.changes)])]
        way = random.randrange(5)
        if way == 0:
            return self.synced
        if way == 1:
            return _content_after(self.synced, changes)
        if way == 2:
            return _up_to_some_byte(self.synced, changes, random)
        return _any_sectors(self.synced, changes, random)


def _content_after(content: bytes, changes: list[Write | Truncation]) -> bytes:
    for change in changes:
        if isinstance(change, Truncation):
            content = content[: change.size]
        else:
            content = content[: change.offset] + change.data + content[change.offset + len(change.data) :]
    return content


def _up_to_some_byte(content: bytes, changes: list[Write | Truncation], random: Random) -> bytes:
    """Keep the first of all bytes that were written."""
    kept = random.randint(0, sum(len(change.data) for change in changes if isinstance(change, Write)))
    for change in changes:
        if isinstance(change, Write):
            content = _content_after(content, [Write(change.offset, change.data[:kept])])
            kept = max(kept - len(change.data), 0)
        else:
            content = _content_after(content, [change])
    return content


def _any_sectors(synced: bytes, changes: list[Write | Truncation], random: Random) -> bytes:
    """Keep each sector as any of the writes left it, or as it was before."""
    least = len(synced)
    content = synced
    versions: dict[int, list[bytes]] = {}
    for change in changes:
        content = _content_after(content, [change])
        if isinstance(change, Truncation):
            least = change.size
            versions = {number: kept for number, kept in versions.items() if number * SECTOR < least}
            synced = synced[:least]
            continue
        for number in range(change.offset // SECTOR, -(-(change.offset + len(change.data)) // SECTOR)):
            versions.setdefault(number, []).append(content[number * SECTOR : (number + 1) * SECTOR])
    size = random.choice((len(content), len(content), least, random.randint(least, len(content))))
    image = bytearray(synced) + bytes(len(content) - len(synced))
    likely = random.choice((0.2, 0.5, 0.8, 0.95))
    for number, kept in versions.items():
        if random.random() < likely:
            sector = random.choice(kept) if random.random() < 0.5 else kept[-1]
            image[number * SECTOR : number * SECTOR + len(sector)] = sector
    return bytes(image[:size])


class Directory:
    """A directory's inode; what is in it is known by path."""


Names = dict[Path, File | Directory]


@dataclass(frozen=True, eq=False)
class NameChange:
    """A file or directory that lost a name, got one, or both at once."""

    node: File | Directory
    removed: Path | None
    added: Path | None

    def apply(self, names: Names) -> None:
        if self.removed is not None and names.get(self.removed) is self.node:
            del names[self.removed]
        if self.added is not None:
            names[self.added] = self.node

    def concerns(self, directory: Path) -> bool:
        return any(path is not None and path.parent == directory for path in (self.removed, self.added))


@dataclass
class Platter:
    """What one disk after the other has in common while the machine has power."""

    names: Names = field(default_factory=dict)
    synced_names: Names = field(default_factory=dict)
    name_changes: list[NameChange] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)


class SimulatedDisk(Disk):
    """See the module."""

    def __init__(self, root: Path) -> None:
        self.root = root
        directory = Directory()
        self._platter = Platter({root: directory}, {root: directory})
        self._open: dict[int, tuple[Path, File]] = {}
        self._read: dict[int, int] = {}  # how far open files were read
        self._next = 3
        self._ended = False
        self.before_change: Callable[[], None] = lambda: None
        self.attempted = ""  # the last operation that was tried
        self._takes_half = False

    @property
    def operations(self) -> list[str]:
        """The operations that have changed something, in order."""
        return self._platter.operations

    @property
    def open_files(self) -> int:
        """How many files are open."""
        return len(self._open)

    # --- the ends of processes and machines ------------------------------------------------------------------------

    def end_process(self) -> None:
        """Let every further operation fail."""
        self._ended = True

    def restarted(self) -> "SimulatedDisk":
        """Return the disk as the next process has it."""
        self.end_process()
        disk = SimulatedDisk(self.root)
        disk._platter = self._platter
        return disk

    def power_cut(self, random: Random) -> "SimulatedDisk":
        """Choose what the machine finds on the disk when it starts again; this disk is not touched."""
        names = dict(self._platter.synced_names)
        for change in self._surviving_changes(random):
            change.apply(names)
        disk = SimulatedDisk(self.root)
        found: Names = {}
        for path, node in names.items():
            # Each file has choices of its own, so that what one holds does not decide about the others.
            choices = Random(random.getrandbits(64))
            if path == self.root or path.parent in names:
                found[path] = File(node.after_power_cut(choices)) if isinstance(node, File) else node
        disk._platter = Platter(found, dict(found), [], [*self.operations, "power cut"])
        return disk

    def _surviving_changes(self, random: Random) -> list[NameChange]:
        changes = self._platter.name_changes
        way = random.randrange(4)
        if way == 0:
            return []
        if way == 1:
            return changes
        if way == 2:
            return changes[: random.randint(0, len(changes))]
        return [change for change in changes if random.random() < 0.5]

    # --- noting ----------------------------------------------------------------------------------------------------

    def _note(self, operation: str) -> None:
        if self._ended:
            raise ProcessEnded
        self.attempted = operation
        self.before_change()
        self.operations.append(operation)

    def take_half_of_next_write(self) -> None:
        """Let a write that is about to happen put only the first half of its bytes into the file."""
        self._takes_half = True

    def _taken(self, data: bytes | bytearray | memoryview) -> bytes:
        taken = bytes(data[: len(data) // 2]) if self._takes_half and len(data) > 1 else bytes(data)
        self._takes_half = False
        return taken

    def _change_name(self, change: NameChange) -> None:
        change.apply(self._platter.names)
        self._platter.name_changes.append(change)

    def _find(self, path: Path) -> File | Directory:
        node = self._platter.names.get(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return node

    def _find_file(self, path: Path) -> File:
        node = self._find(path)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        return node

    def _opened(self, path: Path, file: File) -> int:
        self._next += 1
        self._open[self._next] = (path, file)
        return self._next

    # --- open files ------------------------------------------------------------------------------------------------

    def create(self, path: Path, *, replace: bool = False) -> int:
        self._find(path.parent)
        if path in self._platter.names:
            file = self._find_file(path)
            if not replace:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            self._note(f"empty {path.name}")
            file.truncate(0)
        else:
            self._note(f"create {path.name}")
            file = File()
            self._change_name(NameChange(file, None, path))
        return self._opened(path, file)

    def open(self, path: Path) -> int:
        return self._opened(path, self._find_file(path))

    def open_to_read(self, path: Path) -> int:
        return self.open(path)

    def read_next(self, file: int, size: int) -> bytes:
        _, opened = self._open[file]
        begin = self._read.get(file, 0)
        piece = bytes(opened.content[begin : begin + size])
        self._read[file] = begin + len(piece)
        return piece

    def read_at(self, file: int, size: int, offset: int) -> bytes:
        if self._ended:
            raise ProcessEnded
        _, opened = self._open[file]
        return bytes(opened.content[offset : offset + size])

    def write(self, file: int, data: bytes | bytearray | memoryview) -> int:
        path, opened = self._open[file]
        self._note(f"write {len(data)} bytes at {len(opened.content)} to {path.name}")
        taken = self._taken(data)
        opened.write(taken, len(opened.content))
        return len(taken)

    def write_anywhere(self, file: int) -> None:
        assert file in self._open

    write_at_end = write_anywhere

    def write_at(self, file: int, data: bytes | bytearray | memoryview, offset: int) -> int:
        path, opened = self._open[file]
        self._note(f"write {len(data)} bytes at {offset} of {len(opened.content)} to {path.name}")
        taken = self._taken(data)
        opened.write(taken, offset)
        return len(taken)

    def truncate(self, file: int, size: int) -> None:
        path, opened = self._open[file]
        self._note(f"truncate {path.name} from {len(opened.content)} to {size}")
        opened.truncate(size)

    def sync(self, file: int) -> None:
        path, opened = self._open[file]
        self._note(f"sync {path.name}")
        opened.sync()

    def close(self, file: int) -> None:
        del self._open[file]
        self._read.pop(file, None)

    def close_removed(self, file: int) -> None:
        self.close(file)

    # --- contents --------------------------------------------------------------------------------------------------

    def read(self, path: Path) -> memoryview:
        return memoryview(bytes(self._find_file(path).content))

    def size(self, path: Path) -> int:
        return len(self._find_file(path).content)

    def is_removed(self, file: int) -> bool:
        path, opened = self._open[file]
        return self._platter.names.get(path) is not opened

    # --- names -----------------------------------------------------------------------------------------------------

    def exists(self, path: Path) -> bool:
        return path in self._platter.names

    def is_directory(self, path: Path) -> bool:
        return isinstance(self._platter.names.get(path), Directory)

    def list(self, path: Path) -> list[str]:
        self._find(path)
        return sorted(each.name for each in self._platter.names if each.parent == path)

    def make_directory(self, path: Path) -> None:
        if path not in self._platter.names:
            self._note(f"make directory {path.name}")
            self._change_name(NameChange(Directory(), None, path))

    def rename(self, source: Path, target: Path) -> None:
        node = self._find(source)
        self._note(f"rename {source.name} to {target.name}")
        self._change_name(NameChange(node, source, target))

    def unlink(self, path: Path) -> None:
        node = self._find_file(path)
        self._note(f"unlink {path.name}")
        self._change_name(NameChange(node, path, None))

    def sync_directory(self, path: Path) -> None:
        self._find(path)
        self._note(f"sync directory {path.name}")
        platter = self._platter
        for change in platter.name_changes:
            if change.concerns(path):
                change.apply(platter.synced_names)
        platter.name_changes = [change for change in platter.name_changes if not change.concerns(path)]

    # --- locking ---------------------------------------------------------------------------------------------------

    def lock(self, path: Path) -> int | None:
        if any(held == path for held, _ in self._open.values()):
            return None
        return self.open(path) if self.exists(path) else self.create(path)

    def is_locked(self, path: Path) -> bool:
        return any(held == path for held, _ in self._open.values())
