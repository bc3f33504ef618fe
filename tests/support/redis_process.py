"""A redis-server of a test's own."""

import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
import redis

from support.patience import PATIENCE_S
from support.ports import free_port
from support.raw_client import RawClient
from support.starting import wait_for

REDIS_SERVER = shutil.which("redis-server")


class RedisProcess:
    """`redis-server` on a free port, without persistence; it answers when entered."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        if REDIS_SERVER is None:
            pytest.skip("there is no redis-server to compare with: apt-get install redis-server brings one")
        self.port = free_port()
        directory.mkdir(parents=True, exist_ok=True)
        self.process = subprocess.Popen(
            [
                *(REDIS_SERVER, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(directory), "--save", ""),
                *("--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes", *arguments),
            ],
            stdout=subprocess.DEVNULL,
        )

    def __enter__(self) -> Self:
        with self.client() as client:
            wait_for(self.process, client)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def client(self) -> redis.Redis:
        return redis.Redis(port=self.port, protocol=2, decode_responses=True)

    def raw(self) -> RawClient:
        return RawClient(self.port)
