"""A file that is replaced is the old one or the new one, and has the permissions that were asked for."""

import errno
import os
from pathlib import Path

import pytest

from headrace.engine.whole_file import replace_file


def test_the_new_file_has_the_content_and_the_permissions(tmp_path: Path) -> None:
    path = tmp_path / "users.acl"
    path.write_bytes(b"old")
    replace_file(path, b"new", 0o640)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o640)
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "users.acl"
    path.write_bytes(b"old")

    def refuse(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
