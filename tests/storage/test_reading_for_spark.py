"""Append-only files as Spark's tasks load them, without a server."""

from pathlib import Path

import pytest

from headrace.formats.aof import encode
from headrace.spark.files import append_files_in, load_append_files
from headrace.storage.errors import StorageError

COMMANDS = b"".join(encode([b"XADD", b"s", b"%d-1" % number, b"n", b"%d" % number]) for number in range(1, 11))


def test_the_single_file_of_an_older_redis_is_read(tmp_path: Path) -> None:
    assert not append_files_in(tmp_path)
    (tmp_path / "appendonly.aof").write_bytes(COMMANDS)
    assert append_files_in(tmp_path)
    assert len(load_append_files(tmp_path, 0)[b"s"]) == 10
    assert load_append_files(tmp_path, 5) == {}


def test_a_base_that_has_no_manifest_yet_is_read_and_not_an_older_snapshot(tmp_path: Path) -> None:
    inside = tmp_path / "appendonlydir"
    inside.mkdir()
    (inside / "appendonly.aof.1.incr.aof").write_bytes(b"")
    assert not append_files_in(tmp_path)
    (inside / "appendonly.aof.1.base.aof").write_bytes(COMMANDS)
    assert append_files_in(tmp_path)
    assert len(load_append_files(tmp_path, 0)[b"s"]) == 10


def test_what_is_cut_off_at_the_end_has_not_happened_and_nothing_is_changed(tmp_path: Path) -> None:
    file = tmp_path / "appendonly.aof"
    file.write_bytes(COMMANDS[:-3])
    assert len(load_append_files(tmp_path, 0)[b"s"]) == 9
    assert file.read_bytes() == COMMANDS[:-3]


def test_damage_in_the_middle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "appendonly.aof").write_bytes(COMMANDS[:60] + b"!!!!" + COMMANDS[64:])
    with pytest.raises(StorageError):
        load_append_files(tmp_path, 0)
