"""A server and its console, shared by the tests of a module."""

from collections.abc import Iterator

import pytest

from support.console_process import ConsoleProcess, User, console_of
from support.server_process import ServerProcess


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(
        tmp_path_factory.mktemp("server"), "--appendonly", "no", "--enable-debug-command", "local"
    ) as started:
        yield started


@pytest.fixture(scope="module")
def console(server: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    with console_of(server, tmp_path_factory.mktemp("console")) as started:
        yield started


@pytest.fixture
def user(server: ServerProcess, console: ConsoleProcess) -> User:
    server.client().flushall()
    return User(console)
