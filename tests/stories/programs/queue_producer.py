"""A producer of jobs over redis-py, which sends a job again when it got no answer; the server recognises it.

    python queue_producer.py name

On SIGTERM it ends. The ledger `added` has the jobs that were acknowledged.
"""

import os
import random
import signal
import sys
import threading
import time

import redis

stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
client = redis.Redis(port=int(os.environ["STORY_PORT"]), decode_responses=True)
name = sys.argv[1]
number = 0
while not stopping.is_set():
    for _ in range(random.randint(1, 20)):
        job = f"{name}:{number}"
        while True:
            try:
                client.xadd("jobs", {"job": job}, idmp=(name, str(number).encode()))
                break
            except (redis.ConnectionError, redis.TimeoutError):
                time.sleep(0.05)
        with open("added", "a") as ledger:
            ledger.write(f"{job}\n")
        number += 1
    stopping.wait(random.choice([0, 0.01, 0.5]))
