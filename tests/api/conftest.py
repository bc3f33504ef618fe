"""A database of each kind: in this process in memory and on disk, on a Headrace, a redis-server and a Valkey."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

import headrace

SERVERS = {"a server": "headrace_server", "redis-server": "redis_server", "Valkey": "valkey_server"}  # their fixtures
KINDS = ("in memory", "on disk", *SERVERS)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reopen(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], headrace.Database]:
    """What opens the database, or connects to it; the one line in which the kinds differ."""
    if kind == "in memory":
        return lambda: headrace.open(None)
    if kind == "on disk":
        return lambda: headrace.open(tmp_path / "data")
    server: redis.Redis = request.getfixturevalue(SERVERS[kind])
    port = server.connection_pool.connection_kwargs["port"]
    return lambda: headrace.connect(f"redis://127.0.0.1:{port}")


@pytest.fixture
def db(reopen: Callable[[], headrace.Database]) -> Iterator[headrace.Database]:
    with reopen() as db:
        yield db


@pytest.fixture
def keeps_rules(kind: str) -> bool:
    """Whether it is a Headrace, and not only something that speaks its protocol."""
    return kind not in ("redis-server", "Valkey")
