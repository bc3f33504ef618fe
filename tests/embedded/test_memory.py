"""A database in process with less memory than data."""

from pathlib import Path

import pytest

import headrace
from headrace.api.database import Database
from headrace.api.errors import CannotOpen
from support.patience import await_that

ENTRIES = 12_000  # of some 1 KB


def disk_entries(db: Database) -> int:
    figures = db.execute("HEADRACE", "MEMORY", "s")
    return int(figures[b"disk-entries"])


def test_what_does_not_fit_is_on_disk_and_read_like_the_rest(tmp_path: Path) -> None:
    with headrace.open(tmp_path, memory="4 MB", appendfsync="everysec") as db:
        stream = db.stream("s")
        for number in range(ENTRIES):
            stream.add({"n": str(number), "v": "x" * 1000})
        await_that(lambda: disk_entries(db) > ENTRIES // 2)
        assert [int(message["n"]) for message in stream.range()] == list(range(ENTRIES))
    with headrace.open(tmp_path, memory="4 MB", appendfsync="everysec") as db:
        assert len(db.stream("s")) == ENTRIES
        await_that(lambda: disk_entries(db) > ENTRIES // 2)
        assert [int(message["n"]) for message in db.stream("s").range()] == list(range(ENTRIES))


def test_memory_alone_has_no_place_for_what_does_not_fit() -> None:
    with pytest.raises(CannotOpen, match="memory needs a directory"):
        headrace.open(None, memory="4 MB")
