"""An archive whose writer is killed anywhere: every entry counts once, and the next run goes on.

The writer is a child of this process, which ends at once before a line of the code that writes. Everything is run as by
`headrace pipeline archive --trim` and `compact`, but without a Spark.
"""

import os
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import redis

from headrace.pipelines import archive_files, lake, merging, trimming
from support.campaign import LONG
from support.spark.reading import Table, add
from support.spark.small_lake import SmallLake

WRITERS = {module.__file__ for module in (archive_files, lake, merging, trimming)}
DAY_MS = 86_400_000
KILLED = 9
MOST = 10**6 if LONG else 15


class Streams:
    """Two streams on a server, some of which is in an archive of several files."""

    def __init__(self, server: redis.Redis, path: Path, layout: str) -> None:
        server.flushall()
        self._server = server
        self._layout = layout
        self.added: list[tuple[str, str]] = []
        self.archive = SmallLake(server, path, layout)
        self._next = 0
        for _ in range(3):
            self.grow()
            self.archive.run(trim=True)
        self.grow()

    def grow(self) -> None:
        """Add entries of two days to both streams."""
        for _ in range(4):
            self._next += DAY_MS // 6
            for key in "ab":
                self.added += add(self._server, f"{self._next}-0", key=key)

    def rows(self) -> list[tuple[str, str]]:
        """Read the archive and what came after it, as a query does."""
        return Table(self._server, self.archive.path).rows()

    def leftovers(self) -> set[Path]:
        """Return the files that neither count nor wait to be removed."""
        extent = self.archive.lake.extent()
        known = {*extent.shape.replaced, *(file.path for file in extent.files)}
        return {
            file
            for file in self.archive.path.rglob("*.parquet")
            if file.relative_to(self.archive.path).as_posix() not in known
        }


def killed_before(line: int, work: Callable[[], Any]) -> bool:
    """Run `work` in a child that ends before the given line of a writer; False: it came to its end."""
    child = os.fork()
    if child == 0:
        passed = 0

        def follow(frame: FrameType, event: str, _argument: object) -> Any:
            nonlocal passed
            if frame.f_code.co_filename not in WRITERS:
                return None
            if event == "line":
                passed += 1
                if passed > line:
                    os._exit(KILLED)
            return follow

        try:
            sys.settrace(follow)
            work()
        except BaseException as error:  # noqa: BLE001
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in {0, KILLED}, "the writer failed before it was killed"
    return status == KILLED


@pytest.mark.parametrize("layout", ["by-key", "by-date"])
@pytest.mark.parametrize("job", ["archive", "compact"])
def test_a_writer_that_is_killed_loses_nothing_and_doubles_nothing(
    headrace_server: redis.Redis, tmp_path: Path, layout: str, job: str
) -> None:
    line, kills = random.randrange(20), 0
    went_on = True
    while went_on and kills < MOST:
        path = tmp_path / "lake"
        streams = Streams(headrace_server, path, layout)
        archive = streams.archive
        work = (lambda: archive.run(trim=True)) if job == "archive" else (lambda: archive.compact())  # noqa: B023, PLW0108
        went_on = killed_before(line, work)
        assert sorted(streams.rows()) == sorted(streams.added), f"killed before line {line}"
        archive.lake.remove_leftovers()
        assert not streams.leftovers()
        streams.grow()
        archive.run(trim=True)
        archive.compact()
        assert sorted(streams.rows()) == sorted(streams.added), f"killed before line {line}, and gone on"
        assert headrace_server.xlen("a") <= 1, "everything was archived and trimmed"
        shutil.rmtree(path)
        kills += went_on
        line += 1 if LONG else random.randrange(1, 40)
    assert kills > 10
