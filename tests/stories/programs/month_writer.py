"""A month of one key: an event an hour by the server's clock, kept for seven days, with a note that lives for two.

    python month_writer.py hours

Events are numbered; after a lost answer one is sent again, and the server recognises it. The ledger `added` has the
events that were acknowledged, with their IDs.
"""

import os
import sys
import time

import redis

HOUR_MS = 3_600_000
client = redis.Redis(port=int(os.environ["STORY_PORT"]), decode_responses=True)


def retry(command, *arguments, **options):
    """Run a command until it is answered."""
    while True:
        try:
            return command(*arguments, **options)
        except (redis.ConnectionError, redis.TimeoutError):
            time.sleep(0.02)


def now_ms() -> int:
    """Ask the server for the time."""
    seconds, micros = retry(client.time)
    return seconds * 1000 + micros // 1000


begin = now_ms()
for number in range(int(sys.argv[1])):
    while (now := now_ms()) < begin + number * HOUR_MS:
        time.sleep(0.002)
    oldest = now - 7 * 24 * HOUR_MS
    producer = ("writer", str(number).encode())
    # What the reader has not acknowledged yet is kept.
    id = retry(
        client.xadd, "events", {"number": number}, idmp=producer, minid=oldest, approximate=False, ref_policy="ACKED"
    )
    retry(client.set, f"note:{number}", now, px=2 * 24 * HOUR_MS)
    with open("added", "a") as ledger:
        ledger.write(f"{number} {id} {oldest}\n")
