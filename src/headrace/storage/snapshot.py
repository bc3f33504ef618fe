"""Writing everything that an engine holds as one RDB file."""

import os
import time
from collections.abc import Callable, Collection
from errno import EIO
from functools import partial
from pathlib import Path

import headrace
from headrace.core.errors import ColdReadError
from headrace.engine.effect_log import EffectLog
from headrace.engine.engine import Engine
from headrace.engine.hooks import EVERYTHING, SnapshotParts
from headrace.engine.process import resident_bytes
from headrace.formats.rdb_file import ANCESTORS_FIELD, DATABASE_FIELD, HISTORY_FIELD, OFFSET_FIELD, OWN_FIELD
from headrace.formats.rdb_file_writer import RdbFileWriter
from headrace.storage.disk import Disk
from headrace.storage.segments.names import naming_field
from headrace.storage.segments.segment_set import SegmentSet


def _place(effects: EffectLog) -> dict[bytes, bytes]:
    """Say which place of which history the data is of, where that is known."""
    if not effects.continuous:
        return {}
    ancestors = b" ".join(b"%b:%d" % ancestor for ancestor in effects.ancestors)
    return {
        DATABASE_FIELD: b"%d" % effects.selected,
        HISTORY_FIELD: effects.history,
        OFFSET_FIELD: b"%d" % effects.offset,
        **({ANCESTORS_FIELD: ancestors} if ancestors else {}),
    }


def segments_named(engine: Engine, segments: SegmentSet) -> frozenset[int] | None:
    """Say which segments a snapshot of the data of now refers to; None: it is for Redis, and refers to none."""
    return segments.in_use() if engine.config["rdb-compatibility-version"] == "auto" else None


def _report_behind(report: Callable[[int], None], before: int, keys: int) -> None:
    report(before + keys)


def write_snapshot(
    engine: Engine,
    disk: Disk,
    path: Path,
    *,
    is_base: bool = False,
    parts: SnapshotParts = EVERYTHING,
    lasting: bool = True,
    compatibility: str | None = None,
    segments: Collection[int] | None = None,
    report: Callable[[int], None] = lambda _: None,
) -> None:
    """Write a file that was not there before, and sync it if it shall last; one that could not be finished is removed.

    A base of append-only files says so in its header. Which servers can read it is as configured, unless it is said.
    Where segments are given, which are all that the data refers to, the file refers to them, and leaves out what they
    hold.
    """
    file = disk.create(path, replace=True)
    try:
        _write(
            engine,
            lambda block: disk.append(file, block),
            is_base=is_base,
            parts=parts,
            compatibility=compatibility or engine.config["rdb-compatibility-version"],
            segments=segments,
            report=report,
        )
        if lasting:
            disk.sync(file)
    except ColdReadError as error:
        disk.unlink(path)
        raise OSError(EIO, str(error)) from None
    except BaseException:
        disk.unlink(path)
        raise
    finally:
        disk.close(file)


def _write(
    engine: Engine,
    write: Callable[[bytearray | memoryview], None],
    *,
    is_base: bool,
    parts: SnapshotParts,
    compatibility: str,
    segments: Collection[int] | None,
    report: Callable[[int], None],
) -> None:
    config = engine.config
    writer = RdbFileWriter(
        write,
        compress=config["rdbcompression"],
        compatibility=compatibility,
        refer=segments is not None,
        aux={
            b"ctime": b"%d" % time.time(),
            b"used-mem": b"%d" % resident_bytes(),
            b"aof-base": b"%d" % is_base,
            OWN_FIELD: headrace.__version__.encode(),
            **_place(engine.effects),
            **naming_field(segments or ()),
        },
    )
    keys = 0
    writer.begin()
    for library in engine.functions.libraries.values() if parts.functions else ():
        writer.library(library.code)
    for db in engine.databases if parts.keys else ():
        if not len(db):
            continue
        writer.select(db.number, len(db), len(db.expires))
        writer.keys(db.values, db.expires, partial(_report_behind, report, keys))
        keys += len(db)
    writer.end()
    report(keys)


def place_snapshot(disk: Disk, written: Path, path: Path) -> None:
    """Put a finished file in place of another, for good."""
    disk.rename(written, path)
    disk.sync_directory(path.parent)


def temporary_name(purpose: str, number: int | None = None) -> str:
    """Name a file that is being written; with a number where there may be several."""
    return f"temp-{purpose}-{os.getpid()}{'' if number is None else f'-{number}'}.rdb"
