"""Servers as the benchmark sees them."""

from collections.abc import Iterator

import pytest
import redis

from headrace.measuring.targets import HEADRACE, REDIS, Target


def _target(name: str, client: redis.Redis) -> Target:
    options = client.connection_pool.connection_kwargs
    return Target(name, {"host": "127.0.0.1", "port": options["port"]}, client.info("server")["process_id"])


@pytest.fixture
def targets(headrace_server: redis.Redis, redis_server: redis.Redis) -> Iterator[list[Target]]:
    """Headrace and redis-server, in memory."""
    both = [_target(HEADRACE, headrace_server), _target(REDIS, redis_server)]
    yield both
    for target in both:
        target.close()
