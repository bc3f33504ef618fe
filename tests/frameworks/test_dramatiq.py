"""dramatiq on Headrace, whose Redis broker is one large script: results, delays, retries, dead letters."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest
import redis

from support.server_process import ServerProcess
from support.worker_process import WorkerProcess, await_members, await_that

JOBS = 30


@pytest.fixture
def app(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The application as its clients see it."""
    monkeypatch.setenv("APP_PORT", str(server.port))
    return importlib.reload(importlib.import_module("support.apps.dramatiq_app"))


def start(server: ServerProcess, tmp_path: Path, name: str, *, hold: bool = False) -> WorkerProcess:
    words = ("-m", "dramatiq", "--processes", "1", "--threads", "2", "support.apps.dramatiq_app")
    return WorkerProcess(tmp_path / f"{name}.log", server.port, *words, name=name, hold=hold)


def test_messages_of_a_worker_that_was_killed_are_done_by_another(
    server: ServerProcess, client: redis.Redis, app: ModuleType, tmp_path: Path
) -> None:
    for number in range(JOBS):
        app.work.send(number)
    with start(server, tmp_path, "first", hold=True) as first:
        await_that(lambda: client.scard("started") > 0, "a message is in work")
        first.kill()
    with start(server, tmp_path, "second"):
        await_members(client, "done", {str(number) for number in range(JOBS)})
        await_that(lambda: client.hlen("dramatiq:default.msgs") == 0, "every message is acknowledged")


def test_results_delays_and_dead_letters(
    server: ServerProcess, client: redis.Redis, app: ModuleType, tmp_path: Path
) -> None:
    messages = [app.work.send(number) for number in range(10)]
    delayed = app.work.send_with_options(args=(100,), delay=500)
    app.fail.send(7)
    with start(server, tmp_path, "worker"):
        assert [message.get_result(block=True, timeout=30_000) for message in messages] == [
            number * number for number in range(10)
        ]
        assert delayed.get_result(block=True, timeout=30_000) == 10_000
        await_that(lambda: client.zcard("dramatiq:default.XQ") == 1, "the letter is dead")
    assert client.lrange("attempts", 0, -1) == ["7", "7", "7"]
    assert '"actor_name":"fail"' in next(iter(client.hvals("dramatiq:default.XQ.msgs")))
