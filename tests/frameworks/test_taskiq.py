"""taskiq on Headrace: the stream broker with its autoclaim under a lock, results, and schedules."""

import asyncio
import importlib
from datetime import UTC, datetime, timedelta
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
    return importlib.reload(importlib.import_module("support.apps.taskiq_app"))


def start(server: ServerProcess, tmp_path: Path, name: str, *, hold: bool = False) -> WorkerProcess:
    words = ("-m", "taskiq", "worker", "--workers", "1", "support.apps.taskiq_app:broker")
    return WorkerProcess(tmp_path / f"{name}.log", server.port, *words, name=name, hold=hold)


@pytest.mark.parametrize("ruled", [False, True])
def test_tasks_of_a_worker_that_was_killed_are_done_by_another(
    server: ServerProcess, client: redis.Redis, app: ModuleType, tmp_path: Path, ruled: bool
) -> None:
    async def send(first: int, last: int) -> None:
        await app.broker.startup()
        for number in range(first, last):
            await app.work.kiq(number)
        await app.broker.shutdown()

    if ruled:
        rule = "VISIBILITY 300ms MAXDELIVERIES 100"
        client.execute_command(*["HEADRACE", "POLICY", "SET", "taskiq", "GROUP", "taskiq"], *rule.split())
    with start(server, tmp_path, "first", hold=True) as first:
        await_members(client, "ready", {"first"})
        asyncio.run(send(0, JOBS))
        await_that(lambda: client.scard("started") > 0, "a task has begun")
        first.kill()
    assert client.xpending("taskiq", "taskiq")["pending"] > 0
    with start(server, tmp_path, "second"):
        await_members(client, "ready", {"second"})
        sent = JOBS
        if ruled:
            await_members(client, "done", {str(number) for number in range(JOBS)})
        # Without a rule, taskiq looks for what was left behind only after it has read something new.
        while not {str(number) for number in range(sent)} <= client.smembers("done"):
            asyncio.run(send(sent, sent + 1))
            sent += 1
            assert sent < JOBS + 200
            await_members(client, "done", {str(sent - 1)})
        await_that(lambda: client.xpending("taskiq", "taskiq")["pending"] == 0, "every task is acknowledged")
    assert client.get("autoclaim:taskiq:taskiq") is None


def test_results_come_back(server: ServerProcess, client: redis.Redis, app: ModuleType, tmp_path: Path) -> None:
    async def ask() -> tuple[list[int], object]:
        await app.broker.startup()
        try:
            tasks = [await app.work.kiq(number) for number in range(10)]
            results = [await task.wait_result(timeout=30) for task in tasks]
            failed = await (await app.fail.kiq()).wait_result(timeout=30)
            return [result.return_value for result in results], failed.error
        finally:
            await app.broker.shutdown()

    with start(server, tmp_path, "worker"):
        squares, error = asyncio.run(ask())
    assert squares == [number * number for number in range(10)]
    assert "no luck" in str(error)
    assert 0 < client.ttl(next(client.scan_iter("*", _type="string"))) <= 600


def test_a_schedule_is_kept(server: ServerProcess, client: redis.Redis, app: ModuleType, tmp_path: Path) -> None:
    async def plan() -> None:
        await app.schedule.startup()
        now = datetime.now(UTC)
        for number in range(3):
            await app.work.schedule_by_time(app.schedule, now + timedelta(seconds=1), number)
        await app.work.schedule_by_time(app.schedule, now + timedelta(hours=1), 99)
        await app.schedule.shutdown()

    words = ("-m", "taskiq", "scheduler", "--update-interval", "1", "support.apps.taskiq_app:scheduler")
    with start(server, tmp_path, "worker"):
        await_members(client, "ready", {"worker"})
        asyncio.run(plan())
        with WorkerProcess(tmp_path / "scheduler.log", server.port, *words):
            await_members(client, "done", {"0", "1", "2"})
    assert "99" not in client.smembers("done")
