"""streaQ on Headrace: tasks over streams and a Lua library, with coredis for a client; the same on redis-server."""

import asyncio
from collections import Counter
from datetime import timedelta

import anyio
import redis
from streaq import StreaqRetry, TaskStatus, Worker

from support.patience import PATIENCE_S
from support.server_process import ServerProcess

JOBS = 10  # streaQ takes a tenth of a second for each result
MANY_JOBS = 200
PATIENCE = timedelta(seconds=PATIENCE_S)


async def run_service(port: int) -> None:
    """Enqueue every kind of task while a worker runs, and look at what became of each."""
    worker: Worker[None] = Worker(
        redis_url=f"redis://127.0.0.1:{port}", queue_name="mail", priorities=["low", "high"], concurrency=4
    )
    done: Counter[int] = Counter()
    ticks = anyio.Event()

    @worker.task
    async def double(number: int) -> int:
        done[number] += 1
        return 2 * number

    @worker.task
    async def retried(times: int) -> int:
        if retried.context.tries < times:
            raise StreaqRetry("not yet", delay=timedelta(milliseconds=50))
        return retried.context.tries

    @worker.task
    async def failing() -> None:
        raise ValueError("broken")

    @worker.task(timeout=timedelta(milliseconds=200))
    async def endless() -> None:
        await anyio.sleep_forever()

    @worker.task
    def threaded(number: int) -> int:
        return number + 1

    @worker.cron("* * * * * * *")
    async def tick() -> None:
        ticks.set()

    async with anyio.create_task_group() as group:
        await group.start(worker.run_async)
        tasks = [await double.enqueue(number) for number in range(JOBS)]
        assert [(await task.result(PATIENCE)).result for task in tasks] == [2 * number for number in range(JOBS)]
        assert done == Counter(range(JOBS))

        assert (await (await retried.enqueue(3)).result(PATIENCE)).result == 3
        assert repr((await (await failing.enqueue()).result(PATIENCE)).exception) == "ValueError('broken')"
        assert isinstance((await (await endless.enqueue()).result(PATIENCE)).exception, TimeoutError)
        assert (await (await threaded.enqueue(4)).result(PATIENCE)).result == 5

        delayed = await double.enqueue(100).start(delay=timedelta(milliseconds=500))
        after = await double.enqueue(101).start(after=delayed.id)
        assert await delayed.status() == TaskStatus.SCHEDULED
        assert (await after.result(PATIENCE)).result == 202
        assert await delayed.status() == TaskStatus.DONE
        chained = await double.enqueue(7).then(double)
        assert (await chained.result(PATIENCE)).result == 28
        urgent = await double.enqueue(8).start(priority="high")
        assert (await urgent.result(PATIENCE)).result == 16

        aborted = await double.enqueue(102).start(delay=3600)
        assert await aborted.abort(5)
        assert done[102] == 0
        with anyio.fail_after(PATIENCE_S):
            await ticks.wait()
        group.cancel_scope.cancel()


def test_a_service_works_as_on_redis(server: ServerProcess, redis_server: redis.Redis) -> None:
    for port in (server.port, int(redis_server.connection_pool.connection_kwargs["port"])):
        asyncio.run(run_service(port))


def test_tasks_that_are_enqueued_together_are_done_once_by_two_workers(server: ServerProcess) -> None:
    done: Counter[int] = Counter()

    async def run() -> None:
        workers: list[Worker[None]] = []
        tasks = []
        for _ in range(2):
            worker: Worker[None] = Worker(redis_url=f"redis://127.0.0.1:{server.port}", queue_name="many")
            workers.append(worker)

            @worker.task(name="note")
            async def note(number: int) -> None:
                done[number] += 1

            tasks.append(note)
        async with anyio.create_task_group() as group:
            for worker in workers:
                await group.start(worker.run_async)
            await workers[0].enqueue_many([tasks[0].enqueue(number) for number in range(MANY_JOBS)])
            with anyio.fail_after(PATIENCE_S):
                while done.total() < MANY_JOBS or await workers[0].queue_size():
                    await anyio.sleep(0.02)
            group.cancel_scope.cancel()

    asyncio.run(run())
    assert done == Counter(range(MANY_JOBS))
