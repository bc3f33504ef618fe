"""One Headrace server for the frameworks, durable as it is by default, and empty at the beginning of each test."""

from collections.abc import Iterator

import pytest
import redis

from support.server_process import ServerProcess


@pytest.fixture(scope="package")
def server_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("frameworks")) as server:
        yield server


@pytest.fixture
def server(server_process: ServerProcess) -> Iterator[ServerProcess]:
    with server_process.client() as client:
        client.flushall()
    yield server_process
    assert "please report this" not in server_process.log


@pytest.fixture
def client(server: ServerProcess) -> Iterator[redis.Redis]:
    with server.client() as client:
        yield client
