"""FastStream on Headrace: groups, claims after a worker's death, publishing, and questions with answers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import redis
from faststream.redis import RedisBroker

from support.server_process import ServerProcess
from support.worker_process import WorkerProcess, await_members, await_that

JOBS = 30


@pytest.fixture
def streams(client: redis.Redis) -> redis.Redis:
    """Groups that are there before their workers, so that no message is too early."""
    for name in ("jobs", "later jobs", "ruled jobs", "stream of questions"):
        client.xgroup_create(name, "workers", "0", mkstream=True)
    rule = "VISIBILITY 300ms MAXDELIVERIES 100"
    client.execute_command(*["HEADRACE", "POLICY", "SET", "MATCH", "ruled*", "GROUP", "workers"], *rule.split())
    return client


def start(server: ServerProcess, tmp_path: Path, name: str, *, hold: bool = False) -> WorkerProcess:
    return WorkerProcess(tmp_path / f"{name}.log", server.port, "faststream_app.py", name=name, hold=hold)


def publish(server: ServerProcess, stream: str, numbers: range) -> None:
    async def run() -> None:
        async with RedisBroker(f"redis://127.0.0.1:{server.port}") as broker:
            for number in numbers:
                await broker.publish(number, stream=stream)

    asyncio.run(run())


@pytest.mark.parametrize("stream", ["jobs", "later jobs", "ruled jobs"])
def test_jobs_of_a_worker_that_was_killed_are_done_by_another(
    server: ServerProcess, streams: redis.Redis, tmp_path: Path, stream: str
) -> None:
    with start(server, tmp_path, "first", hold=True) as first:
        await_members(streams, "ready", {"first"})
        publish(server, stream, range(JOBS))
        await_that(lambda: streams.scard("started") > 0, "a job has begun")
        first.kill()
    assert streams.xpending(stream, "workers")["pending"] > 0
    with start(server, tmp_path, "second"):
        await_members(streams, "done", {str(number) for number in range(JOBS)})
        publish(server, stream, range(JOBS, JOBS + 5))
        await_members(streams, "done", {str(number) for number in range(JOBS + 5)})
        await_that(lambda: streams.xpending(stream, "workers")["pending"] == 0, "every job is acknowledged")
    if stream == "jobs":
        with redis.Redis(port=server.port) as raw:
            told = b" ".join(entry[b"__data__"] for _, entry in raw.xrange("results"))
        for number in range(JOBS + 5):
            assert b"%d squared is %d" % (number, number * number) in told


def test_two_workers_of_a_group_share_the_jobs(server: ServerProcess, streams: redis.Redis, tmp_path: Path) -> None:
    with start(server, tmp_path, "left"), start(server, tmp_path, "right"):
        await_members(streams, "ready", {"left", "right"})
        publish(server, "jobs", range(100))
        await_members(streams, "done", {str(number) for number in range(100)})
        await_that(lambda: streams.xpending("jobs", "workers")["pending"] == 0, "every job is acknowledged")
        # A worker that took many jobs at once may be thought dead before the last: jobs are done once or twice.
        assert streams.xlen("results") >= 100


def test_questions_are_answered(server: ServerProcess, streams: redis.Redis, tmp_path: Path) -> None:
    async def ask() -> list[Any]:
        async with RedisBroker(f"redis://127.0.0.1:{server.port}") as broker:
            replies = [
                await broker.request(1, "questions", timeout=20),
                await broker.request(1, stream="stream of questions", timeout=20),
                await broker.request(1, list="list of questions", timeout=20),
            ]
            return [await reply.decode() for reply in replies]

    with start(server, tmp_path, "sage"):
        await_members(streams, "ready", {"sage"})
        assert asyncio.run(ask()) == [2, 3, 4]
