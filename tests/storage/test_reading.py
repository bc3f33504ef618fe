"""Files are read to be looked at as start-up would load them, and stay as they are."""

from pathlib import Path

import pytest

from headrace.engine.engine import Engine
from headrace.formats.aof import encode
from headrace.storage.directory import DataDirectory
from headrace.storage.disk import Disk
from headrace.storage.errors import CannotRecover
from headrace.storage.loading import Loaded
from headrace.storage.manifest import Kind, Manifest, ManifestFile, publish
from headrace.storage.reading import read_data
from support.steps import finish
from support.storage.data_picture import take_pictures
from support.storage.data_sets import BASE, INCREMENT
from support.storage.operator_log import OperatorLog


def read(path: Path, log: OperatorLog | None = None) -> tuple[Engine, Loaded]:
    return finish(read_data(path, log or OperatorLog(), Disk()))


def commands(*argvs: list[bytes]) -> bytes:
    return b"".join(map(encode, argvs))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A base and an increment, and the manifest that names them."""
    files = tmp_path / "appendonlydir"
    files.mkdir()
    (files / "appendonly.aof.1.base.aof").write_bytes(commands(*BASE))
    (files / "appendonly.aof.1.incr.aof").write_bytes(commands(*INCREMENT))
    manifest = Manifest(
        ManifestFile("appendonly.aof.1.base.aof", 1, Kind.BASE),
        (),
        (ManifestFile("appendonly.aof.1.incr.aof", 1, Kind.INCREMENT),),
    )
    publish(Disk(), DataDirectory(Disk(), tmp_path).manifest, manifest)
    return tmp_path


def contents(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_a_directory_its_files_and_a_single_file_read_alike(directory: Path, tmp_path: Path) -> None:
    before = contents(directory)
    engine, loaded = read(directory)
    assert (len(loaded.files), loaded.commands) == (2, len(BASE) + len(INCREMENT))
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "appendonly.aof").write_bytes(commands(*BASE, *INCREMENT))
    expected = take_pictures(engine)
    assert expected
    for path in (directory / "appendonlydir", tmp_path / "old", tmp_path / "old" / "appendonly.aof"):
        assert take_pictures(read(path)[0]) == expected
    assert {path: content for path, content in contents(directory).items() if path in before} == before


def test_only_the_end_of_the_last_file_may_be_torn(directory: Path) -> None:
    increment = directory / "appendonlydir" / "appendonly.aof.1.incr.aof"
    whole = increment.read_bytes()
    increment.write_bytes(whole[:-3])
    log = OperatorLog()
    read(directory, log)
    assert len(log.warnings) == 1
    assert "are not read" in log.warnings[0]
    assert increment.read_bytes() == whole[:-3]
    increment.write_bytes(whole)
    base = directory / "appendonlydir" / "appendonly.aof.1.base.aof"
    base.write_bytes(base.read_bytes()[:-3])
    with pytest.raises(CannotRecover, match="is damaged"):
        read(directory)


def test_files_that_are_missing_are_told(directory: Path) -> None:
    with pytest.raises(CannotRecover, match=r"There is no .*nothing to read"):
        read(directory / "nothing")
    (directory / "appendonlydir" / "appendonly.aof.1.incr.aof").unlink()
    with pytest.raises(CannotRecover, match="is missing, which the manifest names"):
        read(directory)
    (directory / "appendonlydir" / "appendonly.aof.manifest").write_text("nonsense")
    with pytest.raises(CannotRecover, match=r"The manifest .* is damaged"):
        read(directory)


def test_a_base_whose_manifest_was_not_written_yet_is_read_as_start_up_reads_it(directory: Path) -> None:
    """Only start-up knew that a crash may leave a base without its manifest; readers took an older snapshot."""
    (directory / "appendonlydir" / "appendonly.aof.manifest").unlink()
    (directory / "appendonlydir" / "appendonly.aof.1.incr.aof").write_bytes(b"")
    before = contents(directory)
    assert read(directory)[1].commands == len(BASE)
    assert contents(directory) == before
    (directory / "appendonlydir" / "appendonly.aof.1.incr.aof").write_bytes(commands(*INCREMENT))
    with pytest.raises(CannotRecover, match=r"no manifest .* that says which of them count"):
        read(directory)


def test_a_single_file_that_was_not_moved_yet_is_read_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "appendonlydir").mkdir()
    (tmp_path / "appendonly.aof").write_bytes(commands(*BASE))
    manifest = Manifest(ManifestFile("appendonly.aof", 1, Kind.BASE))
    publish(Disk(), DataDirectory(Disk(), tmp_path).manifest, manifest)
    before = contents(tmp_path)
    assert read(tmp_path)[1].commands == len(BASE)
    assert contents(tmp_path) == before


def test_the_last_file_that_holds_anything_may_be_torn(directory: Path) -> None:
    """A crash right after a new increment began leaves it empty, or with nothing but prepared space."""
    increment = directory / "appendonlydir" / "appendonly.aof.1.incr.aof"
    increment.write_bytes(increment.read_bytes()[:-3])
    manifest = Manifest(
        ManifestFile("appendonly.aof.1.base.aof", 1, Kind.BASE),
        (),
        tuple(ManifestFile(f"appendonly.aof.{number}.incr.aof", number, Kind.INCREMENT) for number in (1, 2)),
    )
    publish(Disk(), DataDirectory(Disk(), directory).manifest, manifest)
    (directory / "appendonlydir" / "appendonly.aof.2.incr.aof").write_bytes(bytes(4096))
    log = OperatorLog()
    read(directory, log)
    assert len(log.warnings) == 1
    assert "are not read" in log.warnings[0]
