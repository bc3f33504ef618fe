"""A closed database frees its memory at once: a program may open thousands, without a garbage collection."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.patience import PATIENCE_S

PROGRAM = """
import gc, sys, tempfile
from pathlib import Path
import headrace

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

def live(path, size, scripts=True):
    with headrace.open(path) as db:
        db.execute("SET", "text", b"x" * size)
        db.stream("s").add({"payload": b"y" * size})
        if not scripts:
            return
        db.execute("EVAL", "return redis.call('GET', 'text')", 0)
        db.execute("FUNCTION", "LOAD", "#!lua name=l\\nredis.register_function('f', function() return 1 end)")

size, times, on_disk = map(int, sys.argv[1:])
with tempfile.TemporaryDirectory() as directory:
    paths = [directory + f"/{n}" if on_disk else None for n in range(times + 10)]
    for path in paths[:10]:
        live(path, size)
    gc.collect()
    if size > 1000:
        gc.disable()
    before = resident()
    for number, path in enumerate(paths[10:]):
        live(path, size, scripts=number % 10 == 0 or size > 1000)
    print(resident() - before)
"""


def growth(tmp_path: Path, size: int, times: int, *, on_disk: bool) -> int:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(size), str(times), str(int(on_disk))]
    done = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_S)
    return int(done.stdout)


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_closed_database_gives_its_data_back_without_a_garbage_collection(tmp_path: Path, on_disk: bool) -> None:
    # 40 times 4 MB, and a Lua or two each time; an engine without its data takes little.
    assert growth(tmp_path, 2_000_000, 40, on_disk=on_disk) < 40_000_000


def test_opening_and_closing_a_thousand_times_does_not_grow(tmp_path: Path) -> None:
    assert growth(tmp_path, 100, 1000, on_disk=False) < 20_000_000
