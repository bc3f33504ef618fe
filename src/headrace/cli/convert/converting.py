"""`headrace convert`: loads everything into an engine, and writes it in another form.

    read     storage.reading, as start-up would load it; or Parquet, a file a stream
    write    rdb       storage.snapshot, to a temporary name, then renamed
             aof       the same as the base of append-only files, behind an empty increment
             parquet   a file for each stream

All that is not carried over is collected on the way and printed at the end: data that Headrace cannot hold, and data
that the new form cannot hold.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import typer

from headrace.cli.convert.parquet import holds_parquet, read_parquet_streams, write_parquet_streams
from headrace.cli.errors import CommandFailed
from headrace.cli.files import read_engine
from headrace.cli.showing import plural, shown
from headrace.core.cold import ColdCache
from headrace.core.stream import Stream
from headrace.engine.engine import Engine
from headrace.formats.stream_value import Form, oldest_lossless_form
from headrace.storage.append_files import AppendFiles
from headrace.storage.directory import DataDirectory, explained
from headrace.storage.disk import Disk
from headrace.storage.journal import Journal
from headrace.storage.segments.segment_set import SegmentSet
from headrace.storage.snapshot import place_snapshot, write_snapshot

RDB: Final = "rdb"
AOF: Final = "aof"
PARQUET: Final = "parquet"
_FORMS: Final = (RDB, AOF, PARQUET)
_ENDINGS: Final = {".rdb": RDB, ".parquet": PARQUET, ".aof": AOF}
_LOSSES: Final = {
    Form.REDIS_7_2: "when its consumers were last active",
    Form.REDIS_8_6: "what its producers have sent",
    Form.REDIS_8_8: "which pending entries were released, or how its largest values are written",
}


@dataclass
class Conversion:
    """The result: what was carried over, and what was not."""

    keys: int = 0
    streams: int = 0
    entries: int = 0
    left_out: list[str] = field(default_factory=list)


def run_convert(source: Path, target: Path, asked: str | None, rdb_version: str, *, as_json: bool) -> None:
    """Convert, and print what was carried over and what was not."""
    form = _chosen_form(target, asked)
    servers = _compatibility(rdb_version)
    if not source.exists():
        raise CommandFailed(f"There is no file or directory {source}.")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CommandFailed(f"{target} is already there: choose another name, or remove it.")
    conversion = Conversion()
    engine = _read(source, conversion)
    for db in engine.databases:
        streams = [value for value in db.values.values() if isinstance(value, Stream)]
        conversion.keys += len(db)
        conversion.streams += len(streams)
        conversion.entries += sum(map(len, streams))
    engine.config.load("rdb-compatibility-version", [servers])
    with explained("write", target):
        if form == RDB:
            conversion.left_out += _losses(engine, servers)
            _write_rdb(engine, target)
        elif form == AOF:
            conversion.left_out += _losses(engine, servers)
            with _whole_or_not_at_all(target) as directory:
                _write_aof(engine, directory)
        else:
            with _whole_or_not_at_all(target) as directory:
                write_parquet_streams(engine, directory, conversion.left_out)
    _report(conversion, target, form, as_json=as_json)


def _chosen_form(target: Path, asked: str | None) -> str:
    form = asked or _ENDINGS.get(target.suffix.lower())
    if form is None:
        raise typer.BadParameter(
            f"{str(target)!r} does not say by its end what it is to be: use --to {'|'.join(_FORMS)}.", param_hint="TO"
        )
    if form not in _FORMS:
        raise typer.BadParameter(f"{form!r} is none of {', '.join(_FORMS)}.", param_hint="--to")
    return form


def _compatibility(version: str) -> str:
    """Return the `rdb-compatibility-version` for a server, or for a version of RDB."""
    for form in Form:
        if version in {form.server, str(form.rdb_version)}:
            return form.server
    if version == "auto":
        return version
    known = ", ".join(f"{form.server} (RDB {form.rdb_version})" for form in Form)
    raise typer.BadParameter(f"{version!r} is none of auto, {known}.", param_hint="--rdb-version")


# --- reading ---------------------------------------------------------------------------------------------------------


def _read(source: Path, conversion: Conversion) -> Engine:
    if holds_parquet(source):
        return read_parquet_streams(source)
    if source.is_dir():
        user = DataDirectory(Disk(), source).user()
        if user is not None:
            raise CommandFailed(f"{source} is used by {user}: stop that, so that all of it is on disk.")
    engine, loaded = read_engine(source)
    conversion.left_out += [f"{skipped}" for skipped in loaded.skipped]
    conversion.left_out += loaded.refused
    if loaded.expired:
        conversion.left_out.append(f"{plural(loaded.expired, 'key')} that had expired")
    return engine


# --- writing ---------------------------------------------------------------------------------------------------------


def _losses(engine: Engine, servers: str) -> list[str]:
    """Say what the older form that was asked for cannot hold."""
    wanted = Form.named(servers)
    if wanted is None:
        return []
    losses: list[str] = []
    for db in engine.databases:
        for key, value in db.values.items():
            needed = oldest_lossless_form(value) if isinstance(value, Stream) else wanted
            if needed.rdb_version > wanted.rdb_version:
                what = _LOSSES[needed]
                losses.append(f"of stream {shown(key)} in database {db.number}: {what}, for Redis {wanted.server}")
    return losses


@contextmanager
def _whole_or_not_at_all(target: Path) -> Iterator[Path]:
    """Give a temporary directory to write to; it gets its name when it is finished, and is removed after an error."""
    begun = target.with_name(f"{target.name}.part-{os.getpid()}")
    begun.mkdir()
    try:
        yield begun
        begun.replace(target)
        Disk().sync_directory(target.absolute().parent)
    finally:
        shutil.rmtree(begun, ignore_errors=True)


def _write_rdb(engine: Engine, target: Path) -> None:
    disk = Disk()
    temporary = target.with_name(f"temp-{os.getpid()}.rdb")
    write_snapshot(engine, disk, temporary, is_base=False)
    place_snapshot(disk, temporary, target)


def _write_aof(engine: Engine, target: Path) -> None:
    disk = Disk()
    directory = DataDirectory(disk, target)
    journal = Journal(disk, background=False)
    files = AppendFiles(directory, journal, SegmentSet(disk, directory.segments, ColdCache(0)))
    try:
        files.start_anew(lambda path: write_snapshot(engine, disk, path, is_base=True))
        files.stop()
    finally:
        journal.close()


def _report(conversion: Conversion, target: Path, form: str, *, as_json: bool) -> None:
    if as_json:
        told = {
            "target": str(target),
            "form": form,
            "keys": conversion.keys,
            "streams": conversion.streams,
            "entries": conversion.entries,
            "left_out": conversion.left_out,
        }
        print(json.dumps(told))  # noqa: T201
        return
    for sentence in conversion.left_out:
        print(f"headrace: Not carried over: {sentence.rstrip('.')}.", file=sys.stderr)  # noqa: T201
    print(  # noqa: T201
        f"{target}: {plural(conversion.keys, 'key')}, of them {plural(conversion.streams, 'stream')} with "
        f"{plural(conversion.entries, 'entry', 'entries')}."
        + (f" {plural(len(conversion.left_out), 'thing')} could not be carried over." if conversion.left_out else "")
    )
