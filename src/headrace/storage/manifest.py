"""The manifest: which append-only files make the data, in which order.

    file appendonly.aof.2.base.rdb seq 2 type b         the base: everything up to some moment
    file 0000000001.seg seq 1 type s                    segments: nodes of streams that the base refers to; in
                                                        `segments` beside the directory of the others
    file appendonly.aof.1.incr.aof seq 1 type h         history: not needed any more, to be removed
    file appendonly.aof.2.incr.aof seq 2 type i         increments: what came after the base, in order
    file appendonly.aof.3.incr.aof seq 3 type i startoffset 5120 endoffset 9000
    #crc64 0f1e2d3c4b5a6978                             of all before it; ours, and a comment to Redis

Redis's format, but for the lines of segments: a base that refers to them is not for Redis, which refuses it by these
lines already. A line is at most 1024 bytes with its line feed, words may be quoted, keys are in upper or lower case.
Unknown keys are ignored; lines that begin with # are comments. There is at most one base; the sequence numbers of
increments rise. A single changed letter could make a file history that is removed. Our manifests therefore end with a
checksum, which is compared where there is one.

A manifest is a value: methods that change it return another, and `publish` replaces the old one with it atomically.
After a crash there is the one or the other, and perhaps a temporary file that is not read.
"""

import os
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Final

from headrace.engine.configuration.settings import quote
from headrace.formats.crc64 import crc64
from headrace.protocol.inline import split_words
from headrace.storage.disk import Disk
from headrace.storage.errors import BadManifest
from headrace.storage.segments.names import segment_name, segment_number

LONGEST_LINE: Final = 1024
SUFFIX: Final = ".manifest"
TEMPORARY: Final = "temp-"

_CHECKSUM: Final = b"#crc64 %016x\n"
_PLAIN_NAME: Final = re.compile(r"[!#-&(-\[\]-~]+")  # printable, without blanks, quotes and backslashes
_NUMBER: Final = re.compile(r"[0-9]{1,19}")


class Kind(Enum):
    """What a file of a manifest is for, by the letter that stands for it."""

    BASE = "b"
    HISTORY = "h"
    INCREMENT = "i"
    SEGMENT = "s"


@dataclass(frozen=True)
class ManifestFile:
    """One line: a file in the directory of the manifest, or a segment.

    The offsets are of the replication stream, where noted.
    """

    name: str
    sequence: int
    kind: Kind
    start_offset: int | None = None
    end_offset: int | None = None

    def line(self) -> str:
        """Write it as the manifest has it."""
        name = self.name if _PLAIN_NAME.fullmatch(self.name) else quote(self.name)
        text = f"file {name} seq {self.sequence} type {self.kind.value}"
        if self.start_offset is not None:
            text += f" startoffset {self.start_offset}"
        if self.end_offset is not None:
            text += f" endoffset {self.end_offset}"
        return text


@dataclass(frozen=True)
class Manifest:
    """The files of a data set."""

    base: ManifestFile | None = None
    history: tuple[ManifestFile, ...] = ()
    increments: tuple[ManifestFile, ...] = ()
    segments: tuple[ManifestFile, ...] = ()

    @property
    def segment_numbers(self) -> frozenset[int]:
        """The numbers of the segments that the base refers to."""
        return frozenset(each.sequence for each in self.segments)

    @property
    def loaded(self) -> tuple[ManifestFile, ...]:
        """The files that make the data, in order."""
        return (*([self.base] if self.base is not None else []), *self.increments)

    @property
    def files(self) -> tuple[ManifestFile, ...]:
        """Every file, in the order of the lines."""
        return (*([self.base] if self.base is not None else []), *self.segments, *self.history, *self.increments)

    # --- what follows ----------------------------------------------------------------------------------------------

    def next_base(self, name: str, *, rdb: bool = True) -> ManifestFile:
        """Name the base that a rewrite makes; `name` is `appendfilename`."""
        earlier = [each.sequence for each in self.history if ".base." in each.name]
        sequence = max([self.base.sequence if self.base is not None else 0, *earlier]) + 1
        return ManifestFile(f"{name}.{sequence}.base.{'rdb' if rdb else 'aof'}", sequence, Kind.BASE)

    def next_increment(self, name: str, start_offset: int | None = None) -> ManifestFile:
        """Name the increment to write after the last; `name` is `appendfilename`."""
        earlier = [each.sequence for each in (*self.history, *self.increments) if ".incr." in each.name]
        earlier += [each.sequence for each in self.increments]
        sequence = max(earlier, default=0) + 1
        return ManifestFile(f"{name}.{sequence}.incr.aof", sequence, Kind.INCREMENT, start_offset)

    def with_increment(self, increment: ManifestFile) -> "Manifest":
        """Add an increment behind the others."""
        return replace(self, increments=(*self.increments, increment))

    def with_base(self, base: ManifestFile, kept: int = 1, segments: Collection[int] = ()) -> "Manifest":
        """Take a new base, to which only the last `kept` increments are to be added; all others become history.

        It refers to `segments`; those of the base before no longer count.
        """
        cut = len(self.increments) - kept
        past = [*([self.base] if self.base is not None else []), *self.increments[:cut]]
        history = (*(replace(each, kind=Kind.HISTORY) for each in reversed(past)), *self.history)
        return Manifest(base, history, self.increments[cut:], segment_files(segments))

    def with_history(self, history: tuple[ManifestFile, ...]) -> "Manifest":
        """Keep only some of the files that are history."""
        return replace(self, history=history)

    def reopened(self) -> "Manifest":
        """Forget where the last increment ended, because it is written to again."""
        if not self.increments:
            return self
        return replace(self, increments=(*self.increments[:-1], replace(self.increments[-1], end_offset=None)))

    # --- text ------------------------------------------------------------------------------------------------------

    def text(self) -> bytes:
        """Write every line, and the checksum of them."""
        lines = os.fsencode("".join(each.line() + "\n" for each in self.files))
        return lines + _CHECKSUM % crc64(lines)


def segment_files(numbers: Collection[int]) -> tuple[ManifestFile, ...]:
    """Make the lines of segments."""
    return tuple(ManifestFile(segment_name(number), number, Kind.SEGMENT) for number in sorted(numbers))


def parse(content: bytes | memoryview) -> Manifest:
    """Read a manifest; the first rule that it breaks is raised with the number of its line."""
    if not len(content):
        raise BadManifest(0, "it is empty")
    content = bytes(content)
    base: ManifestFile | None = None
    history: list[ManifestFile] = []
    increments: list[ManifestFile] = []
    segments: list[ManifestFile] = []
    before = 0
    for number, line in enumerate(_lines(content), 1):
        if line.startswith(_CHECKSUM[:6]) and line != _CHECKSUM % crc64(content[:before]):
            raise BadManifest(number, "the checksum is not that of the lines before it")
        before += len(line)
        if line.startswith(b"#"):
            continue
        file = _parse_line(line, number)
        if file.kind is Kind.BASE:
            if base is not None:
                raise BadManifest(number, f"there is a second base, {file.name}, after {base.name}")
            base = file
        elif file.kind is Kind.HISTORY:
            history.append(file)
        elif file.kind is Kind.SEGMENT:
            if segment_number(file.name) != file.sequence:
                raise BadManifest(number, f"{file.name} is not the name of segment {file.sequence}")
            segments.append(file)
        else:
            if increments and file.sequence <= increments[-1].sequence:
                raise BadManifest(
                    number,
                    f"the sequence number {file.sequence} of an increment does not exceed {increments[-1].sequence}, "
                    "the one before",
                )
            increments.append(file)
    return Manifest(base, tuple(history), tuple(increments), tuple(segments))


def _lines(content: bytes) -> list[bytes]:
    """Cut a text behind each line feed, and nowhere else."""
    lines = [line + b"\n" for line in content.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _parse_line(line: bytes, number: int) -> ManifestFile:
    if len(line) > LONGEST_LINE:
        raise BadManifest(number, f"it has {len(line)} bytes, and a line has at most {LONGEST_LINE}")
    if not line.endswith(b"\n"):
        raise BadManifest(number, "it has no line feed at its end, so the rest of it may be missing")
    words = split_words(line.strip(b" \t\r\n"))
    if not words:
        raise BadManifest(number, "it is blank" if words is not None else "its quotes do not match")
    if len(words) % 2:
        raise BadManifest(number, "its words do not come in pairs of a key and a value")
    fields = {key.lower(): os.fsdecode(value) for key, value in zip(words[::2], words[1::2], strict=True)}
    if len(fields) < len(words) // 2:
        raise BadManifest(number, "it has a key twice")
    for key in (b"file", b"seq", b"type"):
        if not fields.get(key):
            raise BadManifest(number, f"it names no {key.decode()}")
    return ManifestFile(
        _bare_name(fields[b"file"], number),
        _number(fields, b"seq", number, least=1) or 0,
        _kind(fields[b"type"], number),
        _number(fields, b"startoffset", number),
        _number(fields, b"endoffset", number),
    )


def _bare_name(name: str, number: int) -> str:
    if "/" in name or "\\" in name or "\0" in name or name in (".", ".."):
        raise BadManifest(number, f"{name!r} is no bare file name")
    return name


def _kind(letter: str, number: int) -> Kind:
    try:
        return Kind(letter)
    except ValueError:
        raise BadManifest(number, f"{letter!r} is no type of file: it is b, h, i or s") from None


def _number(fields: dict[bytes, str], key: bytes, number: int, least: int = 0) -> int | None:
    text = fields.get(key)
    if text is None:
        return None
    if not _NUMBER.fullmatch(text) or not least <= int(text) < 1 << 63:
        raise BadManifest(number, f"{text!r} is no {key.decode()}: it is a number from {least} on")
    return int(text)


def publish(disk: Disk, path: Path, manifest: Manifest) -> None:
    """Put a manifest in place of the one at `path`; it is durable when this returns, and whole at every moment."""
    temporary = path.with_name(TEMPORARY + path.name)
    file = disk.create(temporary, replace=True)
    try:
        disk.append(file, manifest.text())
        disk.sync(file)
    finally:
        disk.close(file)
    disk.sync_directory(path.parent)  # its files are on disk under their names before it names them
    disk.rename(temporary, path)
    disk.sync_directory(path.parent)
