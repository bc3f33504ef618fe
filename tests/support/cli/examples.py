"""The examples that the help of every command shows, and how each is run: as a shell would, against a live server."""

import gzip
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
import typer.main

from headrace.cli.app import app
from headrace.engine.rules.dead_letters import Origin
from support.cli.process import headrace, output, url_of

FIRST_ID = "1526919030474-55"
LATE_ID = "1900000000000-0"  # behind everything that a clock of today makes

# What ends a command that a person would end.
_ENDING = {
    "top": ["--once"],
    "tail": ["--no-follow"],
    "group reset": ["--yes"],
    "dead drop": ["--yes"],
    "bench": ["--seconds", "0.01", "--rounds", "1", "--messages", "1000", "--clients", "3"],
}


@dataclass(frozen=True)
class Example:
    """One line of a help: a command, and what is before and behind it in a pipe."""

    command: str
    line: str

    def __str__(self) -> str:
        return self.line

    def words(self, client: redis.Redis) -> list[str]:
        """Return the arguments of `headrace`; every address of a server is replaced by that of the test's server."""
        words = shlex.split(re.sub(r"redis://\S+", url_of(client), self._parts()[1]))[1:]
        ending = next((more for name, more in _ENDING.items() if " ".join(words).startswith(name)), [])
        return [*words, *ending]

    def run(self, client: redis.Redis, directory: Path) -> subprocess.CompletedProcess[bytes]:
        before, _, behind = self._parts()
        given = _piped(before, directory, b"") if before else b""
        done = headrace(*self.words(client), server=client, stdin=given, cwd=directory)
        if behind and done.returncode == 0 and shutil.which(shlex.split(behind)[0]):
            done.stdout = _piped(behind, directory, done.stdout)
        return done

    def _parts(self) -> tuple[str, str, str]:
        parts = self.line.partition(" > ")[0].split(" | ")
        place = next(place for place, part in enumerate(parts) if part.startswith("headrace "))
        return " | ".join(parts[:place]), parts[place], " | ".join(parts[place + 1 :])


def examples_of(*commands: str) -> list[Example]:
    """Find the examples of commands in their help; a backslash at the end of a line goes on with the next."""
    found = []
    for command in commands:
        node: Any = typer.main.get_command(app)
        for name in command.split():
            node = node.commands[name]
        text = (node.help or "").partition("For example:")[2].replace("\\\n", " ")
        found += [Example(command, line.strip()) for line in text.splitlines() if "headrace " in line]
    return found


def all_commands() -> list[str]:
    """Name every command that has a help of its own."""
    names = []
    for name, node in typer.main.get_command(app).commands.items():  # type: ignore[attr-defined]
        names += [name, *(f"{name} {inner}" for inner in getattr(node, "commands", {}))]
    return names


def fill(client: redis.Redis, directory: Path) -> None:
    """Make the streams and the files that the examples name."""
    client.xadd("devmsg", {"dev": "dev-11", "temp": 31}, id=FIRST_ID)
    for number in range(20):
        client.xadd("devmsg", {"dev": f"dev-{number}", "temp": 20 + number})
        client.xadd("alarms", {"dev": f"dev-{number}", "temp": 30 + number})
    client.xadd("backup", {"dev": "dev-1", "temp": 22}, id=LATE_ID)
    letter = Origin(b"orders", b"1-1", b"billing", b"ann", 5, 1, 2, b"deliveries").fields()
    client.xadd("orders:dead", dict(zip([b"customer", *letter[::2]], [b"17", *letter[1::2]], strict=True)), id=FIRST_ID)
    client.save()
    shutil.copy(Path(client.config_get("dir")["dir"]) / "dump.rdb", directory / "dump.rdb")
    output("export", "backup", "backup.parquet", server=client, cwd=directory)
    (directory / "readings.jsonl").write_text('{"dev": "dev-3", "temp": 26}\n{"dev": "dev-5", "temp": 28}\n')
    (directory / "readings.csv.gz").write_bytes(gzip.compress(b"dev,temp\ndev-3,26\n"))


def _piped(command: str, directory: Path, given: bytes) -> bytes:
    return subprocess.run(shlex.split(command), cwd=directory, input=given, capture_output=True, check=True).stdout
