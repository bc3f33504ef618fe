"""A taskiq application: tasks through a stream, results beside it, and a schedule. taskiq's own program runs it."""

import asyncio
import os

from redis.asyncio import Redis
from taskiq import TaskiqEvents, TaskiqScheduler, TaskiqState
from taskiq_redis import ListRedisScheduleSource, RedisAsyncResultBackend, RedisStreamBroker

URL = f"redis://127.0.0.1:{os.environ.get('APP_PORT', '6379')}"
HOLD = bool(os.environ.get("APP_HOLD"))

broker = RedisStreamBroker(
    URL, consumer_id="0", xread_block=100, idle_timeout=300, unacknowledged_lock_timeout=5
).with_result_backend(RedisAsyncResultBackend(URL, result_ex_time=600))
schedule = ListRedisScheduleSource(URL, prefix="schedule")
scheduler = TaskiqScheduler(broker, [schedule])
notes = Redis.from_url(URL)


@broker.task
async def work(number: int) -> int:
    """Do a job."""
    await notes.sadd("started", number)
    if HOLD:
        await asyncio.sleep(3600)
    await notes.sadd("done", number)
    return number * number


@broker.task
async def fail() -> None:
    """Do a job badly."""
    raise ValueError("no luck")


@broker.on_event(TaskiqEvents.WORKER_STARTUP)
async def be_ready(_: TaskiqState) -> None:
    """Say that it listens."""
    await notes.sadd("ready", os.environ["APP_NAME"])
