"""A server that is measured: one that runs somewhere, or one that is started for the measurement and stopped after it.

    Target.at_url("redis://…")            any server; its keys headrace:bench:… are deleted at the end
    private_headrace(), private_redis()   a port and a directory of its own on this machine, gone afterwards

The process of a private server is known, and so are its costs: processor time, resident memory.
"""

from __future__ import annotations

import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.retry import Retry

from headrace.measuring.errors import NoSuchTarget

HEADRACE: Final = "Headrace"
REDIS: Final = "redis-server"

IN_MEMORY: Final = ("--save", "", "--appendonly", "no")
STARTING_SECONDS: Final = 120
FEED: Final = 1000  # commands sent at a time


def packed(*words: bytes) -> bytes:
    """Write a command as it goes over the wire."""
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


class Target:
    """A running server: how to reach it, what it weighs, and a way to fill it."""

    def __init__(self, name: str, address: dict[str, Any], pid: int | None = None):
        self.name = name
        self.pid = pid
        self.prefix = f"headrace:bench:{secrets.token_hex(4)}:".encode()
        self._address = address
        # Without retries, which wait longer each time: a server that starts is asked until it answers.
        self.client: redis.Redis = redis.Redis(**address, protocol=2, retry=Retry(NoBackoff(), 0))

    @classmethod
    def at_url(cls, url: str, name: str = "") -> Target:
        """Make a target of a server that runs already; raise NoSuchTarget where it does not answer."""
        if url.startswith("rediss:"):
            raise NoSuchTarget("rediss:// asks for TLS, which would be measured too: give a redis:// or unix:// URL.")
        try:
            parsed = parse_url(url)  # type: ignore[no-untyped-call]
        except ValueError as error:
            raise NoSuchTarget(f"{url!r} is no URL of a server: {error}") from None
        known = ("host", "port", "path", "db", "username", "password")
        address = {option: parsed[option] for option in known if option in parsed}
        if "path" in address:
            address["unix_socket_path"] = address.pop("path")
        shown = address.get("unix_socket_path") or f"{address.get('host', '127.0.0.1')}:{address.get('port', 6379)}"
        target = cls(name or shown, address)
        try:
            target.client.ping()
        except redis.RedisError as error:
            raise NoSuchTarget(f"Nothing that can be measured answers at {shown}: {error}") from None
        return target

    def key(self, name: str) -> bytes:
        """Name a key that is this measurement's own."""
        return self.prefix + name.encode()

    def connect(self) -> socket.socket:
        """Open a connection for the load generator: authenticated, and with TCP_NODELAY."""
        options = self._address
        if "unix_socket_path" in options:
            line = socket.socket(socket.AF_UNIX)
            line.connect(options["unix_socket_path"])
        else:
            line = socket.create_connection((options.get("host", "127.0.0.1"), options.get("port", 6379)))
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if options.get("password"):
            user = [options["username"].encode()] if options.get("username") else []
            self._greet(line, b"AUTH", *user, options["password"].encode())
        if options.get("db"):
            self._greet(line, b"SELECT", b"%d" % options["db"])
        return line

    def _greet(self, line: socket.socket, *words: bytes) -> None:
        line.sendall(packed(*words))
        if not line.recv(1024).startswith(b"+OK"):
            raise NoSuchTarget(f"{self.name} does not take the user, the password or the database of its URL.")

    def execute(self, *words: str | bytes) -> Any:
        """Execute a command and return its reply."""
        return self.client.execute_command(*words)  # type: ignore[no-untyped-call]

    def feed(self, commands: Iterable[bytes]) -> None:
        """Execute packed commands without waiting for each reply; when this returns, all of them were executed."""
        remaining = iter(commands)
        with self.connect() as line:
            line.sendall(packed(b"CLIENT", b"REPLY", b"OFF"))
            while batch := b"".join(islice(remaining, FEED)):
                line.sendall(batch)
            line.sendall(packed(b"CLIENT", b"REPLY", b"ON"))
            if line.recv(16) != b"+OK\r\n":
                raise NoSuchTarget(f"{self.name} did not confirm the end of what it was fed.")

    def version(self) -> str:
        """Return the name and the version that the server gives."""
        info = self.client.info("server")
        ours = info.get("headrace_version")
        return f"Headrace {ours}" if ours else f"{info.get('server_name', 'redis')} {info['redis_version']}"

    def used_memory(self) -> int:
        """Heap bytes by the server's own count."""
        return int(self.client.info("memory")["used_memory"])

    def resident(self) -> int:
        """Memory that the process of a private server really occupies."""
        rollup = Path(f"/proc/{self.pid}/smaps_rollup").read_text("ascii")
        found = re.search(r"^Rss:\s+(\d+)", rollup, re.MULTILINE)
        return 1024 * int(found[1]) if found else 0

    def processor_seconds(self) -> float:
        """Processor time of all threads of a private server, user and system; 0 where the process is not known."""
        if self.pid is None:
            return 0.0
        threads = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text("ascii").split()[0]) for thread in threads) / 1e9

    def clean(self) -> None:
        """Delete every key of this measurement."""
        for key in self.client.scan_iter(match=self.prefix + b"*", count=1000):
            self.client.unlink(key)

    def close(self) -> None:
        """Leave the server as it was found."""
        try:
            self.clean()
        except redis.RedisError:
            pass  # it is gone, and its keys with it
        finally:
            self.client.close()


# --- private servers -----------------------------------------------------------------------------------------------


def headrace_command() -> list[str]:
    """The command that starts this Headrace."""
    return [sys.executable, "-m", "headrace.cli.main", "serve"]


def redis_command() -> list[str] | None:
    """The command that starts this machine's redis-server, or None where there is none."""
    binary = shutil.which("redis-server")
    return [binary, "--bind", "127.0.0.1"] if binary else None


def redis_version() -> str | None:
    """Return the version of this machine's redis-server, or None where there is none."""
    binary = shutil.which("redis-server")
    if binary is None:
        return None
    answer = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: S603
    return answer.split("v=")[1].split()[0]


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(name: str, command: list[str], settings: tuple[str, ...], directory: str) -> Iterator[Target]:
    """Start a server that takes redis-server's flags on a port of its own; stop it at the end."""
    port = free_port()
    process = subprocess.Popen(  # noqa: S603 — a command of ours
        [*command, "--port", str(port), "--dir", directory, *settings], stdout=subprocess.DEVNULL
    )
    target = Target(name, {"host": "127.0.0.1", "port": port}, process.pid)
    try:
        await_answer(process, target)
        yield target
    finally:
        target.client.close()
        process.send_signal(signal.SIGTERM)
        process.wait(STARTING_SECONDS)


def await_answer(process: subprocess.Popen[bytes], target: Target) -> None:
    """Return as soon as a server that was started serves commands."""
    deadline = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            target.client.ping()
        except redis.ConnectionError:  # and BusyLoadingError, which is one
            time.sleep(0.002)
        else:
            return
    raise NoSuchTarget(f"{target.name}, started as {process.args!r}, does not answer.")


@contextmanager
def private_headrace(settings: tuple[str, ...] = IN_MEMORY) -> Iterator[Target]:
    """Run this Headrace with a directory that goes when it ends."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory,
        running(HEADRACE, headrace_command(), settings, directory) as target,
    ):
        yield target


@contextmanager
def private_redis(settings: tuple[str, ...] = IN_MEMORY) -> Iterator[Target]:
    """Run this machine's redis-server with a directory that goes when it ends."""
    command = redis_command()
    if command is None:
        raise NoSuchTarget("There is no redis-server here to compare with; apt-get install redis-server brings one.")
    with (
        tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory,
        running(REDIS, command, settings, directory) as target,
    ):
        yield target
