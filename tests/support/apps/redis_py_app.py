"""Two programs on redis-py alone: one that works under a lock, one that listens to a channel."""

import os
import sys
import time

import redis

PORT = int(os.environ["APP_PORT"])
NAME = os.environ["APP_NAME"]
HOLD = bool(os.environ.get("APP_HOLD"))


def work_under_lock(client: redis.Redis) -> None:
    """Take jobs from a list, each under the lock; the job in work is in a list of its own until it is done."""
    while True:
        with client.lock("lock", timeout=1, sleep=0.01):
            left = client.lrange("in work", 0, -1)
            number = left[0] if left else client.lmove("jobs", "in work", "LEFT", "RIGHT")
            if number is None:
                time.sleep(0.01)
                continue
            client.sadd("started", number)
            if HOLD:
                time.sleep(3600)
            client.sadd("done", number)
            client.lrem("in work", 1, number)


def listen(client: redis.Redis) -> None:
    """Note what is said on a channel."""
    listener = client.pubsub(ignore_subscribe_messages=True)
    listener.subscribe("news")
    listener.psubscribe("weather.*")
    for message in listener.listen():
        client.sadd("heard", f"{NAME} {message['channel']} {message['data']}")


if __name__ == "__main__":
    {"lock": work_under_lock, "listen": listen}[sys.argv[1]](redis.Redis(port=PORT, decode_responses=True))
