"""A FastStream application: jobs of a stream for a group, those of dead workers claimed, results published, questions.

Run as a program, it is a worker.
"""

import asyncio
import os

from faststream import FastStream
from faststream.redis import RedisBroker, StreamSub
from redis.asyncio import Redis

URL = f"redis://127.0.0.1:{os.environ.get('APP_PORT', '6379')}"
NAME = os.environ.get("APP_NAME", "worker")
HOLD = bool(os.environ.get("APP_HOLD"))
QUIET_MS = 300  # a worker that has done nothing for so long is dead

broker = RedisBroker(URL)
app = FastStream(broker)
notes = Redis.from_url(URL)


@broker.subscriber(stream=StreamSub("jobs", group="workers", consumer=NAME, polling_interval=50))
@broker.subscriber(
    stream=StreamSub("jobs", group="workers", consumer=f"{NAME}-heir", min_idle_time=QUIET_MS, polling_interval=50)
)
@broker.publisher(stream="results")
async def work(number: int) -> str:
    """Do a job."""
    await notes.sadd("started", number)
    if HOLD:
        await asyncio.sleep(3600)
    await notes.sadd("done", number)
    return f"{number} squared is {number * number}"


@broker.subscriber(
    stream=StreamSub("later jobs", group="workers", consumer=NAME, claim_min_idle_time=QUIET_MS, polling_interval=50)
)
async def work_later(number: int) -> None:
    """Do a job, or one that a dead worker has left: one command reads both."""
    await notes.sadd("started", number)
    if HOLD:
        await asyncio.sleep(3600)
    await notes.sadd("done", number)


@broker.subscriber(stream=StreamSub("ruled jobs", group="workers", consumer=NAME, polling_interval=50))
async def work_by_rule(number: int) -> None:
    """Do a job; what dead workers have left is the server's matter."""
    await notes.sadd("started", number)
    if HOLD:
        await asyncio.sleep(3600)
    await notes.sadd("done", number)


@broker.subscriber("questions")
async def answer(number: int) -> int:
    """Answer a question on a channel."""
    return number + 1


@broker.subscriber(stream=StreamSub("stream of questions", group="workers", consumer=NAME, polling_interval=50))
async def answer_from_stream(number: int) -> int:
    """Answer a question on a stream."""
    return number + 2


@broker.subscriber(list="list of questions")
async def answer_from_list(number: int) -> int:
    """Answer a question on a list."""
    return number + 3


@app.after_startup
async def be_ready() -> None:
    """Say that it listens."""
    await notes.sadd("ready", NAME)


if __name__ == "__main__":
    asyncio.run(app.run())
