"""An archive as it is written: one commit for each batch and each compaction.

    files of a batch, on the disk ─► _positions/8 ─► _spark_metadata/8.compact ─► older logs are removed
                                                     └─ from here on the files count, and those they replace do not

Each log names all files, so that files are added and replaced in one step: that of a rename. Whatever is killed before
that leaves files that do not count, and the next run removes them. Only one run writes at a time; see `sole_writer`.

The numbers of the logs are chosen so that Spark's own reader, which derives from the numbers of compact logs which of
them it needs, takes the last one alone: from one log of ours to the next they rise by 1.

Replaced files stay for a while, because a reader may have planned to read them. `_positions` says since when.
"""

import ctypes
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from headrace.pipelines.errors import NoArchive, PipelineError
from headrace.spark.archive_log import (
    COMPACT,
    METADATA,
    NOTHING,
    OURS,
    POSITIONS,
    ArchivedFile,
    ArchiveExtent,
    ArchiveLog,
    Shape,
    file_system,
    written_positions,
)
from headrace.spark.errors import UnreadableArchive

_SPARKS_INTERVAL: Final = 10  # from one compact log to the next, where there is none yet
_BLOCK: Final = 128 << 20


class Lake:
    """The Parquet archive of a run."""

    keep_s = 3600.0
    """How long replaced files stay."""
    removes_by_itself = True

    def __init__(self, path: str, checkpoint: str | None = None) -> None:
        self.log = ArchiveLog(path, checkpoint)
        self.path = self.log.path

    def extent(self) -> ArchiveExtent:
        """Return what the archive has; nothing where there is none."""
        try:
            return self.log.extent()
        except UnreadableArchive as error:
            if "there is no archive" in str(error):
                return NOTHING
            raise

    def existing(self) -> ArchiveExtent:
        """Return what the archive has; raises NoArchive where there is none."""
        try:
            return self.log.extent()
        except UnreadableArchive as error:
            raise NoArchive(str(error)) from None

    def append(self, files: Iterable[ArchivedFile], offset: Mapping[str, Any], shape: Shape) -> None:
        """Let the files of a batch count, and the positions that they reach."""
        self._publish([*self.extent().files, *files], offset, replace(shape, replaced=self.extent().shape.replaced))

    def exchange(self, groups: Sequence[tuple[Sequence[ArchivedFile], Sequence[ArchivedFile]]]) -> None:
        """Let new files count instead of old ones that have the same entries, group by group."""
        extent = self.extent()
        # The new files take the place of the first old one: the order is that in which entries were archived.
        places = {old[0].path: new for old, new in groups}
        gone = {file.path for old, _ in groups for file in old}
        files: list[ArchivedFile] = []
        for file in extent.files:
            files += places.get(file.path, ())
            if file.path not in gone:
                files.append(file)
        now = round(time.time() * 1000)
        replaced = {**extent.shape.replaced, **dict.fromkeys(sorted(gone), now)}
        self._publish(files, extent.offset, replace(extent.shape, replaced=replaced))

    def remove_replaced(self, keep_s: float) -> int:
        """Remove files that were replaced so long ago; return how many."""
        extent = self.extent()
        before = round((time.time() - keep_s) * 1000)
        old = [path for path, since in extent.shape.replaced.items() if since <= before]
        if not old:
            return 0
        for path in old:
            try:
                self.log.files.delete_file(self.log.located(path))
            except FileNotFoundError:  # by a run that was killed before it could say so
                continue
        rest = {path: since for path, since in extent.shape.replaced.items() if path not in set(old)}
        self._publish(extent.files, extent.offset, replace(extent.shape, replaced=rest))
        return len(old)

    def remove_leftovers(self) -> None:
        """Remove the files of batches that were never committed, where nobody else can be writing."""
        directory = local_path(self.path)
        if directory is None:
            return
        extent = self.extent()
        counted = {file.path for file in extent.files} | set(extent.shape.replaced)
        for pattern in ("key=*/date=*/*.parquet", "date=*/*.parquet"):
            for file in directory.glob(pattern):
                if str(file.relative_to(directory)) not in counted:
                    file.unlink()
                    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)

    def settle(self) -> None:
        """Wait until everything that was written to an archive on this machine is on the disk."""
        local = local_path(self.path)
        if local is None:
            return
        local.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(local, os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
                raise PipelineError(f"the archive {self.path!r} cannot be written: {os.strerror(ctypes.get_errno())}")
        finally:
            os.close(descriptor)

    def _publish(self, files: Sequence[ArchivedFile], offset: Mapping[str, Any], shape: Shape) -> None:
        logs = self._logs()
        batch = _next_batch(logs, ours=self._is_ours(logs))
        self.settle()
        self._write(f"{POSITIONS}/{batch}", written_positions(offset, shape))
        lines = ["v1", *(json.dumps(self._line(file)) for file in files)]
        self._write(f"{METADATA}/{batch}{COMPACT}", "\n".join(lines))
        self._remove_logs(logs, batch)

    def _logs(self) -> list[tuple[int, str]]:
        try:
            return self.log.logs()
        except UnreadableArchive:
            return []

    def _is_ours(self, logs: list[tuple[int, str]]) -> bool:
        from pyarrow.fs import FileType  # noqa: PLC0415

        told = [self.log.located(f"{POSITIONS}/{batch}") for batch, _ in logs[-1:]]
        return any(info.type == FileType.File for info in self.log.files.get_file_info(told))

    def _line(self, file: ArchivedFile) -> dict[str, Any]:
        """Return a file as Spark's log has it, and with what we know of it."""
        root = self.path if "://" in self.path or self.path.startswith("file:") else f"file://{quote(self.path)}"
        line = {
            "path": f"{root}/{quote(file.path, safe='/=')}",
            "size": file.size,
            "isDir": False,
            "modificationTime": round(time.time() * 1000),
            "blockReplication": 1,
            "blockSize": _BLOCK,
            "action": "add",
        }
        return line if file.span is None else line | {OURS: file.span.to_json()}

    def _write(self, path: str, text: str) -> None:
        """Write a file that is there whole or not at all."""
        local = local_path(self.path)
        if local is None:
            self.log.files.create_dir(self.log.located(path.rpartition("/")[0]), recursive=True)
            with self.log.files.open_output_stream(self.log.located(path)) as out:
                out.write(text.encode())
            return
        target = local / path
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.tmp")
        with beside.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(target)
        _sync_directory(target.parent)

    def _remove_logs(self, logs: list[tuple[int, str]], batch: int) -> None:
        """Remove the logs that the two last ones replace."""
        last = max((each for each, _ in logs), default=-1)
        for each, name in logs:
            if each not in {batch, last}:
                self._remove(f"{METADATA}/{name}")
                self._remove(f"{METADATA}/.{name}.crc")
                self._remove(f"{POSITIONS}/{each}")

    def _remove(self, path: str) -> None:
        try:
            self.log.files.delete_file(self.log.located(path))
        except FileNotFoundError:
            return


def _next_batch(logs: list[tuple[int, str]], *, ours: bool) -> int:
    last = max((batch for batch, _ in logs), default=-1)
    if ours or last < 0:
        return last + 1
    compact = sorted(batch for batch, name in logs if name.endswith(COMPACT))
    interval = _SPARKS_INTERVAL
    if len(compact) > 1:
        interval = compact[-1] - compact[-2]
    elif compact and compact[0] + 1 < interval:
        interval = compact[0] + 1
    batch = last + 1
    while (batch + 1) % interval or (batch + 1) % _SPARKS_INTERVAL:
        batch += 1
    return batch


def local_path(path: str) -> Path | None:
    """Return a path of this machine's; None for one of another store."""
    found, inner = file_system(path)
    return Path(inner) if found.type_name == "local" else None


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
