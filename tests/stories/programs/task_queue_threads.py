"""A task queue inside one program, with threads: some add jobs, in bursts, some do them.

    python task_queue_threads.py directory

On SIGTERM it adds no more, does what is left, and ends. The ledger `added` has the jobs whose `add` has returned, the
ledger `done` those that were done.
"""

import random
import signal
import sys
import threading
import time
import uuid
from contextlib import suppress

import headrace
from headrace.api.errors import DatabaseClosed

stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
db = headrace.open(sys.argv[1])
jobs = db.stream("jobs")
workers = jobs.group("workers")


def write(ledger: str, line: str) -> None:
    """Note something."""
    with open(ledger, "a") as file:
        file.write(f"{line}\n")


def produce(name: str) -> None:
    """Add jobs in bursts, with pauses in which the queue runs empty."""
    number = 0
    while not stopping.is_set():
        for _ in range(random.randint(1, 20)):
            jobs.add(job=f"{name}:{number}")
            write("added", f"{name}:{number}")
            number += 1
        stopping.wait(random.choice([0, 0.01, 0.3]))


def work(name: str, prefetch: int, timeout: float | None) -> None:
    """Do jobs; one job in fifty fails, and is done again."""
    consumer = workers.consumer(name, prefetch=prefetch, timeout=timeout)
    with suppress(DatabaseClosed):
        while True:
            try:
                for message in consumer:
                    if random.random() < 0.02:
                        raise RuntimeError("the job fails")
                    write("done", message["job"])
            except RuntimeError:
                time.sleep(0.01)


run = uuid.uuid4().hex[:8]
producers = [threading.Thread(target=produce, args=[f"{run}-{n}"]) for n in range(2)]
working = [
    threading.Thread(target=work, args=[f"w{n}", prefetch, timeout])
    for n, (prefetch, timeout) in enumerate([(1, None), (1, 0.2), (10, None), (3, 0.05)])
]
for thread in [*producers, *working]:
    thread.start()
for thread in producers:
    while thread.is_alive():
        thread.join(0.1)
while workers.lag or workers.pending():
    if not all(thread.is_alive() for thread in working):
        sys.exit("a worker has died")
    time.sleep(0.05)
db.close()
for thread in working:
    thread.join()
