"""A dramatiq application on dramatiq's own Redis broker, which is a script. dramatiq's own program runs it."""

import os
import time

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

URL = f"redis://127.0.0.1:{os.environ.get('APP_PORT', '6379')}"
HOLD = bool(os.environ.get("APP_HOLD"))

# A worker that has done nothing for a second is dead; every command looks for dead workers.
broker = RedisBroker(url=URL, heartbeat_timeout=1000, maintenance_chance=1_000_000)
broker.add_middleware(Results(backend=RedisBackend(url=URL)))
dramatiq.set_broker(broker)
notes = redis.Redis.from_url(URL)


@dramatiq.actor(store_results=True)
def work(number: int) -> int:
    """Do a job."""
    notes.sadd("started", number)
    if HOLD:
        time.sleep(3600)
    notes.sadd("done", number)
    return number * number


@dramatiq.actor(max_retries=2, min_backoff=10, max_backoff=50)
def fail(number: int) -> None:
    """Do a job badly, three times."""
    notes.rpush("attempts", number)
    raise ValueError("no luck")
