"""The guide shows what really happens: its commands are run, in their order, and print what it says."""

import re
import shlex
import signal
from pathlib import Path

import redis

from support.cli.process import headrace
from support.server_process import ServerProcess

GUIDE = Path(__file__).parents[2] / "docs" / "command-line.md"
STOPPED = "convert data "  # no server may work in a directory that is converted


def examples() -> list[tuple[str, str]]:
    """Each command with what it is said to print."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        for example in re.split(r"^\$ headrace ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = example.partition("\n")
            found.append((command, printed))
    return found


def as_pattern(printed: str) -> str:
    """An … stands for anything."""
    lines = [line.rstrip() for line in printed.splitlines()]
    return ".*?".join(map(re.escape, "\n".join(lines).split("…")))


def test_every_command_of_the_guide_prints_what_it_shows(tmp_path: Path) -> None:
    (readings,) = re.findall(r"```csv\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (tmp_path / "readings.csv").write_text(readings)
    (tmp_path / "data").mkdir()
    with ServerProcess(tmp_path / "data") as server:
        client = redis.Redis(port=server.port)
        for command, printed in examples():
            if command.startswith(STOPPED):
                assert server.stop(signal.SIGTERM) == 0
            done = headrace(*shlex.split(command), server=client, cwd=tmp_path)
            lines = [line.rstrip() for line in (done.stderr + done.stdout).decode().splitlines()]
            assert re.fullmatch(as_pattern(printed), "\n".join(lines), re.DOTALL), "\n".join([command, *lines])
    assert len(examples()) >= 15
