"""A worker on FastStream: jobs of a group, and those that others left too long.

    python faststream_worker.py name

The ledger `done` has the jobs that were done, the ledger `ready` the workers that have begun.
"""

import asyncio
import os
import sys

from faststream import FastStream
from faststream.redis import RedisBroker, StreamSub

name = sys.argv[1]
broker = RedisBroker(f"redis://127.0.0.1:{os.environ['STORY_PORT']}")
app = FastStream(broker)


@broker.subscriber(stream=StreamSub("jobs", group="workers", consumer=name, polling_interval=100))
@broker.subscriber(
    stream=StreamSub("jobs", group="workers", consumer=f"{name}-heir", min_idle_time=1000, polling_interval=100)
)
async def work(job: str) -> None:
    """Do a job."""
    with open("done", "a") as ledger:
        ledger.write(f"{job}\n")


@app.after_startup
async def begin() -> None:
    """Say that it works."""
    with open("ready", "a") as ledger:
        ledger.write(f"{name}\n")


if __name__ == "__main__":
    asyncio.run(app.run())
