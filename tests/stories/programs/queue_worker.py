"""A worker of a group over redis-py: takes what others left too long, then what is new, and acknowledges it.

    python queue_worker.py name

On SIGTERM it ends. The ledger `done` has the jobs that were done.
"""

import os
import signal
import sys
import threading
import time

import redis

stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
client = redis.Redis(port=int(os.environ["STORY_PORT"]), decode_responses=True)
name = sys.argv[1]


def do(messages: list[tuple[str, dict[str, str]]]) -> None:
    """Do jobs, and acknowledge each."""
    for id, fields in messages:
        with open("done", "a") as ledger:
            ledger.write(f"{fields['job']}\n")
        client.xack("jobs", "workers", id)


while not stopping.is_set():
    try:
        _, claimed, _ = client.xautoclaim("jobs", "workers", name, min_idle_time=1000, count=10)
        do(claimed)
        for _, messages in client.xreadgroup("workers", name, {"jobs": ">"}, count=5, block=300) or ():
            do(messages)
    except (redis.ConnectionError, redis.TimeoutError):
        time.sleep(0.05)
    except redis.ResponseError as error:
        if "NOGROUP" not in str(error):
            raise
        try:
            client.xgroup_create("jobs", "workers", "0", mkstream=True)
        except redis.ResponseError as exists:
            if "BUSYGROUP" not in str(exists):
                raise
