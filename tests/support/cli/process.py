"""`headrace` as a person or a script runs it: a process of its own, with a server to talk to."""

import atexit
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import redis

from support.patience import PATIENCE_S

COMMAND = (sys.executable, "-m", "headrace.cli.main")


def url_of(client: redis.Redis) -> str:
    return f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}"


def environment(client: redis.Redis | None, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a command: it names the server, and nothing of the terminal in which the tests run."""
    kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    named = {} if client is None else {"HEADRACE_URL": url_of(client)}
    return {**kept, "TERM": "xterm-256color", "TZ": "UTC", **named, **(more or {})}


@cache
def _forks() -> str:
    """Start the process that forks, once; it ends with this one."""
    directory = tempfile.mkdtemp(prefix="headrace-cli-")
    path = f"{directory}/forks"
    process = subprocess.Popen([sys.executable, str(Path(__file__).with_name("forks.py")), path])
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    atexit.register(process.kill)
    deadline = time.monotonic() + PATIENCE_S
    while not Path(path).exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.02)
    return path


def headrace(
    *arguments: str | Path,
    server: redis.Redis | None = None,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, in a process of its own: see cli_forks."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        files = [file.fileno() for file in (given, out, errors)]
        code = run_with_files([str(argument) for argument in arguments], files, environment(server, env), cwd)
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(list(arguments), code, out.read(), errors.read())


def run_with_files(
    arguments: list[str],
    files: list[int],
    surroundings: dict[str, str],
    cwd: Path | None,
    *,
    closed: tuple[int, ...] = (),
    to_the_end: bool = False,
) -> int:
    """Run a command with these three files for its standard streams, some of them closed; return its exit code."""
    request = {
        "arguments": arguments,
        "environment": surroundings,
        "directory": str(cwd or Path.cwd()),
        "closed": closed,
        "to_the_end": to_the_end,
    }
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(_forks())
        socket.send_fds(connection, [json.dumps(request).encode()], files)
        return int(connection.recv(16))


def output(*arguments: str | Path, server: redis.Redis | None = None, stdin: bytes = b"", **more: Any) -> str:
    """What a command that succeeds prints."""
    done = headrace(*arguments, server=server, stdin=stdin, **more)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def told(*arguments: str | Path, server: redis.Redis | None = None, stdin: bytes = b"") -> Any:
    """What a command that succeeds says as JSON."""
    return json.loads(output(*arguments, "--json", server=server, stdin=stdin))


def refusal(*arguments: str | Path, server: redis.Redis | None = None, stdin: bytes = b"", **more: Any) -> str:
    """The one sentence of a command that fails, without a traceback."""
    done = headrace(*arguments, server=server, stdin=stdin, **more)
    text = done.stderr.decode()
    assert done.returncode == 1, (done.returncode, done.stdout, text)
    assert "Traceback" not in text
    assert text.startswith("headrace: "), text
    assert text.count("\n") == 1, text
    return text.removeprefix("headrace: ").rstrip("\n")
