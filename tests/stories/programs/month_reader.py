"""The reader of a month of one key: a group of one, which acknowledges what it has noted.

    python month_reader.py hours

It ends when it has noted so many events. The ledger `read` has them.
"""

import os
import sys
import time

import redis

client = redis.Redis(port=int(os.environ["STORY_PORT"]), decode_responses=True)
place = "0"  # what it was given before it was killed comes first
with open("read", "a+") as ledger:
    ledger.seek(0)
    noted = set(ledger.read().split())
while len(noted) < int(sys.argv[1]):
    try:
        found = client.xreadgroup("readers", "one", {"events": place}, count=100, block=1000)
        messages = found[0][1] if found else []
        for id, fields in messages:
            if fields and fields["number"] not in noted:
                with open("read", "a") as ledger:
                    ledger.write(f"{fields['number']}\n")
                noted.add(fields["number"])
            client.xack("events", "readers", id)
        if not messages:
            place = ">"
    except (redis.ConnectionError, redis.TimeoutError):
        place = "0"
        time.sleep(0.02)
