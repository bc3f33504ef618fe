"""A database of each kind: in this process in memory and on disk, on a Headrace server, and on a redis-server."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

import headrace

KINDS = ("in memory", "on disk", "a server", "redis-server")


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
    server: redis.Redis = request.getfixturevalue("headrace_server" if kind == "a server" else "redis_server")
    port = server.connection_pool.connection_kwargs["port"]
    return lambda: headrace.connect(f"redis://127.0.0.1:{port}")


@pytest.fixture
def db(reopen: Callable[[], headrace.Database]) -> Iterator[headrace.Database]:
    with reopen() as db:
        yield db


@pytest.fixture
def keeps_rules(kind: str) -> bool:
    """Whether it is a Headrace, and not only something that speaks its protocol."""
    return kind != "redis-server"
