"""Whole programs, in process and on a server, on a real disk that refuses at any operation, or is full.

Nothing that was acknowledged is lost, every refusal names its reason, and everything is accepted again when the disk
works again. See refused_program. HEADRACE_LONG=1 refuses every operation, in every way.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EDQUOT, EIO, ENOSPC
from pathlib import Path

import pytest
import redis

import headrace
from support.campaign import LONG
from support.patience import PATIENCE_S
from support.server_process import READY, ServerProcess
from support.storage.faulty_disk import FaultyDisk
from support.storage.refused_program import ADD, STEPS, Execute, Program
from support.storage.small_disk import small_file_system

MOST_STARTS = 60
# The error, how many operations are refused, and how many are between two that are the first.
IN_PROCESS = [(ENOSPC, 1, 23), (EIO, 12, 37), (EDQUOT, 25, 41)]
ON_A_SERVER = [(ENOSPC, 1, 41), (EIO, 25, 67)]
OF_A_SERVER = (
    *(("CONFIG", "SET", "maxmemory-policy", "noeviction"), ("CONFIG", "REWRITE")),
    *(("ACL", "SETUSER", "reader", "on", "nopass", "~*", "+@read"), ("ACL", "SAVE")),
)


@pytest.fixture
def faulty(tmp_path: Path) -> FaultyDisk:
    return FaultyDisk(tmp_path)


# --- in process ------------------------------------------------------------------------------------------------------


def live_in_process(faulty: FaultyDisk, below: Path, error: int, count: int, firsts: list[int]) -> list[int]:
    """Run lives in a process on that disk; return how many operations each had."""
    below.mkdir()
    words = [str(faulty.path), str(below), *map(str, (error, count, *firsts))]
    ended = subprocess.run(
        [sys.executable, "-m", "support.storage.refused_in_process", *words],
        env={**os.environ, **faulty.environment(below)},
        capture_output=True,
        text=True,
        check=False,
        timeout=7000 if LONG else 290,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    return [int(line) for line in ended.stdout.splitlines()]


@pytest.mark.timeout(7200 if LONG else 300)
@pytest.mark.parametrize(("error", "count", "step"), IN_PROCESS)
def test_a_database_in_process_loses_nothing_that_it_acknowledged(
    faulty: FaultyDisk, tmp_path: Path, error: int, count: int, step: int
) -> None:
    (operations,) = live_in_process(faulty, tmp_path / "whole", error, count, [0])
    assert operations > 100
    firsts = list(range(2, operations, 1 if LONG else step))
    live_in_process(faulty, tmp_path / "refused", error, count, firsts)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    with small_file_system(tmp_path / "small") as path:
        yield path


def test_a_database_in_process_on_a_full_disk(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(bytes(1 << 20))
    program = Program(ENOSPC)
    with headrace.open(small_disk / "data") as database:
        for _ in range(2000):
            if not program.attempt(database.execute, *ADD, "x" * 20_000):
                break
        assert len(program.acknowledged) > 10
        assert "No space left on device" in program.refusals[0]
        assert len(database.stream("s")) >= len(program.acknowledged)
        filler.unlink()
        deadline = time.monotonic() + PATIENCE_S
        while not program.attempt(database.execute, *ADD):
            assert time.monotonic() < deadline, program.refusals[-1]
            time.sleep(0.02)
    with headrace.open(small_disk / "data") as database:
        program.assert_kept(database.execute)


# --- a server --------------------------------------------------------------------------------------------------------


@contextmanager
def served(faulty: FaultyDisk, data: Path, program: Program) -> Iterator[ServerProcess]:
    """Serve on that disk, as soon as it lets a server start; each that it does not says why."""
    for _ in range(MOST_STARTS):
        server = faulty.start(data.parent, str(data / "redis.conf"), "--dir", str(data), below=data)
        try:
            server.await_log(READY)
        except AssertionError:
            assert server.process.wait(PATIENCE_S) == 1, server.log
            program.note_refusal(server.log)
            continue
        with server:
            yield server
        return
    raise AssertionError(program.refusals[-1])


def executing(server: ServerProcess) -> Execute:
    """Run each command on a connection of its own: one whose reply the disk refused is closed."""

    def execute(*words: str) -> object:
        with redis.Redis(port=server.port, protocol=2, retry=None, socket_timeout=PATIENCE_S) as client:
            return client.execute_command(*words)

    return execute


def live_on_a_server(faulty: FaultyDisk, data: Path, error: int, count: int, first: int) -> int:
    """Live once; return how many operations there were."""
    data.mkdir(parents=True)
    (data / "users.acl").write_text("user default on nopass ~* &* +@all\n")
    (data / "redis.conf").write_text(f'aclfile {data}/users.acl\nsave ""\n')
    program = Program(error)
    faulty.refuse(first, count, error)
    with served(faulty, data, program) as server:
        execute = executing(server)
        program.run(execute, (*STEPS, *OF_A_SERVER))
        operations = faulty.get("operations")
        if count > 1:
            faulty.accept()
        program.await_service(execute)
        execute("CONFIG", "REWRITE")  # where `appendonly yes` was refused, the file said no until now
        if first % 2:
            assert server.stop(signal.SIGTERM) == 0, server.log
        else:
            server.process.kill()
            server.process.wait(PATIENCE_S)
        assert "please report this" not in server.log
        assert "Traceback" not in server.log
    faulty.accept()
    with served(faulty, data, program) as server:
        execute = executing(server)
        program.assert_kept(execute)
        if not any(text.startswith("ACL") for text in program.refusals):
            assert execute("ACL", "GETUSER", "reader") is not None
    return operations


@pytest.mark.timeout(7200 if LONG else 300)
@pytest.mark.parametrize(("error", "count", "step"), ON_A_SERVER)
def test_a_server_loses_nothing_that_it_acknowledged(
    faulty: FaultyDisk, tmp_path: Path, error: int, count: int, step: int
) -> None:
    operations = live_on_a_server(faulty, tmp_path / "whole" / "data", error, count, 0)
    assert operations > 100
    for first in range(2, operations, 1 if LONG else step):
        try:
            live_on_a_server(faulty, tmp_path / str(first) / "data", error, count, first)
        except BaseException as failure:
            failure.add_note(f"operation {first} and {count - 1} more were refused")
            raise
