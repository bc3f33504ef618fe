"""A task queue inside one program, with asyncio: tasks add jobs, tasks do them; workers are cancelled and come back.

    python task_queue_asyncio.py directory

On SIGTERM it adds no more, does what is left, and ends. Ledgers as in task_queue_threads.py.
"""

import asyncio
import random
import signal
import sys
import uuid
from contextlib import suppress

import headrace

db = headrace.open(sys.argv[1])
jobs = db.stream("jobs")
workers = jobs.group("workers")
run = uuid.uuid4().hex[:8]


def write(ledger: str, line: str) -> None:
    """Note something."""
    with open(ledger, "a") as file:
        file.write(f"{line}\n")


async def produce(name: str, stopping: asyncio.Event) -> None:
    """Add jobs in bursts, with pauses in which the queue runs empty."""
    number = 0
    while not stopping.is_set():
        burst = [f"{name}:{n}" for n in range(number, number + random.randint(1, 20))]
        number += len(burst)
        if random.random() < 0.5:
            await asyncio.gather(*(jobs.aadd(job=job) for job in burst))
        else:
            await jobs.aadd_many({"job": job} for job in burst)
        for job in burst:
            write("added", job)
        await asyncio.sleep(random.choice([0, 0.01, 0.3]))


async def work(name: str, prefetch: int) -> None:
    """Do jobs."""
    async for message in workers.consumer(name, prefetch=prefetch):
        await asyncio.sleep(random.choice([0, 0.001]))
        write("done", message["job"])


async def work_for_a_while(name: str, prefetch: int, stopping: asyncio.Event) -> None:
    """Do jobs; be cancelled now and then, and begin again under the same name."""
    while True:
        working = asyncio.create_task(work(name, prefetch))
        try:
            while not working.done():
                await asyncio.sleep(random.uniform(0.05, 0.5))
                if not stopping.is_set() and random.random() < 0.3:
                    working.cancel()
                    with suppress(asyncio.CancelledError):
                        await working
            if not working.cancelled():
                await working
        finally:
            working.cancel()


async def main() -> None:
    """Run everything until there is nothing left to do."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    producing = [asyncio.create_task(produce(f"{run}-{n}", stopping)) for n in range(2)]
    working = [asyncio.create_task(work_for_a_while(f"w{n}", 1 + 4 * n, stopping)) for n in range(3)]
    await asyncio.gather(*producing)
    while workers.lag or workers.pending():
        for task in working:
            if task.done():
                task.result()
        await asyncio.sleep(0.05)
    for task in working:
        task.cancel()
    await asyncio.gather(*working, return_exceptions=True)


asyncio.run(main())
db.close()
