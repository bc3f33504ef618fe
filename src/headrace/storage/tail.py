"""How an append-only file may end, and what start-up does about it.

    ends with                                       as the last file                     as any other
    a complete command                              nothing                              nothing
    … and then zero bytes                           the space is cut without a word      nothing
    half a command, or a part of a group            cut (aof-load-truncated yes)         refused
    a block never written, or a group with one      cut back to before it (the same)     refused
    … that had been on disk                         refused                              refused
    MULTI and commands, but no EXEC                 cut back to before MULTI (the same)  refused
    another group that is not as sealed, or bytes   cut if there are fewer than          refused
    that are no command, to the end                 aof-load-corrupt-tail-max-size
    the same, and commands behind it                refused                              refused

A group (see formats.aof_seal) counts as a whole or not at all: what a crash left of one was never acknowledged, for it
was written and synced as one. Commands that no seal stands before are those of a redis-server, and count one by one.

A machine that loses power may keep any of the blocks that were written since the last sync: a block that is missing
between others reads as zeros up to a multiple of 512 bytes. The zeros may begin within the block, where one write ended
and the next, which is missing, went on. What follows them was never acknowledged, unless a whole group behind it says
that it was written after that block was synced. Then the disk has lost what it had, like any bytes that are wrong and
not missing: nothing is cut for that. A length that was damaged can pass for the beginning of a long command or group;
it does not where whole commands follow right up to the end, or another group inside of it.

What is cut is copied to `<file>.cut-<offset>-<time>` and synced before the file is made shorter. A crash in between
leaves both, and the next start cuts again.
"""

from collections.abc import Iterator
from pathlib import Path
from time import gmtime, strftime
from typing import Final, NamedTuple

from headrace.formats.aof import AofReader, Ending, find_command
from headrace.formats.aof_seal import SEAL_BYTES, was_synced
from headrace.storage.disk import Disk

BLOCK: Final = 512  # what a disk writes as one
_NAMED: Final = 5  # how many of the commands that are cut off are named
_SHOWN: Final = 40


class Tail(NamedTuple):
    """What is behind the last command that counts; `cut_at` is the end of that."""

    cut_at: int
    size: int
    unused: int
    offset: int  # of what is wrong
    problem: str
    torn: bool  # as a crash leaves it: neither damaged in the middle nor overwritten

    @property
    def lost(self) -> int:
        """How many bytes are to be cut that are no unused space."""
        return self.size - self.unused - self.cut_at


def examine(reader: AofReader, source: memoryview) -> Tail:
    """Judge how a file ends that was read to its end."""
    in_transaction = reader.open_multi >= 0
    cut_at = reader.open_multi if in_transaction else reader.position
    offset, problem, torn = reader.bad, reader.problem, True
    if reader.ending is Ending.CORRUPT or reader.ending is Ending.BROKEN:
        missing = _missing_block(reader, source)
        torn = missing is not None
        if missing is not None:
            offset, problem = missing, "a block of the file was never written"
            if was_synced(source, missing, max(missing, reader.group_end)):
                problem, torn = "a block of the file is missing that had been on disk", False
    elif reader.ending is Ending.TRUNCATED:
        in_group = reader.group_end > reader.position
        torn = not (groups_inside if in_group else _commands_follow)(source, reader.position, reader.data_size)
        if not torn:
            offset = reader.position
            problem = f"the {'group' if in_group else 'command'} does not end where its lengths say"
    elif in_transaction:
        offset = reader.open_multi
        problem = "the transaction that begins with this MULTI has no EXEC"
    return Tail(cut_at, reader.size, reader.unused, offset, problem, torn)


def _missing_block(reader: AofReader, source: memoryview) -> int | None:
    """Find zeros that reach to the end of their block: where reading stopped, or in a group that is not as sealed.

    They may begin within a block: the system took a write in two parts, and the block was last on disk between them.
    """
    at, end = reader.bad, min(reader.group_end, reader.data_size)
    if reader.ending is Ending.CORRUPT:
        zeros = _zeros_at_end(source, at)
        return zeros if zeros == at else None
    for block in range(at - at % BLOCK, end, BLOCK):
        zeros = _zeros_at_end(source, max(block, at))
        if zeros < min(block + BLOCK, end):
            return zeros
    return None


def _zeros_at_end(source: memoryview, at: int) -> int:
    """Find where the zeros begin with which a block ends, seen from a place in it on; without any, its end."""
    return at + len(source[at : at - at % BLOCK + BLOCK].tobytes().rstrip(b"\0"))


def groups_inside(source: memoryview, start: int, end: int) -> bool:
    """Whether a seal lies behind another, where its group has only commands."""
    reader = AofReader(source[:end], start + SEAL_BYTES)
    while reader.next() is not None:
        pass
    return reader.group_end > 0


def _commands_follow(source: memoryview, start: int, end: int) -> bool:
    """Whether whole commands lie behind the beginning of one, up to the very end."""
    data = source[:end]
    at = find_command(data, start + 1)
    while at >= 0:
        reader = AofReader(data, at)
        while reader.next() is not None:
            pass
        if reader.ending is Ending.COMPLETE:
            return True
        at = find_command(data, reader.position + 1)
    return False


# --- cutting ---------------------------------------------------------------------------------------------------


class Cut(NamedTuple):
    """What is to be cut from a file, why, and which commands are in it."""

    path: Path
    offset: int
    data: bytes
    problem: str
    commands: tuple[str, ...]

    def sentence(self, saved: Path) -> str:
        """Say what was done."""
        named = ", ".join(self.commands[:_NAMED])
        more = len(self.commands) - _NAMED
        return (
            f"The end of {self.path} was cut off at offset {self.offset}, because {self.problem}: "
            f"{len(self.data)} bytes{f' with {named}' if named else ''}"
            f"{f' and {more} more commands' if more > 0 else ''}. They are saved as {saved.name}."
        )


def commands_in(data: bytes) -> tuple[str, ...]:
    """Name the commands that are in bytes which are to be cut, whole or begun."""
    return tuple(map(shown, readable(data)))


def readable(data: bytes) -> Iterator[list[bytes]]:
    """Give the commands in bytes that are not believed, whole or begun; a seal that they begin with is passed over."""
    at = min(SEAL_BYTES, len(data)) if data.startswith(b"#HR:") else 0
    while at >= 0:
        reader = AofReader(data, at)
        while (argv := reader.next()) is not None:
            yield argv
        begun = reader.begun()
        if begun:
            yield begun
        at = -1 if reader.ending is Ending.COMPLETE else find_command(data, reader.position + 1)


def shown(argv: list[bytes]) -> str:
    """Name a command and its key."""
    return " ".join(_printable(word) for word in argv[:2])


def _printable(word: bytes) -> str:
    text = word[:_SHOWN].decode("ascii", "backslashreplace")
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def save_and_cut(disk: Disk, cut: Cut) -> Path:
    """Copy what is to be cut beside the file, then cut it there; return where it was saved."""
    saved = _free_name(disk, cut)
    aside = disk.create(saved)
    try:
        disk.append(aside, cut.data)
        disk.sync(aside)
    finally:
        disk.close(aside)
    disk.sync_directory(saved.parent)
    shorten(disk, cut.path, cut.offset)
    return saved


def shorten(disk: Disk, path: Path, size: int) -> None:
    """Cut a file, durably."""
    file = disk.open(path)
    try:
        disk.truncate(file, size)
        disk.sync(file)
    finally:
        disk.close(file)


def _free_name(disk: Disk, cut: Cut) -> Path:
    stamp = strftime("%Y%m%dT%H%M%SZ", gmtime())
    plain = cut.path.with_name(f"{cut.path.name}.cut-{cut.offset}-{stamp}")
    path, number = plain, 1
    while disk.exists(path):
        number += 1
        path = plain.with_name(f"{plain.name}-{number}")
    return path
