"""A private redis-server to compare with: its own port, directory and life; no persistence, unless asked for.

Commands are sent without waiting for replies (CLIENT REPLY OFF), so that filling it with a million entries takes
seconds; the caller checks afterwards that everything arrived.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice

import redis

from bench.harness import resident_bytes

BATCH = 1000


def redis_version() -> str | None:
    """Tell the version of this machine's redis-server, or None where there is none."""
    binary = shutil.which("redis-server")
    if binary is None:
        return None
    answer = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    return answer.split("v=")[1].split()[0]


def packed(*words: bytes) -> bytes:
    """Write a command as it goes over the wire."""
    return b"*%d\r\n" % len(words) + b"".join([b"$%d\r\n%b\r\n" % (len(word), word) for word in words])


class RedisReference:
    """A running server: what it weighs, and a way to fill it."""

    def __init__(self, client: redis.Redis, port: int, pid: int):
        self.client = client
        self.port = port
        self.pid = pid

    def feed(self, commands: Iterable[bytes]) -> None:
        """Execute packed commands; the connection that brought them and its buffers are gone when this returns."""
        remaining = iter(commands)
        with socket.create_connection(("127.0.0.1", self.port)) as line:
            line.sendall(packed(b"CLIENT", b"REPLY", b"OFF"))
            while batch := b"".join(islice(remaining, BATCH)):
                line.sendall(batch)
            line.sendall(packed(b"CLIENT", b"REPLY", b"ON"))
            if line.recv(16) != b"+OK\r\n":
                raise RuntimeError("redis-server did not confirm the end of a feed")
        while len(self.client.client_list()) > 1:
            time.sleep(0.01)

    def used_memory(self) -> int:
        """Heap bytes by the server's own count, without what its allocator wastes."""
        return int(self.client.info("memory")["used_memory"])

    def resident(self) -> int:
        """Memory that the server really occupies."""
        return resident_bytes(self.pid)

    def key_memory(self, key: bytes) -> int:
        """MEMORY USAGE of a key, every element looked at."""
        return int(self.client.memory_usage(key, samples=0) or 0)


IN_MEMORY = ("--save", "", "--appendonly", "no")


@contextmanager
def running(*command: str, settings: tuple[str, ...] = IN_MEMORY) -> Iterator[RedisReference]:
    """Start a server that takes redis-server's flags, on a port and in a directory of its own; stop it at the end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as directory:
        process = subprocess.Popen(
            [*command, "--port", str(port), "--dir", directory, *settings],
            stdout=subprocess.DEVNULL,
        )
        client = redis.Redis(port=port)
        try:
            for _ in range(200):
                try:
                    client.ping()
                    break
                except redis.ConnectionError:
                    time.sleep(0.05)
            yield RedisReference(client, port, process.pid)
        finally:
            client.close()
            process.terminate()
            process.wait(10)


def redis_reference(settings: tuple[str, ...] = IN_MEMORY) -> AbstractContextManager[RedisReference]:
    """Start this machine's redis-server, and stop it at the end."""
    return running("redis-server", "--bind", "127.0.0.1", settings=settings)
