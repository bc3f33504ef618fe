"""What the tests of commands share: what a redis-server propagates."""

from collections.abc import Iterator

import pytest
import redis

from support.replication_feed import ReplicationFeed


@pytest.fixture
def feed(redis_server: redis.Redis) -> Iterator[ReplicationFeed]:
    """What the redis-server propagates; it expires a key only when a command finds it, so effects come in order."""
    redis_server.config_set("repl-diskless-sync", "no")
    redis_server.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    feed = ReplicationFeed(int(redis_server.connection_pool.connection_kwargs["port"]))
    yield feed
    feed.close()
    redis_server.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", "1")
