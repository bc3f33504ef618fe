"""A producer on FastStream, which publishes a job again when it got no answer.

    python faststream_producer.py name

On SIGTERM it ends. The ledger `added` has the jobs that were acknowledged.
"""

import asyncio
import os
import random
import signal
import sys

from faststream.redis import RedisBroker
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import TimeoutError as NoAnswer

name = sys.argv[1]


async def main() -> None:
    """Publish until it is told to end."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with RedisBroker(f"redis://127.0.0.1:{os.environ['STORY_PORT']}") as broker:
        number = 0
        while not stopping.is_set():
            for _ in range(random.randint(1, 20)):
                while True:
                    try:
                        await broker.publish(f"{name}:{number}", stream="jobs")
                        break
                    except (NoConnection, NoAnswer):
                        await asyncio.sleep(0.05)
                with open("added", "a") as ledger:
                    ledger.write(f"{name}:{number}\n")
                number += 1
            await asyncio.sleep(random.choice([0, 0.01, 0.5]))


asyncio.run(main())
