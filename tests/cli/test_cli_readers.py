"""Commands whose output nobody reads: the reader has left, the device is full, or standard output was never open."""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from support.cli.examples import all_commands, fill
from support.cli.process import COMMAND, environment, output, run_with_files
from support.patience import PATIENCE_S
from support.ports import free_port
from support.starting import wait_for

# What each command is given, so that it prints; those of a pipeline need a Spark for anything but their help.
PRINTING = {
    "top": ["--once"],
    "tail": ["devmsg", "--no-follow"],
    "inspect": ["devmsg"],
    "check": ["data"],
    "load": ["loaded", "readings.jsonl"],
    "export": ["devmsg"],
    "convert": ["dump.rdb", "converted.rdb"],
    "bench": ["--list"],
    "migrate": ["--help"],  # what a reader that leaves does to a move: test_cli_migrate
    "demo": ["--help"],  # what it prints between two kills is below
    "serve": ["--help"],  # whose log is below
    "console": ["--help"],
    "group": ["--help"],
    "group list": [],
    "group create": ["devmsg", "made"],
    "group reset": ["devmsg", "workers", "--to", "0", "--yes"],
    "group drop": ["devmsg", "dropped", "--yes"],
    "group claim": ["devmsg", "workers", "--to", "w2"],
    "group pending": ["devmsg", "workers"],
    "policy": ["--help"],
    "policy set": ["devmsg", "--maxlen", "1000000"],
    "policy get": ["devmsg"],
    "policy list": [],
    "policy del": ["devmsg"],
    "dead": ["--help"],
    "dead list": [],
    "dead show": ["orders:dead"],
    "dead redrive": ["orders:dead", "--to", "redriven", "--count", "1"],
    "dead drop": ["orders:dead", "--yes"],
    **{name: ["--help"] for name in ("pipeline", *(f"pipeline {job}" for job in ("load", "archive", "replay")))},
    **{f"pipeline {job}": ["--help"] for job in ("compact", "transform", "watch", "report", "audit")},
}
FORMS = {
    "export csv": ["export", "devmsg", "--format", "csv"],
    "export parquet": ["export", "devmsg", "--format", "parquet"],
    "tail of much": ["tail", "much", "--no-follow", "--from", "0"],
    "tail in JSON": ["tail", "much", "--no-follow", "--from", "0", "--json"],
    "inspect in JSON": ["inspect", "devmsg", "--json"],
    "version": ["--version"],
    "help": ["--help"],
}
NO_SPACE = "headrace: Standard output cannot be written: No space left on device.\n"

LINES = {**{name: [*name.split(), *more] for name, more in PRINTING.items()}, **FORMS}
WORKING = {name: words for name, words in LINES.items() if words[-1] != "--help"}


@pytest.fixture
def directory(headrace_server: redis.Redis, tmp_path: Path) -> Path:
    fill(headrace_server, tmp_path)
    output("convert", "dump.rdb", "data", "--to", "aof", cwd=tmp_path)
    for name in ("workers", "dropped"):
        headrace_server.xgroup_create("devmsg", name, "0")
    headrace_server.xreadgroup("workers", "w1", {"devmsg": ">"}, count=3)
    with headrace_server.pipeline(transaction=False) as pipe:
        for n in range(5000):
            pipe.xadd("much", {"n": n, "text": "x" * 100})
        pipe.execute()
    return tmp_path


def run(
    words: list[str],
    server: redis.Redis,
    directory: Path,
    *,
    out: int | str = os.devnull,
    errors: str | None = None,
    closed: tuple[int, ...] = (),
) -> tuple[int, str]:
    """Run a command whose output goes to a file; return its status, and what it said, unless that is for another."""
    with ExitStack() as open_ones:

        def opened(path: str, mode: str) -> int:
            return open_ones.enter_context(Path(path).open(mode)).fileno()

        said = open_ones.enter_context(tempfile.TemporaryFile())
        files = [
            opened(os.devnull, "rb"),
            out if isinstance(out, int) else opened(out, "wb"),
            opened(errors, "wb") if errors else said.fileno(),
        ]
        code = run_with_files(words, files, environment(server), directory, closed=closed, to_the_end=True)
        said.seek(0)
        return code, said.read().decode()


def run_without_reader(words: list[str], server: redis.Redis, directory: Path) -> tuple[int, str]:
    """Run a command whose standard output is a pipe that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return run(words, server, directory, out=writing)
    finally:
        os.close(writing)


def run_from_shell(words: list[str], redirection: str, server: redis.Redis, directory: Path) -> tuple[int, str]:
    """Run a command by a shell, in an interpreter of its own; return its status and what it said."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND, *words],
        cwd=directory,
        env=environment(server),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.returncode, done.stderr.decode()


def test_no_command_is_left_out() -> None:
    assert set(PRINTING) == set(all_commands())


def test_a_command_ends_quietly_when_its_reader_has_left(headrace_server: redis.Redis, directory: Path) -> None:
    for name, words in LINES.items():
        assert run_without_reader(words, headrace_server, directory) == (141, ""), name


def test_a_command_whose_output_is_closed_does_its_work(headrace_server: redis.Redis, directory: Path) -> None:
    for name, words in WORKING.items():
        assert run(words, headrace_server, directory, closed=(1,)) == (0, ""), name
    assert (directory / "converted.rdb").exists()
    assert headrace_server.xlen("loaded") == 2
    assert run(["tail", "devmsg", "--no-follow"], headrace_server, directory, closed=(0, 1, 2)) == (0, "")


def test_a_full_device_is_told_in_one_sentence(headrace_server: redis.Redis, directory: Path) -> None:
    for name, words in WORKING.items():
        assert run(words, headrace_server, directory, out="/dev/full") == (1, NO_SPACE), name
    full = {"out": "/dev/full", "errors": "/dev/full"}
    assert run(["top", "--once"], headrace_server, directory, **full) == (1, "")  # type: ignore[arg-type]
    assert run(["tail", "nothing", "--no-follow"], headrace_server, directory, errors="/dev/full") == (1, "")


@pytest.mark.parametrize("name", ["tail of much", "export csv", "version"])
def test_an_interpreter_of_its_own_ends_in_the_same_way(
    headrace_server: redis.Redis, directory: Path, name: str
) -> None:
    words = LINES[name]
    assert run_from_shell(words, ">&-", headrace_server, directory) == (0, "")
    assert run_from_shell(words, ">/dev/full", headrace_server, directory) == (1, NO_SPACE)
    leaving = "set -o pipefail; { sleep 0.2; " + shlex.join([*COMMAND, *words]) + "; } | true"
    done = subprocess.run(
        ["bash", "-c", leaving], cwd=directory, env=environment(headrace_server), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_demo_whose_reader_leaves_ends_its_processes(headrace_server: redis.Redis, tmp_path: Path) -> None:
    words = ["demo", "--no-spark", "--messages", "1000", "--seconds", "5", "--directory", "demo"]
    code, told = run_without_reader(words, headrace_server, tmp_path)
    assert (code, told) == (141, "")
    if shutil.which("pgrep"):
        found = subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, check=False)
        assert found.stdout == b""


def test_a_server_serves_on_when_nobody_reads_its_log(tmp_path: Path) -> None:
    port = free_port()
    reading, writing = os.pipe()
    server = subprocess.Popen(
        [*COMMAND, "serve", "--port", str(port), "--appendonly", "no", "--loglevel", "debug"],
        cwd=tmp_path,
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    with redis.Redis(port=port) as client:
        wait_for(server, client)
        for _ in range(3):
            client.connection_pool.disconnect()
            assert client.ping()
        server.send_signal(signal.SIGTERM)
        _, told = server.communicate(timeout=PATIENCE_S)
    assert (server.returncode, told) == (0, b"")
